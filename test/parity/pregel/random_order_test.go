package traces

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
)

// timed reports whether what the graph does is a matter of time: a failure that ends
// tasks beside it, or of one of several tasks of a node, and graphs inside, which
// make ids side by side.
func (g graphSpec) timed() bool {
	return slices.ContainsFunc(g.Nodes, func(n nodeSpec) bool {
		return n.Sub != nil || n.Parent || n.Fails > 0 && (n.Handler == nil || n.Fails < 99)
	})
}

// TestOrderOfTasksDoesNotShow plays random graphs with all tasks of a superstep at
// once: each run shows the same events, in any order, and what is stored is the same.
func TestOrderOfTasksDoesNotShow(t *testing.T) {
	graphs, equal := 0, 0
	for _, name := range randomFiles() {
		eachRandom(t, name, func(c randomCase) {
			want := c.Traces[string(pregel.Sync)]
			if want == nil || c.Spec.Graph.timed() || c.Spec.exits() {
				return
			}
			graphs++
			t.Run(fmt.Sprint(c.Spec.Seed), func(t *testing.T) {
				tr := newTrace(t, "random", pregel.Sync, 0, inMemory)
				tr.wide = true
				playRandom(tr, c.Spec)
				tr.dump()
				if compare(t, sortedCalls(normaliseRandom(c.Spec, pregel.Sync, tr.lines)), sortedCalls(normaliseRandom(c.Spec, pregel.Sync, want))) {
					equal++
				}
			})
		})
	}
	fmt.Printf("random graphs, all tasks at once: %d, %d equal\n", graphs, equal)
}

// sortedCalls sorts the lines of each call; the line that begins it comes first.
func sortedCalls(lines []string) []string {
	begin := 0
	for i := range len(lines) + 1 {
		if i == len(lines) || lines[i] == `{"call":"run"}` {
			slices.Sort(lines[begin:i])
			begin = i + 1
		}
	}
	return lines
}
