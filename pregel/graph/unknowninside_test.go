package graph_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestOnUnknownInside: keys that structs within the state have lost are told with their place, whether a checkpoint
// has them or a pending write, and can be refused before anything runs. Former names, and what is not looked at,
// are not among them.
func TestOnUnknownInside(t *testing.T) {
	type place struct {
		City   string `json:"city"`
		Street string `json:"street"`
	}
	type person struct {
		Name  string  `json:"name"`
		Nick  string  `json:"nick"`
		Lives *place  `json:"lives"`
		Been  []place `json:"been"`
	}
	type before struct {
		Author person            `json:"author"`
		All    []person          `json:"all" state:"append"`
		ByName map[string]person `json:"by_name"`
		Any    any               `json:"any"`
	}
	type place2 struct {
		Town string `json:"town" state:"alias=city"`
	}
	type person2 struct {
		Name  string   `json:"name"`
		Lives *place2  `json:"lives"`
		Been  []place2 `json:"been"`
	}
	type after struct {
		Author person2            `json:"author"`
		All    []person2          `json:"all" state:"append"`
		ByName map[string]person2 `json:"by_name"`
		Any    any                `json:"any"`
	}
	ada := person{Name: "Ada", Nick: "a", Lives: &place{"London", "S"}, Been: []place{{"Paris", "R"}}}
	all := []string{"all.been.street", "all.lives.street", "all.nick", "author.been.street", "author.lives.street", "author.nick",
		"by_name.been.street", "by_name.lives.street", "by_name.nick"}
	written := []string{"author.nick"}
	ours := errors.New("not ours")
	for _, l := range restarts(t) {
		s, ctx := l.open(t), t.Context()
		old, err := graph.For[before]().Node("ask", quiet[before]).Node("write", func(_ context.Context, b *before) (graph.Update, error) {
			return graph.Write(&b.Author, person{Nick: "n"}), nil
		}).Node("asks", func(ctx context.Context, _ *before) (graph.Update, error) {
			_, err := pregel.Ask(ctx, "?")
			return nil, err
		}).Edge(graph.Start, "ask").Edge("ask", "write").Edge("ask", "asks").Compile(graph.Options{Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		for thread, state := range map[string]before{"full": {Author: ada, All: []person{ada}, ByName: map[string]person{"ada": ada}, Any: ada}, "empty": {Any: 1}} {
			if _, err := old.Run(ctx, pregel.Thread(thread), state); err != nil {
				t.Fatal(err)
			}
		}
		var told []string
		var answer error
		ran := 0
		g, err := graph.For[after]().OnUnknown(func(_ context.Context, _ pregel.Address, keys []string) error {
			told = keys
			return answer
		}).Node("ask", quiet[after]).Node("write", quiet[after]).Node("asks", func(context.Context, *after) (graph.Update, error) {
			ran++
			return nil, nil
		}).Edge(graph.Start, "ask").Edge("ask", "write").Edge("ask", "asks").Compile(graph.Options{Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		for thread, want := range map[string][]string{"full": all, "empty": written} {
			told = nil
			if _, err := g.State(ctx, pregel.Thread(thread)); err != nil || !slices.Equal(told, want) {
				t.Errorf("%s, %s: %v, told %s", l.name, thread, err, strings.Join(told, " "))
			}
			answer = ours
			if _, err := g.Resume(ctx, pregel.Thread(thread), "yes"); !errors.Is(err, ours) || ran > 0 {
				t.Errorf("%s, %s: %v, %d nodes ran", l.name, thread, err, ran)
			}
			answer = nil
		}
	}
}
