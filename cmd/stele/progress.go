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

// bar shows how far a long piece of work is, on a terminal.
type bar struct {
	pw   progress.Writer
	done chan struct{}

	mu      sync.Mutex
	tracker *progress.Tracker
	step    string
}

// progress returns what to tell progress to, and what to call at the end. Where there
// is no terminal, or nobody wants to see it, the first is nil.
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

// counted are the steps whose progress counts things, not bytes.
var counted = map[string]bool{"index": true, "checkpoints": true, "families": true, "old files": true}

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
	time.Sleep(150 * time.Millisecond) // one more picture
	b.pw.Stop()
	<-b.done
}
