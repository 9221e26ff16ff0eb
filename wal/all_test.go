package wal

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// records are Records with payloads from..from+count-1 of n bytes.
func records(from, count, n int) []*Record {
	var out []*Record
	for i := range count {
		out = append(out, record(payload(from+i, n)))
	}
	return out
}

// commitAll commits n records by one CommitAll.
func (v *life) commitAll(n int, deferred bool) error {
	rs := make([]*Record, n)
	for i := range rs {
		rs[i] = &Record{Deferred: deferred, Prepare: func(lsn base.LSN) ([][]byte, error) { return [][]byte{v.content(lsn)}, nil }}
	}
	_, err := v.l.CommitAll(context.Background(), rs)
	v.mu.Lock()
	v.deferred = deferred
	v.mu.Unlock()
	v.ack()
	return err
}

// Records that are committed at once share a batch, and so a write and a sync.
func TestCommitAll(t *testing.T) {
	w, _ := hooked(t)
	l := w.open(t)
	mustCommit(t, l, 1, 10)
	before := l.Metrics()
	if n, err := l.CommitAll(t.Context(), records(2, 5, 100)); n != 5 || err != nil {
		t.Fatalf("%d committed, %v", n, err)
	}
	m := l.Metrics()
	if m.Batches-before.Batches != 1 || m.Syncs-before.Syncs != 1 || m.Records-before.Records != 5 || l.DurableLSN() != 6 {
		t.Errorf("%+v, after %+v", m, before)
	}
	if n, err := l.CommitAll(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("none: %d, %v", n, err)
	}
	if n, err := l.CommitAll(t.Context(), []*Record{record(nil), {}}); n != 0 || err == nil {
		t.Errorf("a record without Prepare: %d, %v", n, err)
	}
	mustClose(t, l)
	if n, err := l.CommitAll(t.Context(), records(7, 2, 10)); n != 0 || !errors.Is(err, fault.ErrClosed) {
		t.Errorf("closed: %d, %v", n, err)
	}
	got, _, err := readLog(w.recoverOptions())
	if err != nil || len(got) != 6 {
		t.Fatalf("%d records, %v", len(got), err)
	}
}

// One caller is not company: who commits alone after a CommitAll leads again.
func TestCommitAllIsOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := hooked(t)
		l := w.open(t)
		if _, err := l.CommitAll(t.Context(), records(1, 3, 10)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		l.q.mu.Lock()
		offered := l.q.mu.loan == loanOffered
		l.q.mu.Unlock()
		if !offered {
			t.Error("the committer does not lend its turn")
		}
		mustClose(t, l)
	})
}

// A record that is not committed takes those behind it along, and none before it, whatever refuses
// it; others who commit meanwhile are not touched.
func TestCommitAllRefused(t *testing.T) {
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		third *Record
		want  error
	}{
		"by Prepare": {&Record{Prepare: func(base.LSN) ([][]byte, error) { return nil, refused }}, refused},
		"too large":  {&Record{Prepare: func(base.LSN) ([][]byte, error) { return [][]byte{make([]byte, base.MaxRecord+1)}, nil }}, fault.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, l, release, first := busy(t.Context(), t)
				rs := records(2, 5, 10)
				rs[2] = tc.third
				var n int
				all := make(chan error)
				go func() {
					var err error
					n, err = l.CommitAll(t.Context(), rs)
					all <- err
				}()
				synctest.Wait()
				other := make(chan error)
				go func() { other <- commit(l, payload(4, 10)) }()
				synctest.Wait()
				close(release)
				if err := errors.Join(<-first, <-all); !errors.Is(err, tc.want) || n != 2 {
					t.Errorf("%d committed, %v", n, err)
				}
				if err := <-other; err != nil {
					t.Error(err)
				}
				w.closesWith(t, l, 4, 10)
			})
		})
	}
}

// A refusal for want of space that has passed when the next record is asked leaves no gap.
func TestCommitAllAfterFullDisk(t *testing.T) {
	t.Run("a batch", func(t *testing.T) {
		w, h := hooked(t)
		l := w.open(t, func(o *Options) { o.FileSize = 4 << 20 })
		mustCommit(t, l, 1, 10)
		h.set(onlyOnce(failOn("write", syscall.ENOSPC)))
		rs := records(2, 4, 700<<10) // two batches at least
		for _, r := range rs {
			r.Size = 700 << 10
		}
		n, err := l.CommitAll(t.Context(), rs)
		if n != 0 || !errors.Is(err, fault.ErrDiskFull) {
			t.Errorf("%d committed, %v", n, err)
		}
		mustCommit(t, l, 2, 10)
		w.closesWith(t, l, 2, 10)
	})
	t.Run("the reserve", func(t *testing.T) {
		w, _ := hooked(t)
		space := &roomy{FS: w.fs}
		l := w.open(t, func(o *Options) { o.FS, o.Reserve = space, 1000 })
		mustCommit(t, l, 1, 10)
		space.left = []int64{10, 5000, 5000, 5000}
		l.c.low = true // nothing is under way: ask again
		n, err := l.CommitAll(t.Context(), records(2, 3, 10))
		if n != 0 || !errors.Is(err, fault.ErrDiskFull) {
			t.Errorf("%d committed, %v", n, err)
		}
		mustCommit(t, l, 2, 10)
		w.closesWith(t, l, 2, 10)
	})
}

// roomy is a file system whose free space is what left says, call by call.
type roomy struct {
	vfs.FS
	left []int64
}

func (r *roomy) FreeSpace(string) (int64, error) {
	if len(r.left) == 0 {
		return 1 << 40, nil
	}
	n := r.left[0]
	r.left = r.left[1:]
	return n, nil
}

// Who gives up takes back what is queued, from the end; the outcome of what the committer has is
// unknown, and known after a Sync.
func TestCommitAllCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l, release, first := busy(t.Context(), t)
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error, 1)
		go func() {
			n, err := l.CommitAll(ctx, records(77, 3, 10))
			if n != 0 || l.Metrics().QueueDepth != 0 {
				err = errors.New("some are left")
			}
			given <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrOutcomeUnknown) {
			t.Fatalf("withdrawn: %v", err)
		}
		close(release)
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		// The second of three is in the committer's hands; it goes on with the third.
		ctx, cancel = context.WithCancel(t.Context())
		rs := records(2, 3, 10)
		held, let := make(chan struct{}), make(chan struct{})
		rs[1].Prepare = func(base.LSN) ([][]byte, error) {
			close(held)
			<-let
			return [][]byte{payload(3, 10)}, nil
		}
		go func() {
			n, err := l.CommitAll(ctx, rs)
			if n != 0 { // the first is prepared, not committed
				err = errors.New("some are committed")
			}
			given <- err
		}()
		<-held
		cancel()
		if err := <-given; !errors.Is(err, context.Canceled) || !errors.Is(err, fault.ErrOutcomeUnknown) {
			t.Fatalf("taken: %v", err)
		}
		close(let)
		if err := l.Sync(t.Context()); err != nil || l.LastLSN() != 3 {
			t.Fatalf("after a Sync %d records, %v", l.LastLSN(), err)
		}
		w.closesWith(t, l, 3, 10) // the third was withdrawn
	})
}
