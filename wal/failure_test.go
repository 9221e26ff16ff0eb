package wal

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

func hooked(t *testing.T) (*world, *hookFS) {
	t.Helper()
	h := &hookFS{FS: vfs.NewMem(vfs.MemOptions{})}
	return newWorld(h), h
}

// failOn fails each operation of a kind.
func failOn(kind string, err error) func(fsOp) error {
	return func(op fsOp) error {
		if op.kind == kind {
			return err
		}
		return nil
	}
}

// closesWith closes the log. It holds n records of a size then.
func (w *world) closesWith(t *testing.T, l *Log, n, size int) {
	t.Helper()
	mustClose(t, l)
	got, _, err := readLog(w.recoverOptions())
	if err != nil {
		t.Fatal(err)
	}
	checkPayloads(t, got, n, size)
}

func TestFailedSyncPoisons(t *testing.T) {
	for _, mode := range []Mode{SyncAlways, SyncNever} {
		for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
			w, h := hooked(t)
			var events int
			l := w.open(t, func(o *Options) {
				o.Mode = mode
				o.Events.Poisoned = func(error) { events++ }
			})
			mustCommit(t, l, 1, 100)
			if err := l.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Once: a second try would succeed, and prove nothing.
			h.set(onlyOnce(failOn("syncdata", cause)))
			err := commit(l, payload(2, 100))
			if mode == SyncNever {
				if err != nil {
					t.Fatal(err)
				}
				err = l.Sync(t.Context())
			}
			if !errors.Is(err, fault.ErrPoisoned) || !errors.Is(err, cause) {
				t.Fatalf("%s: got %v", mode, err)
			}
			h.set(nil)
			for _, again := range []error{
				commit(l, payload(3, 100)), l.Sync(t.Context()), l.Rotate(t.Context()), l.Close(),
			} {
				if !errors.Is(again, fault.ErrPoisoned) || !errors.Is(again, cause) {
					t.Fatalf("%s: later call: %v", mode, again)
				}
			}
			if ops := h.kinds(); slices.ContainsFunc(ops, func(k string) bool { return k != "remove" }) {
				t.Fatalf("%s: a poisoned log went on with %v", mode, ops)
			}
			if l.DurableLSN() != 1 || events != 1 {
				t.Fatalf("%s: DurableLSN %d, %d events", mode, l.DurableLSN(), events)
			}
			if mode == SyncAlways && (w.aborted != 1 || len(w.applied) != 1) {
				t.Fatalf("%d aborted, %d applied", w.aborted, len(w.applied))
			}
		}
	}
}

// onlyOnce lets everything pass after the first failure.
func onlyOnce(hook func(fsOp) error) func(fsOp) error {
	var mu sync.Mutex
	failed := false
	return func(op fsOp) error {
		mu.Lock()
		defer mu.Unlock()
		if failed {
			return nil
		}
		err := hook(op)
		failed = err != nil
		return err
	}
}

// The kernel reports a failed write-back once per open file. If the sync of
// preallocated zeros collects the error of a commit's bytes, the commit's own
// sync would succeed; it must not even be tried.
func TestPreallocationCollectsTheError(t *testing.T) {
	w, h := hooked(t)
	l := w.open(t, func(o *Options) { o.Inline = false; o.FileSize = 1 << 20 })
	mustCommit(t, l, 1, 1000)

	var mu sync.Mutex
	zeros, inSync, written := false, make(chan struct{}), make(chan struct{})
	release := make(chan struct{})
	later := 0
	h.set(func(op fsOp) error {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case op.kind == "write" && lastUsed(op.data) == 0:
			zeros = true
		case op.kind == "write" && zeros:
			close(written)
		case op.kind == "syncdata" && zeros:
			select {
			case <-inSync:
				later++
				return nil
			default:
			}
			close(inSync)
			mu.Unlock()
			<-release
			mu.Lock()
			return syscall.EIO
		}
		return nil
	})
	mustCommit(t, l, 2, 12<<10) // wakes the preallocator
	<-inSync
	third := make(chan error)
	go func() { third <- commit(l, payload(3, 100)) }()
	<-written // the third commit's bytes are in the page cache, to be lost
	close(release)
	if err := <-third; !errors.Is(err, fault.ErrPoisoned) {
		t.Fatalf("the commit whose bytes were lost returned %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if later != 0 {
		t.Fatal("a sync was tried after one had failed")
	}
	if err := l.Close(); !errors.Is(err, fault.ErrPoisoned) {
		t.Fatal(err)
	}
}

