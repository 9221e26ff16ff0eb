package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// asked is a context that calls a function when it is asked for its error for the n-th time.
type asked struct {
	context.Context
	n    int
	call func() error
}

// Err implements context.Context.
func (a *asked) Err() error {
	if a.n--; a.n == 0 {
		return a.call()
	}
	return nil
}

// Done implements context.Context.
func (a *asked) Done() <-chan struct{} { return nil }

// TestMoveUnderWriters: whatever moment somebody puts an item at, there or here, while it is moved, what was
// put is not lost.
func TestMoveUnderWriters(t *testing.T) {
	ctx := t.Context()
	from, to := store.Namespace{"a"}, store.Namespace{"b"}
	for _, at := range []store.Namespace{from, to} {
		for n, reached := 1, true; reached; n++ {
			s := onDisk(t, store.Options{Clock: time.Now}, "", disk.Options{})
			for i := range 3 {
				must(t, s.Put(ctx, from, fmt.Sprint(i), map[string]any{"v": "old"}))
			}
			reached = false
			busy := &asked{Context: ctx, n: n, call: func() error {
				reached = true
				return s.Put(ctx, at, "1", map[string]any{"v": "new"})
			}}
			if _, err := s.Move(busy, from, to, false); err != nil {
				t.Fatal(err)
			}
			var values []any
			for _, ns := range []store.Namespace{from, to} {
				if it, err := s.Get(ctx, ns, "1"); err == nil {
					values = append(values, it.Value["v"])
				}
			}
			// What was put before the commit is moved, or in the way; what was put behind it is a second item.
			if got := fmt.Sprint(values); reached && got != "[new]" && got != "[old new]" && got != "[new old]" || !reached && got != "[old]" {
				t.Errorf("put into %v at %d: %s", at, n, got)
			}
			if at[0] == "b" && reached && fmt.Sprint(values[len(values)-1]) != "new" {
				t.Errorf("put into %v at %d: it was replaced: %v", at, n, values)
			}
		}
	}
}

// TestMoveIsCutOff: a move that ends in the middle, by an error or because the process is killed, wherever
// that is, leaves each item in one of both namespaces, and a second one goes on.
func TestMoveIsCutOff(t *testing.T) {
	ctx, cut := t.Context(), errors.New("cut off")
	from, to := store.Namespace{"a"}, store.Namespace{"b"}
	const items = 1100 // more than two commits
	between := 0
	for n, reached := 1, true; reached; n += 97 {
		files := vfs.NewMem(vfs.MemOptions{})
		s := onFiles(t, files)
		var ops []store.Op
		for i := range items {
			ops = append(ops, store.PutOp{Namespace: from, Key: fmt.Sprint(i), Value: map[string]any{"n": i}})
		}
		if _, err := s.Batch(ctx, ops...); err != nil {
			t.Fatal(err)
		}
		reached = false
		_, err := s.Move(&asked{ctx, n, func() error {
			reached, files = true, vfs.NewMemFrom(files.Image(), vfs.MemOptions{})
			return cut
		}}, from, to, false)
		if reached != (err != nil) {
			t.Fatalf("cut off at %d: %v", n, err)
		}
		all := []*store.Local{s}
		if reached {
			all = append(all, onFiles(t, files)) // what the next process finds
		}
		for _, s := range all {
			here, there := count(t, s, from), count(t, s, to)
			if here+there != items {
				t.Errorf("cut off at %d: %d here and %d there", n, here, there)
			}
			if here > 0 && there > 0 {
				between++
			}
			if _, err := s.Move(ctx, from, to, false); err != nil {
				t.Fatal(err)
			}
			if here, there := count(t, s, from), count(t, s, to); here != 0 || there != items {
				t.Errorf("after another move: %d here and %d there", here, there)
			}
		}
	}
	if between < 4 {
		t.Errorf("it was cut off between two commits %d times", between)
	}
}

// onFiles opens a store in a file system in memory.
func onFiles(t *testing.T, files *vfs.Mem) *store.Local {
	t.Helper()
	d, err := disk.Open("store", disk.Options{Simulation: disk.Simulation{FS: files}})
	must(t, err)
	s, err := store.On(d, store.Options{})
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(s.Close(), d.Close())) })
	return s
}

func count(t *testing.T, s *store.Local, ns store.Namespace) int {
	t.Helper()
	found, err := s.Search(t.Context(), store.Query{Prefix: ns, Limit: store.NoLimit})
	must(t, err)
	return len(found)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
