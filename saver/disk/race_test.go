package disk

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/saver"
)

// betweenCtx runs fn when it is asked for the n-th time whether it has ended:
// between two steps of a call.
type betweenCtx struct {
	context.Context
	n  int
	fn func()
}

func (c *betweenCtx) Err() error {
	if c.n--; c.n == 0 {
		c.fn()
	}
	return c.Context.Err()
}

// A checkpoint that is replaced or deleted, and whose old bytes are given back,
// while GetTuple is reading it, is read as it is then or not found: never a
// third thing.
func TestGetTupleBesideReplaceAndDelete(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		s, err := Open(t.TempDir(), Options{ManualWork: true})
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, s, "t", "1", "", "old")
		meanwhile := 0
		change := func() {
			meanwhile++
			if deleted {
				if err := s.DeleteThread(context.Background(), "t"); err != nil {
					t.Error(err)
				}
			} else {
				mustPut(t, s, "t", "1", "", "new")
			}
			mustPut(t, s, "other", "1", "", "x")
			if err := s.Compact(context.Background()); err != nil {
				t.Error(err)
			}
		}
		tup, err := s.GetTuple(&betweenCtx{Context: context.Background(), n: 2, fn: change}, saver.Config{ThreadID: "t"})
		if meanwhile != 1 {
			t.Fatalf("the change came %d times between the steps of GetTuple", meanwhile)
		}
		var v string
		switch {
		case deleted && !errors.Is(err, saver.ErrNotFound):
			t.Errorf("reading a thread that was deleted meanwhile: %v", err)
		case !deleted && err != nil:
			t.Errorf("reading a checkpoint that was replaced meanwhile: %v", err)
		case !deleted:
			if err := tup.Checkpoint.Values["c"].Decode(&v); err != nil || v != "new" {
				t.Errorf("read %q, %v", v, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
