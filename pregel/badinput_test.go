package pregel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// wantNamed checks the type of an error and that its text names what it is about.
func wantNamed(t *testing.T, err, is error, names ...string) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Errorf("error %v; want one that is %v", err, is)
		return
	}
	for _, n := range names {
		if !strings.Contains(err.Error(), n) {
			t.Errorf("error %q does not name %q", err, n)
		}
	}
}

// pair is a graph of nodes left and right, which both write to "out" of this
// kind in the first superstep.
func pair(t *testing.T, s saver.Saver, out channel.Channel, left, right pregel.Func) (*pregel.Graph, error) {
	t.Helper()
	spec, o := pregel.Spec{Channels: map[string]channel.Channel{"in": channel.LastValue[any](), "out": out}, Input: pregel.One("in"), Output: pregel.One("out")},
		pregel.Options{Saver: s}
	for name, f := range map[string]pregel.Func{"left": left, "right": right} {
		n, err := node(name, f).SubscribeOnly("in").WriteFunc("out", func(v any) (any, error) { return v, nil }).Build()
		if err != nil {
			t.Fatal(err)
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	return pregel.New(spec, o)
}

// Bad input is an error that names node and channel, and what is stored can be
// resumed by a graph that does better.
func TestBadWritesAreNamed(t *testing.T) {
	type loop struct{ Self *loop }
	cyclic := &loop{}
	cyclic.Self = cyclic
	for id, c := range map[string]struct {
		out         channel.Channel
		left, right any
		is          error
		names       []string
	}{
		"CHN-12/two writers":   {channel.LastValue[any](), 1, 2, pregel.ErrInvalidUpdate, []string{"At key 'out'", "left", "right"}},
		"wrong type":           {channel.LastValue[int](), "text", nil, pregel.ErrInvalidUpdate, []string{"'out'", "left", "string", "int"}},
		"CHN-11/overwrites":    {channel.Reduce(channel.Append[any]), pregel.Overwrite{Value: []any{1}}, pregel.Overwrite{Value: []any{2}}, pregel.ErrInvalidUpdate, []string{"'out'", "left", "right", "only one Overwrite"}},
		"a barrier's stranger": {channel.NamedBarrier("a", "b"), "x", nil, pregel.ErrInvalidUpdate, []string{"'out'", "left", "Value x not in"}},
	} {
		t.Run(id, func(t *testing.T) {
			s := memory.New(memory.Options{})
			g, err := pair(t, s, c.out, returns(c.left), returns(c.right))
			if err != nil {
				t.Fatal(err)
			}
			at := pregel.Thread("t")
			_, err = g.Invoke(ctx, at, 1)
			wantNamed(t, err, c.is, c.names...)
			// The writes are stored, so going on fails in the same way; the
			// checkpoint before them is as it was, and new input drops them.
			_, err = g.Invoke(ctx, at, nil)
			wantNamed(t, err, c.is, c.names...)
			tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
			if err != nil || tup.Metadata.Source() != "input" {
				t.Fatalf("%+v, %v; the superstep must not have counted", tup, err)
			}
			better, err := pair(t, s, c.out, returns(nil), returns(nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := better.Invoke(ctx, at, 2); err != nil {
				t.Errorf("new input: %v", err)
			}
			if state, err := better.GetState(ctx, at); err != nil || len(state.Next) > 0 {
				t.Errorf("%+v, %v", state, err)
			}
		})
	}
	for id, v := range map[string]any{"a function": map[string]any{"deep": []any{1, func() {}}}, "a channel": map[string]any{"deep": []any{1, make(chan int)}}, "a cycle": map[string]any{"deep": []any{1, cyclic}}} {
		t.Run("unserializable/"+id, func(t *testing.T) {
			for _, d := range allDurabilities {
				s := memory.New(memory.Options{})
				bad := v
				g, err := pair(t, s, channel.AnyValue[any](), func(context.Context, any) (any, error) { return bad, nil }, returns(nil))
				if err != nil {
					t.Fatal(err)
				}
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
				_, err = g.Invoke(ctx, at, 1, cfg)
				var ee *pregel.EncodeError
				if !errors.As(err, &ee) || ee.Channel != "out" || ee.Node != "left" && d != pregel.Exit || !strings.Contains(err.Error(), "deep") {
					t.Errorf("%s: error %v", d, err)
				}
				bad = "good"
				var input any
				if d == pregel.Exit { // nothing could be stored
					input = 1
				}
				res, err := g.Invoke(ctx, at, input, cfg)
				if err != nil || res.Value != "good" {
					t.Errorf("%s: resumed: %v, %v", d, res, err)
				}
			}
		})
	}
}

// A graph whose channels changed since the checkpoint says which channel does not
// fit; one that lost or gained channels goes on.
func TestChangedChannels(t *testing.T) {
	s := memory.New(memory.Options{})
	at := pregel.Thread("t")
	run := func(out channel.Channel, input any) (*pregel.Result, error) {
		g, err := pair(t, s, out, returns("text"), returns(nil))
		if err != nil {
			t.Fatal(err)
		}
		return g.Invoke(ctx, at, input)
	}
	if _, err := run(channel.LastValue[string](), 1); err != nil {
		t.Fatal(err)
	}
	for name, out := range map[string]channel.Channel{"a number": channel.LastValue[int](), "a list": channel.Reduce(channel.Append[int]), "a barrier": channel.NamedBarrier("a")} {
		_, err := run(out, 2)
		var re *channel.RestoreError
		if !errors.As(err, &re) || re.Key != "out" || !strings.Contains(err.Error(), `"out"`) {
			t.Errorf("%s: error %v; want one that names the channel", name, err)
		}
		g, err := pair(t, s, out, returns(nil), returns(nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.GetState(ctx, at); err == nil || !strings.Contains(err.Error(), `"out"`) {
			t.Errorf("%s: state: %v", name, err)
		}
	}
	other := fan(t, pregel.Options{Saver: s}, node("n", returns("n"))) // it has "out" as a list of anything
	if _, err := other.Invoke(ctx, at, 3); err == nil || !strings.Contains(err.Error(), `"out"`) {
		t.Errorf("error %v", err)
	}
	if res, err := run(channel.LastValue[string](), 4); err != nil || res.Value != "text" {
		t.Errorf("after all that: %v, %v", res, err)
	}
	o := memory.New(memory.Options{})
	if _, err := line(t, pregel.Options{Saver: o}, nothing, "a", "b").Invoke(ctx, at, 1); err != nil {
		t.Fatal(err)
	}
	g := line(t, pregel.Options{Saver: o}, nothing, "a") // "go1" is gone, and node "b"
	if res, err := g.Invoke(ctx, at, 1); err != nil || len(res.Value.([]string)) != 3 {
		t.Errorf("a channel less: %v, %v", res, err)
	}
	g = line(t, pregel.Options{Saver: o}, nothing, "a", "b", "c")
	if res, err := g.Invoke(ctx, at, 1); err != nil || len(res.Value.([]string)) != 6 {
		t.Errorf("channels more: %v, %v", res, err)
	}
}

// Answers that cannot be given are refused before anything is stored.
func TestBadAnswers(t *testing.T) {
	ask := func(c context.Context, _ any) (any, error) { return pregel.Ask(c, "?") }
	s := watch(nil)
	g := fan(t, pregel.Options{Saver: s}, node("left", ask), node("right", ask))
	at := pregel.Thread("t")
	res, err := g.Invoke(ctx, at, 1)
	if err != nil || len(res.Interrupts) != 2 {
		t.Fatalf("%v, %v", res, err)
	}
	a, b := res.Interrupts[0].ID, res.Interrupts[1].ID
	before := len(s.acked(""))
	_, err = g.Invoke(ctx, at, pregel.Command{Resume: "x"})
	wantNamed(t, err, pregel.ErrAmbiguousResume, a, b)
	stranger := strings.Repeat("0", 32)
	_, err = g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{stranger: "x"}})
	wantNamed(t, err, pregel.ErrUnknownInterrupt, stranger, a, b)
	_, err = g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{}})
	wantNamed(t, err, pregel.ErrUnknownInterrupt, "names no question", a, b)
	_, err = g.Invoke(ctx, at, pregel.Command{Goto: 3})
	wantNamed(t, err, pregel.ErrInvalidUpdate, "int")
	_, err = g.Invoke(ctx, at, pregel.Command{Graph: pregel.Parent, Resume: map[string]any{a: "x"}})
	wantNamed(t, err, pregel.ErrInvalidUpdate, "no parent")
	if after := len(s.acked("")); after != before {
		t.Errorf("%d things were stored by calls that were refused", after-before)
	}
	res, err = g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{a: "A", b: "B"}})
	wantOut(t, res, err, "A", "B")
	before = len(s.acked(""))
	_, err = g.Invoke(ctx, at, pregel.Command{Resume: "late"})
	wantNamed(t, err, pregel.ErrNoInterrupt, `"t"`)
	if after := len(s.acked("")); after != before {
		t.Errorf("an answer to nothing was stored")
	}
}