func TestFailedWritePoisons(t *testing.T) {
	for _, kind := range []string{"write", "create-sync", "create-syncdir"} {
		w, h := hooked(t)
		l := w.open(t)
		switch kind {
		case "write":
			mustCommit(t, l, 1, 100)
			h.set(failOn("write", &shortWrite{10, syscall.EIO}))
		case "create-sync":
			h.set(failOn("sync", syscall.EIO))
		case "create-syncdir":
			h.set(failOn("syncdir", syscall.EIO))
		}
		if err := commit(l, payload(2, 100)); !errors.Is(err, fault.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("%s: %v", kind, err)
		}
		h.set(nil)
		if err := commit(l, payload(3, 100)); !errors.Is(err, fault.ErrPoisoned) {
			t.Fatalf("%s: %v", kind, err)
		}
		_ = l.Close()
		l, _, got, err := w.reopen()
		if err != nil || kind == "write" && len(got) != 1 {
			t.Fatalf("%s: reopen: %d records, %v", kind, len(got), err)
		}
		mustClose(t, l)
	}
}

// A full disk refuses what does not fit, leaves nothing of it behind, and is
// forgotten once there is room.
func TestDiskFull(t *testing.T) {
	for _, let := range []int{0, 1, 40, 500, 4096} {
		w, h := hooked(t)
		var events int
		l := w.open(t, func(o *Options) { o.Events.DiskFull = func(error) { events++ } })
		mustCommit(t, l, 1, 100)
		h.set(failOn("write", &shortWrite{let, syscall.ENOSPC}))
		for range 3 {
			err := commit(l, payload(99, 600))
			if !errors.Is(err, fault.ErrDiskFull) || !errors.Is(err, syscall.ENOSPC) || errors.Is(err, fault.ErrPoisoned) {
				t.Fatalf("got %v", err)
			}
		}
		if events != 1 || w.aborted != 3 || l.LastLSN() != 1 {
			t.Fatalf("%d events, %d aborted, last %d", events, w.aborted, l.LastLSN())
		}
		// What a reader sees now, and after the power went: the first record.
		if got, r, err := readLog(w.recoverOptions()); err != nil || len(got) != 1 || r.Torn.Bytes != 0 {
			t.Fatalf("%d records, %+v, %v", len(got), r.Torn, err)
		}
		h.set(nil)
		mustCommit(t, l, 2, 100)
		w.closesWith(t, l, 2, 100)
	}
}

// Space runs out anywhere: creating a file, its zeros, its header, the
// manifest's edit, the frames, the zeros ahead.
func TestDiskFullEverywhere(t *testing.T) {
	var refused int
	for n := 1; ; n++ {
		w, h := hooked(t)
		count, hit := 0, false
		h.set(func(op fsOp) error {
			if op.kind != "write" && op.kind != "create" {
				return nil
			}
			count++
			if count == n || count == n+1 {
				hit = true
				return &shortWrite{len(op.data) / 2, syscall.ENOSPC}
			}
			return nil
		})
		l := w.open(t, func(o *Options) {
			o.OnCreate = func(fi FileInfo) error {
				if err := h.ask(fsOp{kind: "write", name: "manifest"}); err != nil {
					return err
				}
				return w.created(fi)
			}
		})
		for i := 1; i <= 20; i++ {
			err := commit(l, payload(i, 9000))
			for ; err != nil; err = commit(l, payload(i, 9000)) {
				if !errors.Is(err, fault.ErrDiskFull) {
					t.Fatalf("space short at write %d, commit %d: %v", n, i, err)
				}
				refused++
			}
		}
		mustClose(t, l)
		got, r, err := readLog(w.recoverOptions())
		if err != nil {
			t.Fatalf("space short at write %d: %v", n, err)
		}
		checkPayloads(t, got, 20, 9000)
		if len(r.Strays) > 0 {
			t.Fatalf("space short at write %d: strays %v", n, r.Strays)
		}
		if !hit {
			t.Logf("%d places, %d commits refused and repeated", n-1, refused)
			if refused == 0 {
				t.Fatal("the failures did not reach a commit")
			}
			return
		}
	}
}

func TestReserve(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Capacity: 1 << 20})
	w := newWorld(mem)
	l := w.open(t, func(o *Options) { o.Reserve = 512 << 10 })
	var n int
	for n = 1; ; n++ {
		if err := commit(l, payload(n, 9000)); err != nil {
			if !errors.Is(err, fault.ErrDiskFull) {
				t.Fatal(err)
			}
			break
		}
	}
	if w.aborted != 0 {
		t.Fatal("refused for the reserve, but prepared")
	}
	r := record(payload(n, 9000))
	r.Urgent = true
	if err := l.Commit(t.Context(), r); err != nil {
		t.Fatalf("an urgent record: %v", err)
	}
	mem.SetCapacity(8 << 20)
	mustCommit(t, l, n+1, 9000)
	mustClose(t, l)
}

