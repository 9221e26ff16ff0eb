package rules

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/saver"
)

// node is a checkpoint of a graph of checkpoints, for PruneMark.
type node struct {
	parent string
	v      int
	values map[string]string // "" is a version without a value
	writes map[string]string
	told   bool // deltas are its delta channels
	deltas []string
}

type graph map[string]node

func (g graph) Parent(id string) (string, bool) { n, ok := g[id]; return n.parent, ok }
func (g graph) Format(id string) int            { return g[id].v }
func (g graph) HasWrite(id, ch string) bool     { return g[id].writes[ch] != "" }
func (g graph) HasValue(id, ch string) bool     { return g[id].values[ch] != "" }

func (g graph) Valueless(id string) (chs []string, told bool) {
	n := g[id]
	for ch, v := range n.values {
		if v == "" && (!n.told || slices.Contains(n.deltas, ch)) {
			chs = append(chs, ch)
		}
	}
	slices.Sort(chs)
	return chs, n.told
}

// history is what a delta channel reads at id: the seed, then the writes, oldest
// first. It walks as DeltaChannelHistory does. writes tells whether it met any.
func (g graph) history(id, ch string) (text string, writes bool) {
	var parts []string
	seen := map[string]bool{id: true}
	for at := g[id].parent; ; {
		n, ok := g[at]
		if !ok || seen[at] {
			break
		}
		seen[at] = true
		if w := n.writes[ch]; w != "" {
			parts, writes = append(parts, w), true
		}
		if v := n.values[ch]; v != "" {
			parts = append(parts, "seed "+v)
			break
		}
		at = n.parent
	}
	slices.Reverse(parts)
	return fmt.Sprint(parts), writes
}

// loops reports whether the walk from id comes back to where it was.
func (g graph) loops(id string) bool {
	seen := map[string]bool{}
	for ; !seen[id]; id = g[id].parent {
		seen[id] = true
		if _, ok := g[id]; !ok {
			return false
		}
	}
	return true
}

func drawGraph(t *rapid.T) (graph, []string) {
	ids := []string{"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"}
	g := graph{}
	for i, id := range ids {
		if rapid.IntRange(0, 9).Draw(t, "absent") == 0 {
			continue
		}
		n := node{v: rapid.SampledFrom([]int{4, 4, 4, 3}).Draw(t, "v"), values: map[string]string{}, writes: map[string]string{}}
		switch how := rapid.IntRange(0, 19).Draw(t, "parent"); {
		case how < 14 && i > 0:
			n.parent = ids[i-1]
		case how < 18:
			n.parent = rapid.SampledFrom(ids[:i+1]).Draw(t, "fork") // may be itself
		case how == 18:
			n.parent = rapid.SampledFrom(ids).Draw(t, "any")
		}
		for _, ch := range []string{"a", "b", saver.ChannelTasks} {
			if rapid.IntRange(0, 3).Draw(t, "versioned") > 0 {
				n.values[ch] = rapid.SampledFrom([]string{"", "", "v" + id}).Draw(t, "value")
			}
			if rapid.Bool().Draw(t, "written") {
				n.writes[ch] = "w" + id
			}
		}
		if n.told = rapid.Bool().Draw(t, "told"); n.told {
			n.deltas = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 0, 2, rapid.ID).Draw(t, "deltas")
		}
		g[id] = n
	}
	kept := rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, 3, rapid.ID).Draw(t, "kept")
	return g, slices.DeleteFunc(kept, func(id string) bool { _, ok := g[id]; return !ok })
}

