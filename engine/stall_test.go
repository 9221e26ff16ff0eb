package engine

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// While a flush does not come to its end, commits wait, one that frees space does not,
// one whose context ends stores nothing, and all is as before once the flush is done.
func TestCommitsWaitForFlush(t *testing.T) {
	ctx := context.Background()
	held, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	fsys := &besideFS{FS: vfs.NewMem(vfs.MemOptions{})}
	fsys.beside = func() { once.Do(func() { close(held) }); <-hold }
	e := mustOpen(t, Options{FS: fsys, FlushBytes: 64 << 10, ImageBytes: 1 << 40, Sync: 2})
	val := strings.Repeat("x", 1<<20)
	put := func(key string) {
		t.Helper()
		must(t, e.CommitWith(ctx, CommitOptions{Size: 1 << 20}, []string{"t"}, func(tx *Tx) error {
			v, err := NewValue([]byte(val))
			if err != nil {
				return err
			}
			return tx.Put("t", key, 0, []SlotIn{{Name: "v", Value: &v}})
		}))
	}
	put("first")
	<-held
	waited := func() (n uint64) {
		for _, c := range e.Metrics().Stalled.Counts {
			n += c
		}
		return n
	}
	for e.throttle.loggedBytes() <= 8<<20 {
		put("k")
	}
	if n := waited(); n != 0 {
		t.Fatalf("%d commits waited with little in the log", n)
	}
	// The first commit takes its turn at once. The more the log holds, the longer is a turn:
	// a second in the end, which no commit takes by itself, however busy the machine is.
	var n uint64
	for range 12 {
		put("k")
		if n = waited(); n > 0 {
			break
		}
	}
	if n == 0 {
		t.Fatal("no commit waited for the flush")
	}
	must(t, e.CommitWith(ctx, CommitOptions{Urgent: true}, []string{"t"}, func(tx *Tx) error { return tx.Delete("t", "k") }))
	if waited() != n {
		t.Error("a commit that frees space waited")
	}
	ended, end := context.WithCancel(ctx)
	end()
	err := e.Commit(ended, []string{"t"}, func(tx *Tx) error { return tx.Drop("t", nil) })
	if !errors.Is(err, context.Canceled) || errors.Is(err, errNothing) {
		t.Errorf("a commit that waited with an ended context: %v", err)
	}
	if got, err := read(e, "t", "first"); got != val {
		t.Errorf("the thread is not as it was: %d bytes, %v", len(got), err)
	}
	close(hold)
	must(t, e.Flush(ctx))
	n = waited()
	put("k")
	if waited() != n {
		t.Error("a commit waited after the flush")
	}
	must(t, e.Close())
}

// Compaction is held to its rate until it is behind by a round.
func TestCompactionHurriesWhenBehind(t *testing.T) {
	ctx := context.Background()
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true, CompactFanout: 3})
	for n := range 6 {
		if e.throttle.hurry.Load() {
			t.Fatalf("compaction hurries with %d segments", n)
		}
		mustPut(t, e, "t", "k", strings.Repeat("x", n))
		must(t, e.Flush(ctx))
	}
	if n, hurry := e.throttle.segments.Load(), e.throttle.hurry.Load(); !hurry || n != 6 {
		t.Errorf("compaction does not hurry with %d segments", n)
	}
	if did, err := e.CompactStep(ctx); !did || err != nil {
		t.Fatal(did, err)
	}
	if n, hurry := e.throttle.segments.Load(), e.throttle.hurry.Load(); hurry || n != 1 {
		t.Errorf("compaction hurries with %d segments", n)
	}
	must(t, e.Close())
}

// A store whose flushes fail goes on at full speed: its log has everything.
func TestNoStallWhereFlushesFail(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), FlushBytes: 1 << 40})
	err := errors.New("no flush")
	e.workErr.Store(&err)
	e.throttle.committed(1 << 50)
	for range 3 {
		mustPut(t, e, "t", "k", strings.Repeat("x", 1<<20))
	}
	if h := e.Metrics().Stalled; h.Sum != 0 {
		t.Errorf("commits waited %v for flushes that fail", h.Sum)
	}
	e.throttle.committed(-1 << 50)
	must(t, e.Close())
}
