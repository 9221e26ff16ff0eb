package kill

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/test/parity"
)

// life is a store on its way through a recording.
type life struct {
	*runner
	f      *parity.Fixture
	writes []int // lines of the calls that change the store
	dir    string

	acked   int // the ledger: line of the last call that returned
	mode    disk.SyncMode
	ackedBy int // calls the last child acknowledged
	took    time.Duration
}

// plan says when a child dies.
type plan struct {
	acks    int           // after so many acknowledged calls, or never
	started time.Duration // so long after it was started
	opened  time.Duration // so long after it had opened the store
}

func (p plan) never() bool { return p == plan{} }

// plan picks one of the three ways to die, so that the rest of the recording
// lasts for left more kills. A child that only asks is not worth killing.
func (st *life) plan(left int) plan {
	remaining := len(st.writes) - st.acknowledged()
	if left == 0 || remaining == 0 {
		return plan{}
	}
	acks := plan{acks: 1 + st.random.IntN(max(1, 4*remaining/(left+1)))}
	if st.opts.LoseLog {
		return acks // there is something to lose
	}
	switch st.random.IntN(8) {
	case 0: // at any moment, recovery included
		return plan{started: time.Duration(5+st.random.IntN(45)) * time.Millisecond}
	case 1, 2, 3:
		return plan{opened: time.Duration(1+st.random.IntN(49)) * time.Millisecond}
	}
	return acks
}

// child runs one child from behind the ledger, and reports whether it was
// killed. It was not if it came to the end of the recording first.
func (st *life) child(ctx context.Context, left int) (killed bool, err error) {
	opts, p := st.options(), st.plan(left)
	spec, err := json.Marshal(job{Dir: st.dir, Fixture: st.f.Name, From: st.acked + 1, Options: opts})
	if err != nil {
		return false, err
	}
	exe, err := os.Executable()
	if err != nil {
		return false, err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), childVariable+"="+string(spec))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	start := time.Now()
	done, differences := st.listen(cmd.Process, out, p)
	err = cmd.Wait()
	st.took, st.mode = time.Since(start), opts.Sync
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case done:
		if differences > 0 {
			st.result.differ(differences, errors.New(strings.TrimSpace(stderr.String())))
		}
		return false, nil
	case p.never() || stderr.Len() > 0:
		return false, fmt.Errorf("child ended by itself: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	st.result.ByMode[opts.Sync]++
	return true, nil
}

// listen keeps the ledger until the child's end, which it brings about as p
// says. The lines a child wrote before it died are read after its death too.
func (st *life) listen(child *os.Process, out io.Reader, p plan) (done bool, differences int) {
	kill := func() { _ = child.Kill() } // too late is no error: the child is at its end
	if p.started > 0 {
		defer time.AfterFunc(p.started, kill).Stop()
	}
	st.ackedBy = 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var what string
		var n int
		if _, err := fmt.Sscan(lines.Text(), &what, &n); err != nil {
			continue
		}
		switch what {
		case lineOpen:
			if p.opened > 0 {
				defer time.AfterFunc(p.opened, kill).Stop()
			}
		case lineAck:
			st.acked = n
			if st.ackedBy++; st.ackedBy == p.acks {
				kill()
			}
		case lineDone:
			done, differences = true, n
		}
	}
	return done, differences
}

// verify opens the store of a killed child and compares all of it with what the
// ledger says. It reports false if they differ: the store is then given up.
func (st *life) verify(ctx context.Context) (bool, error) {
	if st.opts.LoseLog {
		if err := loseLog(st.dir); err != nil {
			return false, err
		}
	}
	opts := st.options()
	// Without recovery by its parent, the next child recovers, and may be killed
	// while it does.
	opts.ReadOnly = st.random.IntN(3) == 0 && st.acked > 0
	s, err := opts.open(st.dir)
	if err != nil {
		st.result.differ(max(1, st.acknowledged()), fmt.Errorf("%s: open after a kill: %w", st.f.Name, err))
		return false, nil
	}
	inFlight, err := st.compare(ctx, s)
	if err == nil {
		err = st.count(ctx, s)
	}
	report := s.OpenReport()
	if cerr := s.Close(); cerr != nil {
		return false, fmt.Errorf("close after a kill: %w", cerr)
	}
	if inFlight {
		st.result.InFlight++
	}
	if report.DroppedBytes > 0 {
		st.result.Dropped++
	}
	verdict := "same bytes"
	if err != nil {
		verdict = "DIFFERENT"
		var differs *parity.DifferenceError
		if !errors.As(err, &differs) {
			st.result.differ(max(1, st.acknowledged()), fmt.Errorf("%s: read after a kill: %w", st.f.Name, err))
		} else {
			st.result.differ(len(differs.Differences), err)
		}
	}
	fmt.Fprintf(st.opts.Progress, "kill %2d  %-15s sync %-8s %4d calls in %3d ms, up to line %4d of %d; %4d records replayed: %s\n",
		st.result.Kills, st.f.Name, st.mode, st.ackedBy, st.took.Milliseconds(), st.acked, st.f.Lines, report.Replayed, verdict)
	return err == nil, nil
}

// acknowledged is how many calls the ledger has that change the store.
func (st *life) acknowledged() int {
	n := 0
	for _, line := range st.writes {
		if line <= st.acked {
			n++
		}
	}
	return n
}

// compare is nil if the store is what the acknowledged calls made, or they and
// the next one, which was in flight.
func (st *life) compare(ctx context.Context, s saver.Saver) (inFlight bool, err error) {
	err = parity.VerifyAt(ctx, s, memory.New(memory.Options{}), st.f, st.acked)
	if n := st.acknowledged(); err != nil && n < len(st.writes) {
		if parity.VerifyAt(ctx, s, memory.New(memory.Options{}), st.f, st.writes[n]) == nil {
			return true, nil
		}
	}
	return false, err
}

func (st *life) count(ctx context.Context, s saver.Saver) error {
	for tup, err := range s.List(ctx, saver.Query{}) {
		if err != nil {
			return err
		}
		st.result.Checkpoints++
		st.result.Writes += len(tup.PendingWrites)
	}
	return nil
}

// finish opens the store of a recording that came to its end and asks what the
// recording asks after its last write.
func (st *life) finish(ctx context.Context) error {
	s, err := st.options().open(st.dir)
	if err != nil {
		return err
	}
	tally, err := parity.VerifyAll(ctx, s, st.f)
	if len(tally.Differences) > 0 {
		st.result.differ(len(tally.Differences), err)
		err = nil
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	st.result.Recordings++
	return os.RemoveAll(st.dir)
}
