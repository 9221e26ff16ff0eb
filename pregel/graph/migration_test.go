package graph_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// The states of three versions.
type (
	bill1 struct {
		Name  string   `json:"name"`
		Cents int      `json:"cents"`
		Log   []string `json:"log" state:"append"`
	}
	bill2 struct {
		First string   `json:"first"`
		Last  string   `json:"last"`
		Price string   `json:"cents"` // of another type, under the same key
		Log   []string `json:"log" state:"append"`
	}
	bill3 struct {
		Person struct {
			First string `json:"first"`
			Last  string `json:"last"`
		} `json:"person"`
		Price string   `json:"cents"`
		Log   []string `json:"log" state:"append"`
		Paid  bool     `json:"paid"`
	}
)

func toBill2(b bill1) (bill2, error) {
	first, last, ok := strings.Cut(b.Name, " ")
	if !ok {
		return bill2{}, fmt.Errorf("%q has no last name", b.Name)
	}
	return bill2{First: first, Last: last, Price: fmt.Sprintf("%d.%02d", b.Cents/100, b.Cents%100), Log: b.Log}, nil
}

func toBill3(b bill2) (out bill3, err error) {
	out.Person.First, out.Person.Last, out.Price, out.Log = b.First, b.Last, b.Price, b.Log
	return out, nil
}

// priceWritten migrates what a task has written.
func priceWritten(key string, value any) (string, any, error) {
	if key == "cents" {
		cents, ok := value.(int64)
		if !ok {
			return key, value, fmt.Errorf("%T", value)
		}
		return key, fmt.Sprintf("%d.%02d", cents/100, cents%100), nil
	}
	return key, value, nil
}

func oneToTwo() pregel.Migration {
	m := graph.Migrate("1", "2", toBill2)
	m.Write = priceWritten
	return m
}

