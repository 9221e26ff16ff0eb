package changes

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

type State struct {
	To string `json:"to"`
}

func preflight(ctx context.Context, b *graph.StateBuilder[State], dir string) int {
	s, err := disk.Open(dir, disk.Options{ReadOnly: true})
	if err != nil {
		log.Print(err)
		return 2
	}
	defer s.Close()
	g, err := b.Compile(graph.Options{Name: "letters"})
	if err != nil {
		log.Print(err)
		return 2
	}
	report, err := g.Preflight(ctx, s, saver.ThreadQuery{})
	if err != nil {
		log.Print(err)
		return 2
	}
	fmt.Print(report) // or json.Marshal(report)
	return report.ExitCode()
}

func run(b *graph.StateBuilder[State]) {
	only := flag.Bool("preflight", false, "judge the stored threads, and exit")
	flag.Parse()
	if *only {
		os.Exit(preflight(context.Background(), b, "store"))
	}
	// open the store, compile the graph, recover, serve
}

type Old struct {
	Cents int `json:"price"`
}

type New struct {
	Price string `json:"price"`
}

func dollars(old Old) (New, error) {
	return New{Price: fmt.Sprintf("%d.%02d", old.Cents/100, old.Cents%100)}, nil
}

func written(key string, value any) (string, any, error) {
	if cents, ok := value.(int64); ok && key == "price" {
		return key, fmt.Sprintf("%d.%02d", cents/100, cents%100), nil
	}
	return key, value, nil
}

func options() graph.Options {
	m := graph.Migrate("1", "2", dollars)
	m.Write = written
	return graph.Options{Name: "orders", Version: "2", Migrations: []pregel.Migration{m}}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// letters asks at a node of a name.
func letters(node string) *graph.StateBuilder[State] {
	return graph.For[State]().Node(node, func(ctx context.Context, _ *State) (graph.Update, error) {
		_, err := pregel.AskFor[string](ctx, "send it?")
		return nil, err
	}).Sequence(graph.Start, node, graph.End)
}

// TestPreflight: the program of the page says with its exit code whether the threads that wait go on.
func TestPreflight(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := must(disk.Open(dir, disk.Options{}))
	g := must(letters("ask").Compile(graph.Options{Name: "letters", Saver: s}))
	must(g.Run(t.Context(), pregel.Thread("1"), State{To: "Ada"}))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if code := preflight(t.Context(), letters("ask"), dir); code != 0 {
		t.Errorf("the same program: exit code %d", code)
	}
	if code := preflight(t.Context(), letters("review"), dir); code != 1 {
		t.Errorf("without the node that waits: exit code %d", code)
	}
	if code := preflight(t.Context(), letters("ask"), filepath.Join(dir, "none")); code != 2 {
		t.Errorf("without a store: exit code %d", code)
	}
	_ = run // it would end the test
}

// TestMigration: what the old program stored, the new one continues with.
func TestMigration(t *testing.T) {
	s := must(disk.Open(filepath.Join(t.TempDir(), "store"), disk.Options{}))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	before := must(graph.For[Old]().Node("ask", func(ctx context.Context, _ *Old) (graph.Update, error) {
		_, err := pregel.AskFor[string](ctx, "buy?")
		return nil, err
	}).Sequence(graph.Start, "ask", graph.End).Compile(graph.Options{Name: "orders", Version: "1", Saver: s}))
	must(before.Run(t.Context(), pregel.Thread("1"), Old{Cents: 1234}))
	o := options()
	o.Saver = s
	after := must(graph.For[New]().Node("ask", func(ctx context.Context, _ *New) (graph.Update, error) {
		_, err := pregel.AskFor[string](ctx, "buy?")
		return nil, err
	}).Sequence(graph.Start, "ask", graph.End).Compile(o))
	if res := must(after.Resume(t.Context(), pregel.Thread("1"), "yes")); res.State.Price != "12.34" {
		t.Errorf("%+v", res.State)
	}
}
