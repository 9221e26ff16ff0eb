package graph_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

type versionLine struct {
	SKU   string            `json:"sku"`
	Count int               `json:"count,omitempty"`
	Tags  map[string]string `json:"tags"`
	Parts []*versionLine    `json:"parts"`
}

type versioned struct {
	To    string        `json:"to"`
	Total int           `json:"total" state:"add"`
	Log   []string      `json:"log" state:"append"`
	Lines []versionLine `json:"lines"`
	Due   time.Time     `json:"due"`
	Any   any           `json:"any"`
}

// versionedSame is versioned with other names in Go, in another order, with an alias more.
type versionedSame struct {
	Whatever any           `json:"any"`
	Deadline time.Time     `json:"due" state:"alias=deadline"`
	Items    []versionLine `json:"lines"`
	History  []string      `json:"log" state:"append"`
	Sum      int           `json:"total" state:"add"`
	Name     string        `json:"to"`
}

func versionOf[S any](t *testing.T, o graph.Options, change func(b *graph.StateBuilder[S]), fields ...graph.Field) string {
	t.Helper()
	b := graph.For[S](fields...)
	if change == nil {
		change = func(b *graph.StateBuilder[S]) { ab(b, "a", "b") }
	}
	change(b)
	g, err := b.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g.Untyped().Version()
}

func ab[S any](b *graph.StateBuilder[S], names ...string) {
	for _, n := range names {
		b.Node(n, quiet[S]).Edge(graph.Start, n)
	}
}

