package memory

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// TestFirstAreFirst: the first checkpoints of a listing are found, and few of the others are kept on the way.
func TestFirstAreFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []int{0, 1, 3, 100, 5000, int(^uint(0) >> 1)} {
		var all []saver.Config
		for _, ns := range []string{"", "a", "b"} {
			for id := range 1000 {
				all = append(all, saver.Config{ThreadID: "t", Namespace: ns, CheckpointID: fmt.Sprintf("%04d", id)})
			}
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		f, wanted := first{limit: limit}, 0
		for _, at := range all {
			if f.wants(at) {
				wanted++
				f.add(found{at: at})
			}
		}
		f.sort()
		slices.SortFunc(all, saver.Config.CompareListing)
		if limit > 0 {
			all = all[:min(limit, len(all))]
		}
		if !slices.EqualFunc(f.found, all, func(a found, b saver.Config) bool { return a.at.CompareListing(b) == 0 }) {
			t.Errorf("limit %d: other checkpoints come first", limit)
		}
		if most := 30 * limit; limit > 0 && limit < 100 && wanted > most {
			t.Errorf("limit %d: %d were kept on the way, more than %d", limit, wanted, most)
		}
	}
}

// TestLimitsEndTheWork: a listing with a limit gathers no more checkpoints than that, with a filter too reads no more
// of them, and one of threads reads the metadata of no more threads.
func TestLimitsEndTheWork(t *testing.T) {
	decoded := counted{Serializer: serde.Default()}
	s, ctx := New(Options{Serializer: &decoded}), t.Context()
	for i := range 200 {
		for _, thread := range []string{"t", fmt.Sprintf("t%03d", i)} {
			_, err := s.Put(ctx, saver.Config{ThreadID: thread}, saver.Checkpoint{V: 4, ID: fmt.Sprintf("%04d", i)}, saver.Metadata{"n": 1}, nil)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := s.sel(ctx, saver.Query{ThreadID: "t", Limit: 5})
	if err != nil || len(all) != 5 || all[0].at.CheckpointID != "0199" {
		t.Errorf("%d checkpoints are gathered: %v", len(all), err)
	}
	for name, run := range map[string]func() (int, error){
		"List": func() (int, error) { return drain(s.List(ctx, saver.Query{Filter: map[string]any{"n": 1}, Limit: 5})) },
		"Threads": func() (int, error) {
			return drain(s.Threads(ctx, saver.ThreadQuery{Prefix: "t0", Metadata: map[string]any{"n": 1}, Limit: 5}))
		},
	} {
		decoded.n = 0
		if n, err := run(); err != nil || n != 5 || decoded.n > 5 {
			t.Errorf("%s: %d results, %d metadata read: %v", name, n, decoded.n, err)
		}
	}
}

// counted counts what it decodes.
type counted struct {
	serde.Serializer
	n int
}

func (c *counted) Decode(t serde.Typed) (any, error) {
	c.n++
	return c.Serializer.Decode(t)
}

func drain[T any](seq func(func(T, error) bool)) (n int, err error) {
	for _, e := range seq {
		if err = e; err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
