package graph_test

import (
	"errors"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// A program of another named version refuses a thread where it would lose a value, and not where there is only the trace of one
// that was used up.
func TestKeysThatWouldBeLost(t *testing.T) {
	type whole struct {
		Log  []string `json:"log" state:"append"`
		Memo string   `json:"memo"`
	}
	type less struct {
		Log []string `json:"log" state:"append"`
	}
	for name, c := range map[string]struct {
		fields []graph.Field
		input  whole
		lost   bool
	}{
		"a value":   {nil, whole{Log: []string{"in"}, Memo: "kept"}, true},
		"none":      {nil, whole{Log: []string{"in"}}, false},
		"ephemeral": {[]graph.Field{graph.Key("memo", channel.Ephemeral[string](channel.Guarded))}, whole{Log: []string{"in"}, Memo: "once"}, false},
	} {
		s := inMemory()
		must(must(graph.For[whole](c.fields...).Node("a", quiet[whole]).Node("b", asks[whole]).Sequence(graph.Start, "a", "b").
			Compile(graph.Options{Name: "z", Version: "1", Saver: s})).Run(t.Context(), pregel.Thread("t"), c.input))
		now := must(graph.For[less]().Node("a", quiet[less]).Node("b", asks[less]).Sequence(graph.Start, "a", "b").
			Compile(graph.Options{Name: "z", Version: "2", Saver: s}))
		if _, err := now.Resume(t.Context(), pregel.Thread("t"), "yes"); errors.Is(err, pregel.ErrOtherVersion) != c.lost || !c.lost && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
