package pregel_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// relay is a graph whose nodes pass a number on: from in to the channel mid, and from
// there to out. log, a delta or a reducing channel, gets what passes.
func relay(t *testing.T, s saver.Saver, mid, log string, ch channel.Channel, aliases map[string]string) *pregel.Graph {
	t.Helper()
	spec := pregel.Spec{Input: pregel.One("in"), Output: pregel.One("out"), Aliases: aliases, Channels: map[string]channel.Channel{
		"in": channel.Ephemeral[int](channel.Guarded), mid: channel.LastValue[int](), log: ch, "out": channel.LastValue[int]()}}
	list := func(v any) (any, error) { return []int{v.(int)}, nil }
	for _, b := range []*pregel.NodeBuilder{
		pregel.NewNode("one").SubscribeOnly("in").Do(same).WriteTo(mid).WriteFunc(log, list),
		pregel.NewNode("two").SubscribeOnly(mid).Do(same).WriteTo("out").WriteFunc(log, list),
	} {
		n, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	g, err := pregel.New(spec, pregel.Options{Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func same(_ context.Context, v any) (any, error) { return v, nil }

func listDelta() channel.Channel {
	return channel.Delta(100, func(v []int, ws [][]int) ([]int, error) { return append(v, slices.Concat(ws...)...), nil })
}

func wantValues(t *testing.T, what string, g *pregel.Graph, at pregel.Address, want map[string]any) *pregel.StateSnapshot {
	t.Helper()
	s, err := g.GetState(ctx, at)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if got := s.Map(); !reflect.DeepEqual(got, want) {
		t.Errorf("%s: values %v, want %v", what, got, want)
	}
	return s
}

// A channel that has another name now is read under the former one: by reads, copies,
// updates and runs. A node that it triggered is not triggered again.
func TestRenamedChannels(t *testing.T) {
	at := pregel.Thread("t")
	for name, now := range map[string]channel.Channel{"delta": listDelta(), "from delta to whole": channel.Reduce(channel.Append[int])} {
		t.Run(name, func(t *testing.T) {
			aliases := map[string]string{"mid": "between", "log": "journal"}
			before := map[string]any{"between": 2, "out": 2, "journal": []int{1, 1, 2, 2}}
			older := func() (*memory.Saver, *pregel.Graph, *pregel.StateSnapshot) {
				s := memory.New(memory.Options{})
				old := relay(t, s, "mid", "log", listDelta(), nil)
				for _, n := range []int{1, 2} {
					if _, err := old.Invoke(ctx, at, n); err != nil {
						t.Fatal(err)
					}
				}
				g := relay(t, s, "between", "journal", now, aliases)
				read := wantValues(t, "read", g, at, before)
				if len(read.Next) > 0 {
					t.Errorf("next are %q", read.Next)
				}
				return s, g, read
			}

			s, g, read := older()
			copied, err := g.UpdateState(ctx, read.Address, pregel.StateUpdate{AsNode: pregel.Copy})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Retain(ctx, saver.RetentionPolicy{KeepLast: 1}, false); err != nil {
				t.Fatal(err)
			}
			wantValues(t, "copied", g, copied, before)
			wantValues(t, "copied, read by the older", relay(t, s, "mid", "log", listDelta(), nil), copied, map[string]any{"mid": 2, "out": 2, "log": []int{1, 1, 2, 2}})

			after := map[string]any{"between": 2, "out": 3, "journal": []int{1, 1, 2, 2, 3}}
			_, g, _ = older()
			updated, err := g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: "two", Values: 3})
			if err != nil {
				t.Fatal(err)
			}
			wantValues(t, "updated", g, updated, after)

			after = map[string]any{"between": 4, "out": 4, "journal": []int{1, 1, 2, 2, 4, 4}}
			for _, d := range []pregel.Durability{pregel.Sync, pregel.Exit} {
				s, g, _ := older()
				if _, err := g.Invoke(ctx, at, 4, pregel.RunOptions{Durability: d}); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Retain(ctx, saver.RetentionPolicy{KeepLast: 1}, false); err != nil {
					t.Fatal(err)
				}
				wantValues(t, "run "+string(d), g, at, after)
			}
		})
	}
}

// Of two former names the one that was written last counts, and of a former name and the
// present one the present.
func TestFormerNamesOfOneChannel(t *testing.T) {
	s, at := memory.New(memory.Options{}), pregel.Thread("t")
	for i, mid := range []string{"b", "a"} { // the second does not know the first
		if _, err := relay(t, s, mid, "log", listDelta(), nil).Invoke(ctx, at, i+1); err != nil {
			t.Fatal(err)
		}
	}
	g := relay(t, s, "now", "log", listDelta(), map[string]string{"a": "now", "b": "now"})
	wantValues(t, "two former names", g, at, map[string]any{"now": 2, "out": 2, "log": []int{1, 1, 2, 2}})
	if _, err := g.Invoke(ctx, at, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := relay(t, s, "a", "log", listDelta(), nil).Invoke(ctx, at, 4); err != nil { // the older program again
		t.Fatal(err)
	}
	wantValues(t, "a former name and the present one", g, at, map[string]any{"now": 3, "out": 4, "log": []int{1, 1, 2, 2, 3, 3, 4, 4}})
}

func TestAliasesThatAreRefused(t *testing.T) {
	for what, aliases := range map[string]map[string]string{"a former name that is a channel": {"out": "mid"}, "of no channel": {"old": "new"}} {
		spec := pregel.Spec{Input: pregel.One("in"), Output: pregel.One("out"), Aliases: aliases, Channels: map[string]channel.Channel{
			"in": channel.LastValue[int](), "mid": channel.LastValue[int](), "out": channel.LastValue[int]()}}
		n, err := pregel.NewNode("one").SubscribeOnly("in").Do(same).WriteTo("out").Build()
		if err != nil {
			t.Fatal(err)
		}
		spec.Nodes = append(spec.Nodes, n)
		if _, err := pregel.New(spec, pregel.Options{}); !errors.Is(err, pregel.ErrInvalidGraph) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
