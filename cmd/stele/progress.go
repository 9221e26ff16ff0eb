package main

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"

	"github.com/stele-go/stele/saver/admin"
)

// bar is a progress bar on a terminal.
type bar struct {
	pw   progress.Writer
	done chan struct{}

	mu      sync.Mutex
	tracker *progress.Tracker
	step    string
}

// report runs the work of a command, with its progress on the terminal, and prints the
// report that it returns: as JSON for machines, else with print.
func report[R any](a *app, work func(admin.Access, func(admin.Progress)) (R, error), print func(*printer, R)) error {
	access, err := a.flags.access()
	if err != nil {
		return err
	}
	tell, stop := a.progress()
	rep, err := work(access, tell)
	stop()
	if err != nil {
		return err
	}
	return a.print(rep, func(p *printer) { print(p, rep) })
}

// progress starts a progress bar. It returns a function that moves the bar, and one to
// call at the end. Without a terminal, or if the flags say so, there is no bar and tell
// is nil.
func (a *app) progress() (tell func(admin.Progress), stop func()) {
	if a.flags.json || a.flags.noProgress || !isTerminal(a.err) {
		return nil, func() {}
	}
	b := &bar{pw: progress.NewWriter(), done: make(chan struct{})}
	b.pw.SetOutputWriter(a.err)
	b.pw.SetAutoStop(false)
	b.pw.SetUpdateFrequency(100 * time.Millisecond)
	b.pw.SetTrackerLength(30)
	b.pw.SetMessageLength(24)
	b.pw.Style().Visibility.Value = true
	go func() {
		defer close(b.done)
		b.pw.Render()
	}()
	return b.tell, b.stop
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// counted are the steps whose progress is a count. Others count bytes.
var counted = map[string]bool{"index": true, "checkpoints": true, "families": true, "old files": true, "copy": true, "verify": true}

func (b *bar) tell(p admin.Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tracker == nil || b.step != p.Step {
		b.finishLocked()
		b.step = p.Step
		b.tracker = &progress.Tracker{Message: p.Step, Total: p.Total, Units: progress.UnitsBytes}
		if counted[p.Step] {
			b.tracker.Units = progress.UnitsDefault
		}
		b.pw.AppendTracker(b.tracker)
	}
	if p.Total != b.tracker.Total {
		b.tracker.UpdateTotal(p.Total)
	}
	b.tracker.SetValue(min(p.Done, max(p.Total-1, 0))) // finished when the step is
}

func (b *bar) finishLocked() {
	if b.tracker != nil {
		b.tracker.MarkAsDone()
	}
}

func (b *bar) stop() {
	b.mu.Lock()
	b.finishLocked()
	b.mu.Unlock()
	time.Sleep(150 * time.Millisecond) // the bar is drawn once more
	b.pw.Stop()
	<-b.done
}
