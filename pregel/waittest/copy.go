package waittest

import (
	"context"
	"fmt"
	"time"

	"github.com/stele-go/stele/pregel"
)

// copy: nothing ends the waits of a copy until a run has gone on with it, also where they are those of a graph inside, and with an instant
// that passed meanwhile. The original is not affected, and a copy of the copy is one again.
func (f *fixture) copy() {
	plain := func() *pregel.Graph { return f.graph(map[string]body{"a": f.sleeper("a", time.Hour)}) }
	outer := func() *pregel.Graph {
		inner := f.graph(map[string]body{"a": f.sleeper("a", time.Hour)})
		return f.graph(map[string]body{"outer": func(ctx context.Context) (string, error) {
			res, err := inner.Invoke(ctx, pregel.Inside(), "y")
			if err != nil {
				return "", err
			}
			return fmt.Sprint(res.Value), nil
		}})
	}
	for name, make := range map[string]func() *pregel.Graph{"plain": plain, "inside": outer} {
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Exit} {
			if err := f.s.DeleteThread(f.t.Context(), "t"); err != nil {
				f.t.Fatal(err)
			}
			at := func(n int) string { return fmt.Sprint(name, " ", d, " ", n) }
			g, o := make(), pregel.RunOptions{Durability: d}
			f.run(g, "x", 0, 1, o)
			for n, from := range []string{"t", "t", at(1)} {
				if err := f.s.CopyThread(f.t.Context(), from, at(n)); err != nil {
					f.t.Fatal(err)
				}
				if n == 1 { // a run goes on with this one
					if res, err := make().Invoke(f.t.Context(), pregel.Thread(at(n)), nil, o); err != nil || len(res.Waits) != 1 {
						f.t.Fatalf("%+v, %v", res, err)
					}
				}
			}
			f.wantOutcomes(make(), map[string]pregel.Outcome{"t": pregel.Asleep, at(0): pregel.Held, at(1): pregel.Asleep, at(2): pregel.Held})
			f.clock.Move(time.Hour)
			f.wantOutcomes(make(), map[string]pregel.Outcome{"t": pregel.Recovered, at(0): pregel.Held, at(1): pregel.Recovered, at(2): pregel.Held})
			f.wantDone("a begins", "a begins", "a woke", "a begins", "a woke")
			for _, n := range []int{0, 2} {
				if res, err := make().Invoke(f.t.Context(), pregel.Thread(at(n)), nil, o); err != nil || len(res.Waits) != 0 {
					f.t.Fatalf("%+v, %v", res, err)
				}
			}
			f.wantOutcomes(make(), nil)
			f.wantDone("a begins", "a woke", "a begins", "a woke")
		}
	}
}

// wantOutcomes recovers, and checks what became of each thread in the report.
func (f *fixture) wantOutcomes(g *pregel.Graph, want map[string]pregel.Outcome) {
	f.t.Helper()
	report, err := g.Recover(f.t.Context(), pregel.RecoverOptions{})
	if err != nil || len(report.Threads) != len(want) {
		f.t.Fatalf("%+v, %v; want %v", report, err, want)
	}
	for _, r := range report.Threads {
		if r.Outcome != want[r.ThreadID] || r.Outcome == pregel.Held && len(r.Waits) != 1 {
			f.t.Errorf("%s is %+v, want %s", r.ThreadID, r, want[r.ThreadID])
		}
	}
}
