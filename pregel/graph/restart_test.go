package graph_test

import (
	"context"
	"encoding/json"
	"math"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// lives opens the same store again and again.
type lives struct {
	name string
	open func(t *testing.T) saver.Saver
}

// restarts are a store on disk, which is closed and opened, and one in memory.
func restarts(t *testing.T) []lives {
	dir, kept := t.TempDir(), inMemory()
	var open *disk.Saver
	reopen := func(t *testing.T) saver.Saver {
		t.Helper()
		if open != nil {
			if err := open.Close(); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		if open, err = disk.Open(dir, disk.Options{Sync: disk.SyncNever}); err != nil {
			t.Fatal(err)
		}
		return open
	}
	t.Cleanup(func() {
		if open != nil {
			if err := open.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return []lives{{"disk", reopen}, {"memory", func(*testing.T) saver.Saver { return kept }}}
}

type Call struct {
	ID   string         `json:"id"`
	Args map[string]any `json:"args"`
	At   time.Time      `json:"at"`
}

type Point struct{ X, Y int }

type Level uint8

type Base struct {
	Owner string `json:"owner"`
	Seen  *Point `json:"seen"`
}

// Kinds has a field of every kind that a state may have.
type Kinds struct {
	Base
	Calls    []Call                `json:"calls"`
	Log      []Call                `json:"log" state:"append"`
	Sum      float64               `json:"sum" state:"add"`
	Places   map[string]Point      `json:"places" state:"merge"`
	Messages []channel.Message     `json:"messages" state:"messages"`
	Delta    []Call                `json:"delta"`
	At       time.Time             `json:"at"`
	For      time.Duration         `json:"for"`
	Nested   struct{ In []Point }  `json:"nested"`
	ByNumber map[int][]*Point      `json:"by_number"`
	Ref      *Point                `json:"ref"`
	Absent   *Point                `json:"absent"`
	Raw      json.RawMessage       `json:"raw"`
	Bytes    []byte                `json:"bytes"`
	Pair     [2]float32            `json:"pair"`
	Addr     netip.Addr            `json:"addr"`
	Big      *big.Int              `json:"big"`
	Level    Level                 `json:"level"`
	Levels   map[Level]bool        `json:"levels"`
	Huge     uint64                `json:"huge"`
	Any      any                   `json:"any"`
	Anything []any                 `json:"anything"`
	Set      map[string]struct{}   `json:"set"`
	Hosts    map[netip.Addr]string `json:"hosts"`
	Left     []Call                `json:"left"`
}

func kinds() *graph.StateBuilder[Kinds] {
	return graph.For[Kinds](graph.Key("delta", channel.Delta(100, func(v []Call, ws [][]Call) ([]Call, error) {
		for _, w := range ws {
			v = append(v, w...)
		}
		return v, nil
	})))
}

func call(id string) Call {
	return Call{id, map[string]any{"n": 1, "list": []string{"a"}, "point": Point{1, 2}}, time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.Local)}
}

// filled writes to every field but Absent.
func filled(k *Kinds) graph.Update {
	return graph.Write(&k.Owner, "ada").And(
		graph.Write(&k.Seen, &Point{1, 2}), graph.Write(&k.Calls, []Call{call("a"), call("b")}), graph.Write(&k.Log, []Call{call("c")}),
		graph.Write(&k.Sum, 1.5), graph.Write(&k.Places, map[string]Point{"here": {3, 4}}),
		graph.WriteAs(&k.Messages, channel.Message{ID: "m1", Role: "ai", Content: "hi", Extra: map[string]any{"calls": []Call{call("d")}}}),
		graph.Write(&k.Delta, []Call{call("e")}), graph.Write(&k.At, time.Now()), graph.Write(&k.For, time.Minute),
		graph.Write(&k.Nested, struct{ In []Point }{[]Point{{5, 6}}}), graph.Write(&k.ByNumber, map[int][]*Point{7: {{8, 9}, nil}}),
		graph.Write(&k.Ref, &Point{10, 11}), graph.Write(&k.Raw, json.RawMessage(`{"a":1}`)), graph.Write(&k.Bytes, []byte{0, 255}),
		graph.Write(&k.Pair, [2]float32{0.1, 2}), graph.Write(&k.Addr, netip.MustParseAddr("192.0.2.1")),
		graph.Write(&k.Big, new(big.Int).Lsh(big.NewInt(1), 40)), graph.Write(&k.Level, 3), graph.Write(&k.Levels, map[Level]bool{4: true}),
		graph.Write(&k.Huge, math.MaxUint64), graph.Write(&k.Any, any([]Call{call("f")})), graph.Write(&k.Anything, []any{Point{1, 2}, 3}),
		graph.Write(&k.Set, map[string]struct{}{"x": {}}), graph.Write(&k.Hosts, map[netip.Addr]string{netip.MustParseAddr("::1"): "here"}))
}

var sameValues = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b *big.Int) bool { return a == b || a != nil && b != nil && a.Cmp(b) == 0 }),
}

// Values have the same types, and are the same, before a restart and after it: what a node
// wrote in an earlier superstep, what a task wrote in the one that a question stopped, the
// input of a packet, and what a snapshot shows.
func TestTypesSurviveARestart(t *testing.T) {
	for _, l := range restarts(t) {
		t.Run(l.name, func(t *testing.T) {
			ctx, at := t.Context(), pregel.Thread("t")
			got := map[string][]Kinds{}
			packets := map[string][]Call{}
			build := func() *graph.Graph[Kinds] {
				b := kinds().Node("fill", does(filled)).Node("late", does(func(k *Kinds) graph.Update {
					return graph.Write(&k.Left, []Call{call("g")}).And(graph.Write(&k.Log, []Call{call("h")}), graph.Write(&k.Sum, 2))
				})).Node("ask", func(ctx context.Context, k *Kinds) (graph.Update, error) {
					got["ask"] = append(got["ask"], *k)
					_, err := pregel.AskFor[bool](ctx, "go on?")
					return nil, err
				}).Node("end", does(func(k *Kinds) graph.Update { got["end"] = append(got["end"], *k); return nil }))
				packet := graph.Worker(b, "packet", func(ctx context.Context, c Call, _ *Kinds) (graph.Update, error) {
					packets["packet"] = append(packets["packet"], c)
					_, err := pregel.AskFor[bool](ctx, "packet?")
					return nil, err
				})
				b.Edge(graph.Start, "fill").Edge("fill", "late").Edge("fill", "ask").Join([]string{"late", "ask"}, "end")
				return made(t, b.Branch("fill", does(func(*Kinds) graph.Update { return packet.Send(call("p")) }), packet.Name()), l.open(t))
			}
			g := build()
			res, err := g.Run(ctx, at, Kinds{})
			if err != nil || len(res.Waiting) != 2 {
				t.Fatalf("%+v, %v", res, err)
			}
			before, err := g.State(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			g = build()
			after, err := g.State(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.State, after.State, sameValues); diff != "" {
				t.Errorf("the snapshot differs (-before +after):\n%s", diff)
			}
			answers := map[string]any{}
			for _, q := range after.Interrupts {
				answers[q.ID] = true
			}
			res, err = g.Resume(ctx, at, answers)
			if err != nil {
				t.Fatal(err)
			}
			if len(got["ask"]) != 2 || len(got["end"]) != 1 || len(packets["packet"]) != 2 {
				t.Fatalf("nodes ran %d and %d times, packets %d", len(got["ask"]), len(got["end"]), len(packets["packet"]))
			}
			if diff := cmp.Diff(got["ask"][0], got["ask"][1], sameValues); diff != "" {
				t.Errorf("a node that runs again gets another state (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(packets["packet"][0], packets["packet"][1]); diff != "" {
				t.Errorf("a packet differs (-before +after):\n%s", diff)
			}
			want := got["ask"][0]
			want.Left, want.Sum, want.Log = after.State.Left, 3.5, after.State.Log
			if diff := cmp.Diff(want, got["end"][0], sameValues); diff != "" {
				t.Errorf("what tasks wrote before the restart differs (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(res.State, got["end"][0], sameValues); diff != "" {
				t.Errorf("the result differs (-result +node):\n%s", diff)
			}
			if len(want.Left) != 1 || len(want.Log) != 2 || want.Big == nil || want.Huge != math.MaxUint64 || want.Absent != nil || want.ByNumber[7][1] != nil {
				t.Errorf("the state is %+v", want)
			}
		})
	}
}
