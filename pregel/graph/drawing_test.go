package graph_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// Two graphs inside of one name, at different places, are two frames; LangGraph
// refuses to draw them. A graph that holds nothing but another is a frame around it.
func TestDrawingFrames(t *testing.T) {
	nop := appends("x")
	line := compile(t, graph.New(steps()).Node("a", nop).Node("b", nop).Sequence(graph.Start, "a", "b"), graph.Options{})
	around := compile(t, graph.New(steps()).Subgraph("in", line).Edge(graph.Start, "in"), graph.Options{})
	g := compile(t, graph.New(steps()).Subgraph("p", around).Subgraph("q", around).Sequence(graph.Start, "p", "q"), graph.Options{})
	d := g.DrawInside(-1)
	text := d.Mermaid()
	for _, want := range []string{"\tsubgraph p\n\tsubgraph in\n\tp\\3ain\\3aa(a)\n", "\tsubgraph q\n\tsubgraph q\\3ain\n\tq\\3ain\\3aa(a)\n",
		"\tp\\3ain\\3ab --> q\\3ain\\3aa;\n", "\t__start__ --> p\\3ain\\3aa;\n"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if open, closed := strings.Count(text, "\tsubgraph "), strings.Count(text, "\tend\n"); open != 4 || closed != 4 {
		t.Errorf("%d frames begin, %d end:\n%s", open, closed, text)
	}
	if dot := d.DOT(); !strings.Contains(dot, `"p:in:b" -> "q:in:a";`) {
		t.Error(dot)
	}
	if flat := g.DrawInside(0); fmt.Sprint(flat) != fmt.Sprint(g.Draw()) || len(flat.Nodes) != 4 {
		t.Errorf("%v", flat)
	}
}

func ExampleBuilder_Subgraph_drawing() {
	step := func(context.Context, any) (any, error) { return nil, nil }
	check, err := graph.New(graph.Key("text", nil)).Node("spell", step).Node("style", step).
		Sequence(graph.Start, "spell", "style").Compile(graph.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := graph.New(graph.Key("text", nil)).Node("write", step).Subgraph("check", check).
		Sequence(graph.Start, "write", "check").Compile(graph.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range []pregel.Drawing{g.Draw(), g.DrawInside(1)} {
		var edges []string
		for _, e := range d.Edges {
			edges = append(edges, e.From+" -> "+e.To)
		}
		fmt.Println(strings.Join(edges, "; "))
	}
	// Output:
	// __start__ -> write; write -> check; check -> __end__
	// __start__ -> write; write -> check:spell; check:style -> __end__; check:spell -> check:style
}
