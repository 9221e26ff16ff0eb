package crash

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// slowRun is a store on a device of which one kind of operation takes its time.
type slowRun struct {
	t     *testing.T
	d     *disk.Saver
	inj   *faultfs.Injector
	op    faultfs.Op                // the slow one
	acked [slowWriters]atomic.Int64 // by writer: the checkpoint that was acknowledged last
	done  atomic.Bool

	mu     sync.Mutex
	gaveUp map[string]bool // checkpoints whose caller left; true: it was told that nothing was written
}

const slowWriters, slowPuts = 4, 10

func (r *slowRun) put(ctx context.Context, thread string, n int) error {
	cfg := saver.Config{ThreadID: thread}
	if n > 1 {
		cfg.CheckpointID = fmt.Sprintf("%06d", n-1)
	}
	cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("%06d", n), Values: map[string]saver.Value{"n": saver.ValueOf(n)}, Versions: map[string]saver.Version{"n": saver.IntVersion(int64(n))}}
	_, err := r.d.Put(ctx, cfg, cp, nil, cp.Versions)
	return err
}

// slow is how many slow operations there were.
func (r *slowRun) slow() int { return r.inj.Ops()[r.op] }

// write puts checkpoints one on the other, and reads each when it is acknowledged.
func (r *slowRun) write(w int) error {
	thread := fmt.Sprint("writer ", w)
	for n := 1; n <= slowPuts; n++ {
		if err := r.put(context.Background(), thread, n); err != nil {
			return err
		}
		r.acked[w].Store(int64(n))
		tup, err := r.d.GetTuple(context.Background(), saver.Config{ThreadID: thread})
		if err != nil || tup.Config.CheckpointID != fmt.Sprintf("%06d", n) {
			return fmt.Errorf("%s reads %v, %w after it put %d", thread, tup, err, n)
		}
	}
	return nil
}

// leave makes calls whose contexts end while the device is slow.
func (r *slowRun) leave() error {
	for n := 0; !r.done.Load() && n < 200; n++ {
		ctx, cancel := context.WithCancel(context.Background())
		thread, result := fmt.Sprint("left ", n), make(chan error, 1)
		go func() { result <- r.put(ctx, thread, 1) }()
		var err error
		returned := false
		for from := r.slow(); !returned && n%2 == 1 && r.slow() == from; { // until the next slow operation is under way
			select {
			case err = <-result:
				returned = true
			case <-time.After(100 * time.Microsecond):
			}
		}
		cancel()
		if !returned {
			err = <-result
		}
		switch {
		case err == nil:
		case errors.Is(err, saver.ErrOutcomeUnknown) && errors.Is(err, context.Canceled), errors.Is(err, context.Canceled):
			r.mu.Lock()
			r.gaveUp[thread] = !errors.Is(err, saver.ErrOutcomeUnknown)
			r.mu.Unlock()
		default:
			return fmt.Errorf("a call that was left: %w", err)
		}
	}
	return nil
}

// list checks that listings show a prefix of each thread, with what was acknowledged
// before they began.
func (r *slowRun) list(d *disk.Saver) error {
	for w := range slowWriters {
		acked, last := r.acked[w].Load(), int64(0)
		for tup, err := range d.List(context.Background(), saver.Query{ThreadID: fmt.Sprint("writer ", w)}) {
			if err != nil {
				return err
			}
			n, err := strconv.ParseInt(tup.Config.CheckpointID, 10, 64)
			if err != nil {
				return err
			}
			if last > 0 && n != last-1 || last == 0 && n < acked {
				return fmt.Errorf("writer %d: a listing shows %d after %d, %d was acknowledged", w, n, last, acked)
			}
			if v, err := tup.Checkpoint.Values["n"].Any(); err != nil || fmt.Sprint(v) != fmt.Sprint(n) {
				return fmt.Errorf("writer %d: checkpoint %d has %v, %w", w, n, v, err)
			}
			last = n
		}
		if last > 1 || last == 0 && acked > 0 {
			return fmt.Errorf("writer %d: a listing ends with %d, %d was acknowledged", w, last, acked)
		}
	}
	return nil
}

// absent checks that what its caller was told not to be written is not there.
func (r *slowRun) absent(d *disk.Saver) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for thread, nothing := range r.gaveUp {
		_, err := d.GetTuple(context.Background(), saver.Config{ThreadID: thread})
		if err != nil && !errors.Is(err, saver.ErrNotFound) || nothing && err == nil {
			return fmt.Errorf("%s was told that nothing was written (%t): %w", thread, nothing, err)
		}
	}
	return nil
}

// TestSlowDevice: while syncs, writes or reads of some files take long, calls wait and
// see what they must; callers that leave meanwhile are told the truth; and what was
// acknowledged survives a power cut.
func TestSlowDevice(t *testing.T) {
	for name, rule := range map[string]faultfs.Rule{
		"sync of the log":      {Op: faultfs.OpSyncData, PathGlob: "*.log"},
		"write of the log":     {Op: faultfs.OpWriteAt, PathGlob: "*.log"},
		"read of segments":     {Op: faultfs.OpReadAt, PathGlob: "*.seg"},
		"sync of segments":     {Op: faultfs.OpSync, PathGlob: "*.seg"},
		"sync of the manifest": {Op: faultfs.OpSyncData, PathGlob: "MANIFEST-*"},
		"names":                {Op: faultfs.OpSyncDir},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule.Sticky, rule.Latency = true, 2*time.Millisecond
			inner, inj := crashfs.New(), faultfs.NewInjector(rule)
			opts := disk.Options{ManualWork: true, CacheBytes: -1, MemoryBudget: -1, VersionBytes: 1 << 20, LogFileSize: 64 << 10}
			d, err := disk.Open(dir, opts.In(disk.Simulation{FS: faultfs.New(inner, inj)}))
			if err != nil {
				t.Fatal(err)
			}
			r := &slowRun{t: t, d: d, inj: inj, op: rule.Op, gaveUp: map[string]bool{}}
			var writers, beside sync.WaitGroup
			report := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			for w := range slowWriters {
				writers.Go(func() { report(r.write(w)) })
			}
			beside.Go(func() { report(r.leave()) })
			beside.Go(func() {
				for !r.done.Load() {
					report(errors.Join(d.Flush(t.Context()), r.list(d)))
				}
			})
			writers.Wait()
			r.done.Store(true)
			beside.Wait()
			report(errors.Join(d.Compact(t.Context()), r.list(d), r.absent(d)))
			cut := inner.Len()
			report(d.Close())
			for s := range inner.States(cut, crashfs.Options{MaxTorn: -1, MaxSingle: 1}) {
				after, err := disk.Open(dir, opts.In(disk.Simulation{FS: s.FS()}))
				if err != nil {
					t.Fatalf("%v\n%v", err, s)
				}
				report(errors.Join(r.list(after), r.absent(after), after.Close()))
				break // the first is "all dropped"
			}
			t.Logf("%d callers left, %d of them told that nothing was written", len(r.gaveUp), count(r.gaveUp))
		})
	}
}

func count(told map[string]bool) (n int) {
	for _, nothing := range told {
		if nothing {
			n++
		}
	}
	return n
}