// TestRotateBeforeFull: a log whose next file the manifest has no space for is sealed by Rotate all
// the same. Its owner may flush the file and remove it, and nothing takes that for a loss.
func TestRotateBeforeFull(t *testing.T) {
	for _, mode := range []Mode{SyncAlways, SyncInterval, SyncNever} {
		w, _ := hooked(t)
		full := false
		l := w.open(t, func(o *Options) {
			o.Mode = mode
			o.OnCreate = func(fi FileInfo) error {
				if full {
					return syscall.ENOSPC
				}
				return w.created(fi)
			}
		})
		mustCommit(t, l, 1, 9000)
		full = true
		for n := 2; ; n++ {
			if err := commit(l, payload(n, 9000)); errors.Is(err, fault.ErrDiskFull) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		full = false
		if err := l.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := w.fs.Remove(filepath.Join(w.dir, base.LogFile.Name(1))); err != nil {
			t.Fatal(err)
		}
		w.files = nil
		first := l.LastLSN() + 1
		if err := l.Sync(t.Context()); err != nil {
			t.Fatalf("mode %v: sync: %v", mode, err)
		}
		mustCommit(t, l, 1, 10)
		mustClose(t, l)
		o := w.recoverOptions()
		o.FromLSN = first
		got, _, err := readLog(o)
		if err != nil {
			t.Fatalf("mode %v: %v", mode, err)
		}
		checkPayloads(t, got, 1, 10)
	}
}

func TestOnCreateFails(t *testing.T) {
	w, _ := hooked(t)
	fail := errors.New("manifest is poisoned")
	l := w.open(t, func(o *Options) { o.OnCreate = func(FileInfo) error { return fail } })
	if err := commit(l, payload(1, 10)); !errors.Is(err, fault.ErrPoisoned) || !errors.Is(err, fail) {
		t.Fatal(err)
	}
	_ = l.Close()
	// The owner may have entered the file before it failed: it must stay.
	if names, _ := w.fs.List(w.dir); len(names) != 1 || names[0] != base.LogFile.Name(1) {
		t.Fatalf("left behind: %v", names)
	}
}

// busy is a log whose committer has a record, from a caller with ctx, until release is closed.
// committed gets what came of it.
func busy(ctx context.Context, t *testing.T, opts ...func(*Options)) (w *world, l *Log, release chan struct{}, committed chan error) {
	t.Helper()
	w, _ = hooked(t)
	l = w.open(t, opts...)
	release, committed = make(chan struct{}), make(chan error, 1)
	taken := make(chan struct{})
	go func() {
		committed <- l.Commit(ctx, &Record{Prepare: func(base.LSN) ([][]byte, error) {
			close(taken)
			<-release
			return [][]byte{payload(1, 10)}, nil
		}})
	}()
	<-taken
	return w, l, release, committed
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w, l, release, first := busy(ctx, t)

		// Queued, not taken: withdrawn.
		ctx2, cancel2 := context.WithCancel(t.Context())
		second := make(chan error)
		go func() { second <- l.Commit(ctx2, record(payload(77, 10))) }()
		synctest.Wait()
		if n := l.Metrics().QueueDepth; n != 1 {
			t.Fatalf("queue depth %d", n)
		}
		cancel2()
		if err := <-second; !errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrOutcomeUnknown) {
			t.Fatalf("withdrawn: %v", err)
		}

		// Taken: the outcome is unknown to the caller; here it is committed.
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) || !errors.Is(err, fault.ErrOutcomeUnknown) {
			t.Fatalf("taken: %v", err)
		}
		if err := l.Commit(ctx, record(nil)); !errors.Is(err, context.Canceled) {
			t.Fatalf("cancelled before: %v", err)
		}
		close(release)
		mustCommit(t, l, 2, 10)
		w.closesWith(t, l, 2, 10)
	})
}

func TestFullQueueWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l, release, first := busy(t.Context(), t, func(o *Options) { o.MaxQueueRecords = 1 })
		errs := make(chan error, 2)
		go func() { errs <- commit(l, payload(2, 10)) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		full := make(chan error)
		go func() { full <- l.Commit(ctx, record(payload(98, 10))) }()
		synctest.Wait()
		if n := l.Metrics().QueueDepth; n != 1 {
			t.Fatalf("queue depth %d, the limit is 1", n)
		}
		cancel()
		if err := <-full; !errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrOutcomeUnknown) {
			t.Fatalf("cancelled while the queue was full: %v", err)
		}
		go func() { errs <- commit(l, payload(3, 10)) }()
		synctest.Wait()
		close(release)
		if err := errors.Join(<-first, <-errs, <-errs); err != nil {
			t.Fatal(err)
		}
		w.closesWith(t, l, 3, 10)
	})
}