// What PruneMark leaves reads as before for every kept checkpoint, and nothing
// of it could go.
func TestPruneMarkKeepsHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, kept := drawGraph(t)
		support := PruneMark(g, kept)
		pruned := maps.Clone(g)
		maps.DeleteFunc(pruned, func(id string, _ node) bool {
			_, stays := support[id]
			return !stays && !slices.Contains(kept, id)
		})
		for id := range support {
			if _, ok := g[id]; !ok {
				t.Fatalf("%s is no checkpoint", id)
			}
		}
		slices.Reverse(kept)
		if again := PruneMark(g, kept); !maps.Equal(again, support) {
			t.Fatalf("kept in another order: support %v, before %v\n%+v", again, support, g)
		}
		checkReasons(t, g, kept, support)
		if slices.ContainsFunc(kept, g.loops) {
			return // its history is an error anyway; that PruneMark ends is enough
		}
		for _, id := range kept {
			channels, _ := g.Valueless(id)
			for _, ch := range channels {
				want, writes := g.history(id, ch)
				if got, _ := pruned.history(id, ch); writes && got != want {
					t.Fatalf("%s reads %s of %s, not %s\n%+v\nsupport %v", id, got, ch, want, g, support)
				}
			}
			if p := g[id].parent; g[id].v < 4 && g.HasWrite(p, saver.ChannelTasks) && !reflect.DeepEqual(pruned[p], g[p]) {
				t.Fatalf("%s lost the packets of %s", id, p)
			}
		}
		for id := range support {
			if slices.Contains(kept, id) || needed(g, pruned, kept, id) {
				continue
			}
			t.Fatalf("%s is kept for nothing\n%+v\nkept %v support %v", id, g, kept, support)
		}
	})
}

// checkReasons: each reason names a checkpoint that stays and a channel it reads, and
// is in doubt only if none that tells its delta channels has one.
func checkReasons(t *rapid.T, g graph, kept []string, support map[string]saver.Kept) {
	t.Helper()
	telling := slices.DeleteFunc(slices.Clone(kept), func(id string) bool { return !g[id].told })
	sure := PruneMark(g, telling)
	for id, why := range support {
		channels, told := g.Valueless(why.For)
		ok := why.CheckpointID == id && slices.Contains(kept, why.For)
		switch why.Reason {
		case saver.KeptForDelta:
			ok = ok && told && slices.Contains(channels, why.Channel)
		case saver.KeptInDoubt:
			_, known := sure[id]
			ok = ok && !told && !known && slices.Contains(channels, why.Channel)
		case saver.KeptForPackets:
			ok = ok && g[why.For].v < 4 && g[why.For].parent == id && why.Channel == saver.ChannelTasks
		default:
			ok = false
		}
		if !ok {
			t.Fatalf("%s is kept as %+v\n%+v", id, why, g)
		}
	}
}

// needed reports whether a kept checkpoint reads otherwise without id.
func needed(g, pruned graph, kept []string, id string) bool {
	without := maps.Clone(pruned)
	delete(without, id)
	for _, k := range kept {
		channels, _ := g.Valueless(k)
		for _, ch := range channels {
			want, _ := g.history(k, ch)
			if got, _ := without.history(k, ch); got != want {
				return true
			}
		}
		if g[k].parent == id && g[k].v < 4 && g.HasWrite(id, saver.ChannelTasks) {
			return true
		}
	}
	return false
}

// Many kept checkpoints on one long path cost one walk of it, not one each.
func TestPruneMarkIsLinear(t *testing.T) {
	const n = 20000
	g := make(countingGraph, n)
	kept := make([]string, n)
	for i := range n {
		id := fmt.Sprint(i)
		g[id] = &countedNode{node: node{parent: fmt.Sprint(i - 1), v: 4, values: map[string]string{"trigger": ""}}}
		kept[i] = id
	}
	PruneMark(g, kept)
	for id, c := range g {
		if c.visits > 8 {
			t.Fatalf("checkpoint %s was visited %d times", id, c.visits)
		}
	}
}

type countedNode struct {
	node
	visits int
}

type countingGraph map[string]*countedNode

func (g countingGraph) Parent(id string) (string, bool) {
	c := g[id]
	if c == nil {
		return "", false
	}
	c.visits++
	return c.parent, true
}
func (g countingGraph) Valueless(string) ([]string, bool) { return []string{"trigger"}, false }
func (g countingGraph) HasValue(string, string) bool      { return false }
func (g countingGraph) HasWrite(string, string) bool      { return false }
func (g countingGraph) Format(string) int                 { return 4 }