// billed makes a program: a prices and ask asks, side by side.
func billed[S any](t *testing.T, version string, s saver.Saver, price graph.NodeFunc[S], migrations ...pregel.Migration) *graph.Graph[S] {
	t.Helper()
	g, err := graph.For[S]().Node("a", price).Node("ask", asks[S]).Node("end", quiet[S]).Edge(graph.Start, "a").Edge(graph.Start, "ask").Join([]string{"a", "ask"}, "end").
		Compile(graph.Options{Name: "bills", Version: version, Saver: s, Migrations: migrations})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// bills1 leaves a thread that waits, with a write of a pending, by the first program.
func bills1(t *testing.T, s saver.Saver, name string) {
	t.Helper()
	g := billed(t, "1", s, func(_ context.Context, b *bill1) (graph.Update, error) {
		return graph.Write(&b.Cents, 1999).And(graph.Write(&b.Log, []string{"priced"})), nil
	})
	if _, err := g.Run(t.Context(), pregel.Thread("t"), bill1{Name: name, Cents: 5, Log: []string{"in"}}); err != nil {
		t.Fatal(err)
	}
}

// A thread of the first version goes on with the third, through both migrations; what they changed is
// stored with the next checkpoint, not in place, so going back to an older one works. The preflight
// says so first.
func TestMigrations(t *testing.T) {
	for _, l := range restarts(t) {
		t.Run(l.name, func(t *testing.T) {
			s := l.open(t)
			bills1(t, s, "Ada Lovelace")
			ran := 0
			chain := func(s saver.Saver) *graph.Graph[bill3] {
				return billed(t, "3", s, func(context.Context, *bill3) (graph.Update, error) { ran++; return nil, nil }, graph.Migrate("2", "3", toBill3), oneToTwo())
			}
			g := chain(l.open(t))
			before := allStored(t, g.Untyped().Saver())
			r, err := g.Preflight(t.Context(), nil, saver.ThreadQuery{})
			if err != nil || len(r.Broken) != 0 || r.Adapted["migration 1 → 2"] != 1 || r.Adapted["migration 2 → 3"] != 1 || len(r.Ignored) != 0 {
				t.Fatalf("%v, %v", r, err)
			}
			check := func(when string, b *bill3) {
				t.Helper()
				if b.Person.First != "Ada" || b.Person.Last != "Lovelace" || b.Price != "19.99" || !slices.Equal(b.Log, []string{"in", "priced"}) {
					t.Errorf("%s: %+v", when, b)
				}
			}
			st, err := g.State(t.Context(), pregel.Thread("t"))
			if err != nil {
				t.Fatal(err)
			}
			check("before it is resumed", &st.State)
			if after := allStored(t, g.Untyped().Saver()); after != before {
				t.Error("something was stored")
			}
			res, err := g.Resume(t.Context(), pregel.Thread("t"), "yes")
			if err != nil || ran != 0 {
				t.Fatal(err, ran)
			}
			check("resumed", &res.State)
			// A program without migrations reads what was stored.
			plain := billed(t, "3", l.open(t), quiet[bill3])
			if st, err = plain.State(t.Context(), pregel.Thread("t")); err != nil || st.Version != "3" {
				t.Fatalf("%+v, %v", st, err)
			}
			check("as it is stored", &st.State)
			// Older checkpoints are as they were: the first program reads them, and the third goes back to them.
			g = chain(l.open(t))
			var oldest pregel.Address
			for h, err := range g.Untyped().GetStateHistory(t.Context(), pregel.Thread("t"), pregel.HistoryQuery{}) {
				if err != nil {
					t.Fatal(err)
				}
				if h.Version == "1" {
					oldest = h.Address
				}
			}
			if _, err := billed(t, "1", g.Untyped().Saver(), quiet[bill1]).State(t.Context(), oldest); err != nil {
				t.Error(err)
			}
			fork, err := g.Continue(t.Context(), oldest)
			if err != nil || fork.State.Person.First != "Ada" {
				t.Errorf("%+v, %v", fork, err)
			}
			// Twice from one place: an update, which stores what is migrated, on a thread of its own.
			if err := g.Untyped().Saver().CopyThread(t.Context(), "t", "copy"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func allStored(t *testing.T, s saver.Saver) string {
	t.Helper()
	var b strings.Builder
	for tup, err := range s.List(t.Context(), saver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, tup.Config, tup.Metadata, tup.Checkpoint.Versions, len(tup.PendingWrites), tup.Note)
	}
	return b.String()
}

// An update, a run with new input and a copy store what a migration changed, or leave it all as it was.
func TestMigrationsAreStored(t *testing.T) {
	for name, does := range map[string]func(g *graph.Graph[bill2]) error{
		"update": func(g *graph.Graph[bill2]) error {
			_, err := g.Untyped().UpdateState(t.Context(), pregel.Thread("t"), pregel.StateUpdate{Values: map[string]any{"log": []string{"updated"}}, AsNode: "a"})
			return err
		},
		"input": func(g *graph.Graph[bill2]) error {
			_, err := g.Run(t.Context(), pregel.Thread("t"), bill2{Log: []string{"more"}})
			return err
		},
		"exit": func(g *graph.Graph[bill2]) error {
			_, err := g.Run(t.Context(), pregel.Thread("t"), bill2{Log: []string{"more"}}, pregel.RunOptions{Durability: pregel.Exit})
			return err
		},
		"copy": func(g *graph.Graph[bill2]) error {
			_, err := g.Untyped().UpdateState(t.Context(), pregel.Thread("t"), pregel.StateUpdate{AsNode: pregel.Copy})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory()
			bills1(t, s, "Ada Lovelace")
			if err := does(billed(t, "2", s, quiet[bill2], oneToTwo())); err != nil {
				t.Fatal(err)
			}
			st, err := billed(t, "2", s, quiet[bill2], oneToTwo()).State(t.Context(), pregel.Thread("t"))
			if err != nil || st.State.First != "Ada" || st.State.Price != "0.05" && st.State.Price != "19.99" {
				t.Errorf("%+v, %v", st, err)
			}
			// LangGraph's savers keep one value of a channel and version in a thread.
			by := map[saver.Version]string{}
			for tup, err := range s.List(t.Context(), saver.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				at, written := tup.Checkpoint.Versions["cents"]
				if other, known := by[at]; written && known && other != tup.Note.Version {
					t.Errorf("the price has one version in those of version %s and %s", other, tup.Note.Version)
				}
				by[at] = tup.Note.Version
			}
		})
	}
}

// A migration that fails, panics, or returns what cannot be stored leaves the thread as it was, and
// the error names thread, versions and function.
func TestMigrationsThatFail(t *testing.T) {
	bad := map[string]pregel.Migration{
		"fails":        graph.Migrate("1", "2", toBill2), // there is no last name
		"panics":       graph.Migrate("1", "2", func(bill1) (bill2, error) { panic("oh") }),
		"another type": {From: "1", To: "2", Name: "toNumber", Values: func(v map[string]any) error { v["cents"] = 7; delete(v, "name"); return nil }},
		"not storable": {From: "1", To: "2", Name: "toChan", Values: func(v map[string]any) error { v["cents"] = make(chan int); return nil }},
		"a write":      {From: "1", To: "2", Name: "w", Write: func(string, any) (string, any, error) { return "", nil, strconv.ErrRange }},
		"old type": graph.Migrate("1", "2", func(struct {
			Cents []bool `json:"cents"`
		}) (bill2, error) {
			return bill2{}, nil
		}),
		"no state": graph.Migrate("1", "2", func(int) (bill2, error) { return bill2{}, nil }),
	}
	for name, m := range bad {
		t.Run(name, func(t *testing.T) {
			s := inMemory()
			bills1(t, s, "Ada")
			before := allStored(t, s)
			ran := 0
			g := billed(t, "2", s, func(context.Context, *bill2) (graph.Update, error) { ran++; return nil, nil }, m)
			r, err := g.Preflight(t.Context(), nil, saver.ThreadQuery{})
			if err != nil || len(r.Broken) != 1 || r.Broken[0].Stage != pregel.StageMigrate && name != "another type" {
				t.Errorf("%v, %v", r, err)
			}
			for what, run := range map[string]func() error{
				"answer": func() error { _, err := g.Resume(t.Context(), pregel.Thread("t"), "yes"); return err },
				"nil":    func() error { _, err := g.Continue(t.Context(), pregel.Thread("t")); return err },
				"input":  func() error { _, err := g.Run(t.Context(), pregel.Thread("t"), bill2{First: "x"}); return err },
				"state":  func() error { _, err := g.State(t.Context(), pregel.Thread("t")); return err },
			} {
				err := run()
				var failed *pregel.MigrationError
				switch {
				case name == "another type":
					var state *graph.StateError
					if !errors.As(err, &state) || !strings.Contains(err.Error(), `of version "1", after migration 1 → 2 (toNumber): `) {
						t.Errorf("%s: %v", what, err)
					}
				case !errors.As(err, &failed) || failed.ThreadID != "t" || failed.From != "1" || failed.To != "2" || failed.Name == "" || failed.Name != m.Name:
					t.Errorf("%s: %v", what, err)
				}
			}
			if ran != 0 || allStored(t, s) != before {
				t.Error("something ran, or was stored")
			}
			if _, err := billed(t, "1", s, quiet[bill1]).Resume(t.Context(), pregel.Thread("t"), "yes"); err != nil {
				t.Errorf("the first program: %v", err)
			}
		})
	}
}

// Migrations that do not lead to the graph's version, or that lead round, are refused.
func TestMigrationsThatLeadNowhere(t *testing.T) {
	step := func(from, to string) pregel.Migration { return pregel.Migration{From: from, To: to} }
	for name, c := range map[string]struct {
		version string
		ms      []pregel.Migration
		ok      bool
	}{
		"none": {"3", nil, true}, "a chain": {"3", []pregel.Migration{step("1", "2"), step("2", "3")}, true}, "from unknown": {"3", []pregel.Migration{step("", "3")}, true},
		"two ways in": {"3", []pregel.Migration{step("1", "3"), step("2", "3")}, true},
		"a gap":       {"3", []pregel.Migration{step("1", "2")}, false}, "round": {"3", []pregel.Migration{step("1", "2"), step("2", "1")}, false},
		"on itself": {"3", []pregel.Migration{step("1", "1")}, false}, "from its own": {"3", []pregel.Migration{step("3", "3")}, false}, "past its own": {"2", []pregel.Migration{step("1", "2"), step("2", "3")}, false},
		"twice": {"3", []pregel.Migration{step("1", "3"), step("1", "2"), step("2", "3")}, false},
	} {
		_, err := graph.For[bill1]().Node("a", quiet[bill1]).Edge(graph.Start, "a").Compile(graph.Options{Version: c.version, Migrations: c.ms})
		if (err == nil) != c.ok || err != nil && !errors.Is(err, pregel.ErrInvalidGraph) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type parts struct {
	Done []string `json:"done" state:"append"`
}

// Packets get other arguments, and a node another name, if nothing of its tasks is stored; else the
// thread is refused.
func TestMigrationsOfNodes(t *testing.T) {
	for _, stops := range []string{"before", "asked"} {
		t.Run(stops, func(t *testing.T) {
			s := inMemory()
			old := graph.For[parts]()
			pack := graph.Worker(old, "pack", func(ctx context.Context, n int, _ *parts) (graph.Update, error) {
				_, err := pregel.AskFor[string](ctx, "pack it?")
				return nil, err
			})
			old.Node("sends", func(context.Context, *parts) (graph.Update, error) {
				return pack.Send(1, 2).And(graph.Goto("next")), nil
			}).Node("next", asks[parts]).Edge(graph.Start, "sends")
			g, err := old.Compile(graph.Options{Name: "p", Version: "1", Saver: s})
			if err != nil {
				t.Fatal(err)
			}
			o := pregel.RunOptions{InterruptBefore: []string{"next", "pack"}}
			if stops == "asked" {
				o = pregel.RunOptions{}
			}
			if _, err := g.Run(t.Context(), pregel.Thread("t"), parts{}, o); err != nil {
				t.Fatal(err)
			}
			m := pregel.Migration{From: "1", To: "2", Nodes: map[string]string{"pack": "wrap", "next": "then"}, Packet: func(node string, arg any) (any, error) {
				if node != "wrap" {
					return nil, fmt.Errorf("a packet to %s", node)
				}
				return fmt.Sprint("part ", arg), nil
			}}
			b := graph.For[parts]()
			wrap := graph.Worker(b, "wrap", func(_ context.Context, part string, p *parts) (graph.Update, error) {
				return graph.Write(&p.Done, []string{part}), nil
			})
			b.Node("sends", func(context.Context, *parts) (graph.Update, error) { return wrap.Send("x"), nil }).
				Node("then", func(_ context.Context, p *parts) (graph.Update, error) {
					return graph.Write(&p.Done, []string{"then"}), nil
				}).Edge(graph.Start, "sends")
			now, err := b.Compile(graph.Options{Name: "p", Version: "2", Saver: s, Migrations: []pregel.Migration{m}})
			if err != nil {
				t.Fatal(err)
			}
			r, err := now.Preflight(t.Context(), nil, saver.ThreadQuery{})
			if err != nil || (len(r.Broken) == 0) != (stops == "before") {
				t.Errorf("%v, %v", r, err)
			}
			res, err := now.Continue(t.Context(), pregel.Thread("t"))
			if stops == "asked" {
				if !errors.Is(err, pregel.ErrUnknownNode) {
					t.Errorf("%+v, %v", res, err)
				}
				return
			}
			if err != nil || !slices.Equal(res.State.Done, []string{"then", "part 1", "part 2"}) && !slices.Equal(res.State.Done, []string{"part 1", "part 2", "then"}) {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

// The input of a run that was cut off before the state had it is migrated as a state is.
func TestMigrationOfInput(t *testing.T) {
	s := inMemory()
	run, die := context.WithCancel(t.Context())
	if _, err := billed(t, "1", &dying{s, die}, quiet[bill1]).Run(run, pregel.Thread("t"), bill1{Name: "Ada Lovelace"}, pregel.RunOptions{Durability: pregel.Sync}); err == nil {
		t.Fatal("the run did not die")
	}
	res, err := billed(t, "2", s, quiet[bill2], oneToTwo()).Continue(t.Context(), pregel.Thread("t"))
	if err != nil || res.State.Last != "Lovelace" || len(res.Waiting) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

// Input that a run of an older program left is read under the name that a field has now.
func TestInputUnderAFormerName(t *testing.T) {
	s := inMemory()
	run, die := context.WithCancel(t.Context())
	first, err := graph.For[letterOne]().Node("a", quiet[letterOne]).Edge(graph.Start, "a").Compile(graph.Options{Name: "l", Saver: &dying{s, die}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Run(run, pregel.Thread("t"), letterOne{To: "Ada"}, pregel.RunOptions{Durability: pregel.Sync}); err == nil {
		t.Fatal("the run did not die")
	}
	g, err := graph.For[letterTwo]().Node("a", quiet[letterTwo]).Edge(graph.Start, "a").Compile(graph.Options{Name: "l", Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Continue(t.Context(), pregel.Thread("t"))
	if err != nil || res.State.Recipient != "Ada" {
		t.Errorf("%+v, %v", res, err)
	}
}

// dying ends the process once the input is stored.
type dying struct {
	saver.Saver
	die func()
}

func (s *dying) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	if req.Metadata.Source() != "input" {
		return saver.Config{}, context.Canceled
	}
	defer s.die()
	return s.Saver.PutRequest(ctx, req)
}

// Input that gives a part of the state alone is migrated with the rest of it, which it does not change.
func TestMigrationOfAPartOfTheState(t *testing.T) {
	for name, c := range map[string]struct {
		input bill1
		want  bill2
	}{
		"the name":  {bill1{Name: "Grace Hopper"}, bill2{First: "Grace", Last: "Hopper", Price: "12.34", Log: []string{"a"}}},
		"the price": {bill1{Cents: 5}, bill2{First: "Ada", Last: "Lovelace", Price: "0.05", Log: []string{"a"}}},
		"the log":   {bill1{Log: []string{"a"}}, bill2{First: "Ada", Last: "Lovelace", Price: "12.34", Log: []string{"a", "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := inMemory()
			one := func(s saver.Saver) *graph.Graph[bill1] {
				g, err := graph.For[bill1]().Node("n", quiet[bill1]).Edge(graph.Start, "n").Compile(graph.Options{Name: "b", Version: "1", Saver: s})
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			if _, err := one(s).Run(t.Context(), pregel.Thread("t"), bill1{Name: "Ada Lovelace", Cents: 1234, Log: []string{"a"}}); err != nil {
				t.Fatal(err)
			}
			run, die := context.WithCancel(t.Context())
			if _, err := one(&dying{s, die}).Run(run, pregel.Thread("t"), c.input, pregel.RunOptions{Durability: pregel.Sync}); err == nil {
				t.Fatal("the run did not die")
			}
			two, err := graph.For[bill2]().Node("n", quiet[bill2]).Edge(graph.Start, "n").Compile(graph.Options{Name: "b", Version: "2", Saver: s,
				Migrations: []pregel.Migration{graph.Migrate("1", "2", toBill2)}})
			if err != nil {
				t.Fatal(err)
			}
			res, err := two.Continue(t.Context(), pregel.Thread("t"))
			if err != nil || !reflect.DeepEqual(res.State, c.want) {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

// noteless shows threads as another program stores them.
type noteless struct{ saver.Saver }

func (s noteless) GetTuple(ctx context.Context, at saver.Config) (*saver.Tuple, error) {
	tup, err := s.Saver.GetTuple(ctx, at)
	if tup != nil {
		tup.Note = nil
	}
	return tup, err
}

// A thread without a version is migrated once, by a run and by Preflight.
func TestMigrationWithoutAVersion(t *testing.T) {
	s := inMemory()
	if _, err := billed(t, "1", s, quiet[bill1]).Run(t.Context(), pregel.Thread("t"), bill1{Name: "Ada Lovelace", Cents: 1234}); err != nil {
		t.Fatal(err)
	}
	g := billed(t, "2", noteless{s}, quiet[bill2], graph.Migrate("", "2", toBill2))
	if r, err := g.Preflight(t.Context(), nil, saver.ThreadQuery{}); err != nil || r.Threads != 1 || len(r.Broken) > 0 {
		t.Errorf("%v, %v", r, err)
	}
	if st, err := g.State(t.Context(), pregel.Thread("t")); err != nil || st.State.Price != "12.34" {
		t.Errorf("%+v, %v", st, err)
	}
}
