package traces

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// branching is a conditional edge of a drawing.
type branching struct {
	from string
	ends any // labels to names, names, or nil for an open one
}

var drawnEnds = map[string]string{"^": graph.Start, "$": graph.End}

func drawnName(s string) string {
	if end, ok := drawnEnds[s]; ok {
		return end
	}
	return s
}

// drawn is a graph as built of drawings.py makes it.
func drawn(nodes string, edges ...any) *program {
	return connect(withLetters(builder(), nodes), edges)
}

// withLetters adds a node for each letter.
func withLetters(b *program, nodes string) *program {
	for _, n := range strings.Split(nodes, "") {
		b.Node(n, adds(n))
	}
	return b
}

// connect adds edges as built of drawings.py does.
func connect(b *program, edges []any) *program {
	path := func(context.Context, any) (any, error) { return "a", nil }
	for _, e := range edges {
		switch e := e.(type) {
		case string:
			b.Edge(drawnName(e[:1]), drawnName(e[1:]))
		case []string:
			b.Join(e[:len(e)-1], e[len(e)-1])
		case branching:
			switch ends := e.ends.(type) {
			case nil:
				b.Conditional(drawnName(e.from), "path", path)
			case []string:
				b.Conditional(drawnName(e.from), "path", path, ends...)
			case map[string]string:
				b.ConditionalMap(drawnName(e.from), "path", path, ends)
			}
		}
	}
	return b
}

// drawings are graphs drawn, by name.
func drawings(t *testing.T) map[string]pregel.Drawing {
	made := map[string]pregel.Drawing{}
	for name, g := range plainDrawings(t) {
		made[name] = g.Draw()
	}
	for name, g := range insideDrawings(t) {
		made["inside: "+name] = g.DrawInside(-1)
	}
	return made
}

func plainDrawings(t *testing.T) map[string]*pregel.Graph {
	compiled := func(b *program, o graph.Options) *pregel.Graph {
		g, err := b.Compile(o)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	plain := func(nodes string, edges ...any) *pregel.Graph {
		return compiled(drawn(nodes, edges...), graph.Options{})
	}
	f := adds("x")
	flow, err := pregel.Entrypoint("flow", func(_ context.Context, n int) (int, error) { return n, nil }, pregel.EntrypointOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*pregel.Graph{
		"no end": plain("ab", "^a", "ab"), "line": plain("ab", "^a", "ab", "b$"),
		"labels":          plain("abc", "^a", branching{"a", map[string]string{"yes": "b", "no": "c", "stop": graph.End}}, "bc"),
		"ends":            plain("ab", "^a", branching{"a", []string{"b", graph.End}}, "ba"),
		"open":            plain("ab", "^a", branching{"a", nil}),
		"at start":        plain("ab", branching{"^", []string{"a", "b"}}),
		"edge and branch": plain("ab", "^a", "ab", branching{"a", []string{"b", graph.End}}), "end beside an edge": plain("ab", "^a", "ab", "a$"),
		"unreached": plain("abc", "^a", "ab", "cb"), "loop": plain("a", "^a", "aa"),
		"circle": plain("ab", "^a", "ab", "ba"), "circle of three": plain("abc", "^a", "ab", "bc", "ca"),
		"long label": plain("a", "^a", branching{"a", map[string]string{"again, and": "a", "one two three four five six seven eight nine ten": graph.End}}),
		"breakpoints": compiled(drawn("abc", "^a", "ab", "bc"),
			graph.Options{InterruptBefore: []string{"a", "c"}, InterruptAfter: []string{"b", "c"}}),
		"join":     plain("abcd", "^a", "^b", "^d", []string{"b", "a", "c"}, "cd"),
		"deferred": compiled(builder().Node("a", f).Node("b", f, graph.NodeOptions{Defer: true}).Sequence(graph.Start, "a", "b"), graph.Options{}),
		"names": compiled(builder().Node("é x", f, graph.NodeOptions{Metadata: map[string]any{"flag": true, "n": 1, "why": "x [y]"}}).
			Node("a-b_c.d", f).Node("_it_", f).Sequence(graph.Start, "é x", "a-b_c.d", "_it_"), graph.Options{}),
		"commands": compiled(builder().Node("a", f, graph.NodeOptions{Targets: []string{"b", graph.End}}).Node("b", f).Edge(graph.Start, "a"), graph.Options{}),
		"inside":   compiled(builder().Subgraph("a", plain("z", "^z")).Node("b", f).Sequence(graph.Start, "a", "b"), graph.Options{}),
		"raw": newTrace(t, "drawing", pregel.Sync, 0, inMemory).raw(
			pregel.Spec{Channels: map[string]channel.Channel{"x": channel.LastValue[int](), "y": channel.LastValue[int](), "z": channel.LastValue[int]()}, Input: pregel.One("x"), Output: pregel.One("z")},
			pregel.Options{},
			pregel.NewNode("one").SubscribeOnly("x").Do(f).WriteTo("y"), pregel.NewNode("two").SubscribeOnly("y").Do(f).WriteTo("z")),
		"function": flow,
	}
}

// insideDrawings are graphs that are drawn with those inside: x is one.
func insideDrawings(t *testing.T) map[string]*pregel.Graph {
	compiled := func(b *program) *pregel.Graph {
		g, err := b.Compile(graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	plain := func(nodes string, edges ...any) *pregel.Graph { return compiled(drawn(nodes, edges...)) }
	around := func(inside *pregel.Graph, nodes string, edges ...any) *pregel.Graph {
		return compiled(connect(withLetters(builder().Subgraph("x", inside), nodes), edges))
	}
	line := plain("yz", "^y", "yz", "z$")
	stops, err := drawn("yz", "^y", "yz").Compile(graph.Options{InterruptBefore: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	between := func(g *pregel.Graph) *pregel.Graph { return around(g, "ab", "^a", "ax", "xb") }
	return map[string]*pregel.Graph{
		"line": between(line), "one node": between(plain("z", "^z")), "fan": between(plain("wyz", "^w", "wy", "wz")),
		"two starts": between(plain("yz", "^y", "^z")), "never ends": between(plain("yz", "^y", "yz", "zy")),
		"branch": between(plain("yz", "^y", branching{"y", map[string]string{"go": "z", "stop": graph.End}})),
		"loop":   between(plain("yz", "^y", "yy", "yz")), "breakpoint": between(stops),
		"first": around(line, "ab", "^x", "xa", "ab"), "alone": around(line, "", "^x"),
		"in a loop":  around(line, "ab", "^a", "ax", branching{"x", []string{"a", "b"}}),
		"to itself":  around(line, "", "^x", branching{"x", []string{"x", graph.End}}),
		"two levels": compiled(builder().Subgraph("o", between(line)).Node("q", adds("q")).Sequence(graph.Start, "o", "q")),
		"twice":      compiled(builder().Subgraph("o", line).Subgraph("p", line).Sequence(graph.Start, "o", "p")),
	}
}

// TestDrawings compares drawings in Mermaid with LangGraph's of the same graphs.
func TestDrawings(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("golden", "drawings.txt"))
	if err != nil {
		t.Fatal(err)
	}
	made := drawings(t)
	made["inside: two levels, one drawn"] = insideDrawings(t)["two levels"].DrawInside(1)
	for _, section := range strings.Split(string(text), "=== ")[1:] {
		name, want, _ := strings.Cut(section, "\n")
		g, ok := made[name]
		delete(made, name)
		if !ok {
			t.Errorf("%s: there is no such graph here", name)
		} else if got := g.Mermaid(); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	for name := range made {
		t.Errorf("%s: LangGraph did not draw it", name)
	}
}
