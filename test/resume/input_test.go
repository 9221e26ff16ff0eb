package resume

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
)

// A crash at any boundary, and then new input instead of a resume: what was left is
// finished first, so the graph ends as if the two inputs had come one after another,
// and no task runs again whose writes were durable.
func TestNewInputAfterEveryBoundary(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
		for _, p := range programs {
			if p.answer != nil { // a question that waits is discarded by new input, as in LangGraph
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", d, p.name), func(t *testing.T) {
				t.Parallel()
				whole := openOn(t, crashfs.New())
				g := mustBuild(t, p, newRan(), whole)
				if _, err := p.drive(context.Background(), g, d, true); err != nil {
					t.Fatal(err)
				}
				cuts := whole.cuts()
				want, err := p.drive(context.Background(), g, d, true)
				if err != nil {
					t.Fatal(err)
				}
				if err := whole.Close(); err != nil {
					t.Fatal(err)
				}
				unfinished := 0
				for _, cut := range cuts {
					n := 0
					for s := range whole.fs.States(cut, crashfs.Options{Seed: uint64(cut), Random: 1, MaxTorn: 1, MaxSingle: 1}) {
						if n++; n > statesPerCut() {
							break
						}
						if inputAfter(t, p, d, s, whole.stored(cut), want) {
							unfinished++
						}
					}
				}
				if unfinished == 0 {
					t.Error("no crash left anything unfinished")
				}
			})
		}
	}
}

// inputAfter gives new input to what a crash left, and reports whether that was
// unfinished.
func inputAfter(t *testing.T, p program, d pregel.Durability, s crashfs.State, stored []string, want string) bool {
	t.Helper()
	a := openOn(t, s.FS())
	defer a.Close()
	if _, err := a.GetTuple(context.Background(), saver.Config{ThreadID: "t"}); errors.Is(err, saver.ErrNotFound) {
		return false // the first input is lost; nobody was told that it was stored
	}
	counts := newRan()
	g := mustBuild(t, p, counts, a)
	state, err := g.GetState(context.Background(), pregel.Thread("t"))
	if err != nil {
		t.Fatalf("%v: %v", s, err)
	}
	got, err := p.drive(context.Background(), g, d, true)
	if err != nil {
		t.Fatalf("%v: new input on a thread that is %s: %v", s, state.Status, err)
	}
	if got != want {
		t.Errorf("%v: the thread was %s, and ended with\n%s\nwithout the crash it is\n%s", s, state.Status, got, want)
	}
	for _, id := range stored {
		if n := counts.count[id]; n > 0 {
			t.Errorf("%v: task %s ran again, though its writes were stored", s, id)
		}
	}
	return state.Status == saver.StatusUnfinished
}
