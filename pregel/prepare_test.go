package pregel

import (
	"testing"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// A checkpoint without versions starts nothing, whatever is asked, and a graph
// that subscribes to nothing that moved neither.
func TestNothingToPrepare(t *testing.T) { // ALG-02
	none := &Graph{nodes: map[string]*Node{}, triggers: map[string][]string{}}
	one, err := New(Spec{Channels: map[string]channel.Channel{"in": channel.LastValue[int]()}, Input: One("in"), Nodes: []*Node{{Name: "n", Triggers: []string{"in"}, Reads: One("in"), Writers: []Writer{WriteTo("in")}}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	env := Environment{}.withDefaults()
	for name, g := range map[string]*Graph{"no nodes": none, "one node": one} {
		for _, updated := range [][]string{nil, {}, {"in"}} {
			set, err := g.hydrate(t.Context(), nil, saver.Config{}, &saver.Checkpoint{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if name == "one node" { // the value is there, but nobody gave it a version
				if _, err := set.at("in").Update([]any{1}); err != nil {
					t.Fatal(err)
				}
			}
			p := &preparer{g: g, cp: emptyCheckpoint(&env), set: set, step: -1, stop: 1}
			tasks, err := p.next(updated)
			if err != nil || len(tasks.order) != 0 {
				t.Errorf("%s, updated %v: %d tasks, %v", name, updated, len(tasks.order), err)
			}
		}
	}
}