// The fingerprint is the same in every process: it is compared with one that was written down.
func TestFingerprintGolden(t *testing.T) {
	for name, c := range map[string][2]string{
		"typed": {versionOf[versioned](t, graph.Options{InterruptBefore: []string{"b"}}, nil), "fbbced85ddca"},
		"untyped": {func() string {
			g, err := graph.New(graph.Key("list", channel.Reduce(channel.Append[string])), graph.Key("any", nil), graph.Key("messages", message.Channel(nil)),
				graph.Key("sent", channel.Topic[int](channel.Accumulate)), graph.Key("delta", channel.DeltaMessages(0, nil))).
				Node("a", nothing).Node("b", nothing).Edge(graph.Start, "a").Edge(graph.Start, "b").Node("c", nothing).Join([]string{"a", "b"}, "c").Compile(graph.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return g.Version()
		}(), "c80578324540"},
		"entrypoint": {func() string {
			g, err := pregel.Entrypoint("work", func(context.Context, int) (string, error) { return "", nil }, pregel.EntrypointOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return g.Version()
		}(), "bb88dd186560"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: the fingerprint is %s, and was %s", name, c[0], c[1])
		}
	}
}

func nothing(context.Context, any) (any, error) { return nil, nil }

// What does not matter to stored state leaves the fingerprint alone, and what matters changes it.
func TestFingerprintCounts(t *testing.T) {
	was := versionOf[versioned](t, graph.Options{}, nil)
	for range 50 { // maps have no order
		if now := versionOf[versioned](t, graph.Options{}, nil); now != was {
			t.Fatalf("%s, and %s before", now, was)
		}
	}
	type other struct {
		SKU   string            `json:"sku"`
		Count int64             `json:"count"`
		Tags  map[string]string `json:"tags"`
		Parts []*versionLine    `json:"parts"`
	}
	inner, err := graph.For[versioned]().Node("x", quiet[versioned]).Edge(graph.Start, "x").Compile(graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	with := func(in *pregel.Graph) string {
		return versionOf(t, graph.Options{}, func(b *graph.StateBuilder[versioned]) { ab(b, "a"); b.Subgraph("b", in).Edge(graph.Start, "b") })
	}
	for name, now := range map[string]string{
		"names in Go, order of fields, aliases": versionOf[versionedSame](t, graph.Options{}, nil),
		"order of nodes":                        versionOf(t, graph.Options{}, func(b *graph.StateBuilder[versioned]) { ab(b, "b", "a") }),
		"what nodes do, edges, name": versionOf(t, graph.Options{Name: "n"}, func(b *graph.StateBuilder[versioned]) {
			b.Node("a", func(context.Context, *versioned) (graph.Update, error) { return nil, nil }).Node("b", quiet[versioned]).Sequence(graph.Start, "a", "b")
		}),
	} {
		if now != was {
			t.Errorf("%s: changed the fingerprint", name)
		}
	}
	seen := map[string]string{was: "nothing"}
	for name, now := range map[string]string{
		"a node more":        versionOf(t, graph.Options{}, func(b *graph.StateBuilder[versioned]) { ab(b, "a", "b", "c") }),
		"a node renamed":     versionOf(t, graph.Options{}, func(b *graph.StateBuilder[versioned]) { ab(b, "a", "b2") }),
		"breakpoint before":  versionOf[versioned](t, graph.Options{InterruptBefore: []string{"a"}}, nil),
		"breakpoint after":   versionOf[versioned](t, graph.Options{InterruptAfter: []string{"a"}}, nil),
		"another breakpoint": versionOf[versioned](t, graph.Options{InterruptBefore: []string{"b"}}, nil),
		"a join":             versionOf(t, graph.Options{}, func(b *graph.StateBuilder[versioned]) { ab(b, "a", "b"); b.Join([]string{"a"}, "b") }),
		"a graph inside":     with(inner.Untyped()),
		"type of a field in a list": versionOf[struct {
			To    string    `json:"to"`
			Total int       `json:"total" state:"add"`
			Log   []string  `json:"log" state:"append"`
			Lines []other   `json:"lines"`
			Due   time.Time `json:"due"`
			Any   any       `json:"any"`
		}](t, graph.Options{}, nil),
		"no reducer": versionOf[struct {
			To    string        `json:"to"`
			Total int           `json:"total"`
			Log   []string      `json:"log" state:"append"`
			Lines []versionLine `json:"lines"`
			Due   time.Time     `json:"due"`
			Any   any           `json:"any"`
		}](t, graph.Options{}, nil),
		"a field less": versionOf[struct {
			Total int           `json:"total" state:"add"`
			Log   []string      `json:"log" state:"append"`
			Lines []versionLine `json:"lines"`
			Due   time.Time     `json:"due"`
			Any   any           `json:"any"`
		}](t, graph.Options{}, nil),
		"a name": versionOf[versioned](t, graph.Options{Version: "v1"}, nil),
	} {
		if other, same := seen[now]; same {
			t.Errorf("%q and %q have the fingerprint %s", name, other, now)
		}
		seen[now] = name
	}
	named, err := graph.For[versioned]().Node("x", quiet[versioned]).Edge(graph.Start, "x").Compile(graph.Options{Version: "v2"})
	if err != nil {
		t.Fatal(err)
	}
	if with(named.Untyped()) == with(inner.Untyped()) {
		t.Error("the version of a graph inside does not count")
	}
}

// Each checkpoint has the version of the graph that stored it, also those of a graph inside, of an
// update and of a run with Exit. A thread shows that of its newest one, and none if another program
// stored it.
func TestVersionIsStored(t *testing.T) {
	for _, l := range restarts(t) {
		t.Run(l.name, func(t *testing.T) {
			build := func(version string) *graph.Graph[versioned] {
				inner, err := graph.For[versioned]().Node("ask", asks[versioned]).Edge(graph.Start, "ask").Compile(graph.Options{Version: version + " inside"})
				if err != nil {
					t.Fatal(err)
				}
				g, err := graph.For[versioned]().Node("a", quiet[versioned]).Subgraph("in", inner.Untyped()).Sequence(graph.Start, "a", "in").
					Compile(graph.Options{Version: version, Saver: l.open(t)})
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			wants := func(s saver.Saver, id, want string) {
				t.Helper()
				info, _, err := saver.ThreadOf(t.Context(), s, id)
				if err != nil || info.Version != want {
					t.Errorf("thread %s has the version %q, %v; want %q", id, info.Version, err, want)
				}
			}
			g := build("one")
			for _, d := range []pregel.Durability{pregel.Sync, pregel.Exit} {
				if _, err := g.Run(t.Context(), pregel.Thread(string(d)), versioned{To: "x"}, pregel.RunOptions{Durability: d}); err != nil {
					t.Fatal(err)
				}
				wants(g.Untyped().Saver(), string(d), "one")
			}
			if _, err := g.Untyped().UpdateState(t.Context(), pregel.Thread("updated"), pregel.StateUpdate{Values: map[string]any{"to": "y"}, AsNode: "a"}); err != nil {
				t.Fatal(err)
			}
			wants(g.Untyped().Saver(), "updated", "one")
			g = build("two")
			s := g.Untyped().Saver()
			wants(s, "sync", "one")
			for tup, err := range s.List(t.Context(), saver.Query{ThreadID: "sync"}) {
				want := "one"
				if err == nil && tup.Config.Namespace != "" {
					want = "one inside"
				}
				if err != nil || tup.Note == nil || tup.Note.Version != want {
					t.Errorf("%+v, %v; want %q", tup.Note, err, want)
				}
			}
			state, err := g.Untyped().GetState(t.Context(), pregel.Thread("sync"))
			if err != nil || state.Version != "one" {
				t.Errorf("%+v, %v", state, err)
			}
			if _, err := g.Resume(t.Context(), pregel.Thread("sync"), "yes"); err != nil {
				t.Fatal(err)
			}
			versions := map[string]int{}
			for st, err := range g.Untyped().GetStateHistory(t.Context(), pregel.Thread("sync"), pregel.HistoryQuery{}) {
				if err != nil {
					t.Fatal(err)
				}
				versions[st.Version]++
			}
			if versions["one"] != 3 || versions["two"] != 1 {
				t.Errorf("%v", versions)
			}
		})
	}
	s := memory.New(memory.Options{})
	if _, err := s.PutRequest(t.Context(), saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6001-8000-bde4e02ab92b"}}); err != nil {
		t.Fatal(err)
	}
	g, err := graph.For[versioned]().Node("a", quiet[versioned]).Edge(graph.Start, "a").Compile(graph.Options{Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := g.Untyped().GetState(t.Context(), pregel.Thread("t")); err != nil || st.Version != "" {
		t.Errorf("%+v, %v", st, err)
	}
	long := graph.Options{Version: string(make([]byte, 2000))}
	if _, err := graph.For[versioned]().Node("a", quiet[versioned]).Edge(graph.Start, "a").Compile(long); err == nil {
		t.Error("a version of 2,000 bytes is taken")
	}
}

// A version that an author names is no fingerprint, so it must not look like one.
func TestNamesLikeFingerprints(t *testing.T) {
	for name, ok := range map[string]bool{"0123456789ab": false, "build-0123456789ab": true, "0123456789a": true, "0123456789AB": true} {
		_, err := graph.For[versioned]().Node("x", quiet[versioned]).Edge(graph.Start, "x").Compile(graph.Options{Version: name})
		if (err == nil) != ok || err != nil && (!errors.Is(err, pregel.ErrInvalidGraph) || !strings.Contains(err.Error(), `"build-`+name+`"`)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
