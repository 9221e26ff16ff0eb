package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// onDisk calls f with a store in dir that is open only meanwhile.
func onDisk(t *testing.T, dir string, f func(s saver.Saver)) {
	t.Helper()
	d, err := disk.Open(dir, disk.Options{Sync: disk.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	f(d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// badRow is one way a run can go wrong: with the nodes left and right, which both
// write to "out".
type badRow struct {
	out         channel.Channel
	left, right pregel.Func
	cancel      bool  // the caller gives up in the middle
	is          error // or a type that wantTyped knows
	names       []string
	again       any // input of the run after it, by a graph that does better
	want        string
}

var errNamesNode = errors.New("a TaskError")

func badRows() map[string]badRow {
	list := func() channel.Channel { return channel.Reduce(channel.Append[any]) }
	ok := returns([]any{"ok"})
	return map[string]badRow{
		"a node panics":   {out: list(), left: ok, right: func(context.Context, any) (any, error) { panic("ouch") }, is: errNamesNode, names: []string{"right", "ouch"}, want: "[ok better]"},
		"a node fails":    {out: list(), left: ok, right: fails(errBoom), is: errNamesNode, names: []string{"right", "boom"}, want: "[ok better]"},
		"wrong type":      {out: channel.Reduce(channel.Append[int]), left: returns("text"), right: returns([]int{1}), is: pregel.ErrInvalidUpdate, names: []string{"'out'", "left"}, again: 2, want: "[3]"},
		"two writers":     {out: channel.LastValue[any](), left: returns(1), right: returns(2), is: pregel.ErrInvalidUpdate, names: []string{"'out'", "left", "right"}, again: 2, want: "3"},
		"no form to keep": {out: list(), left: ok, right: returns([]any{map[string]any{"deep": []any{1, func() {}}}}), is: errNamesNode, names: []string{"right", "out", "deep"}, want: "[ok better]"},
		"cancelled":       {out: list(), left: ok, right: waits, cancel: true, is: context.Canceled, want: "[ok better]"},
	}
}

// Whatever goes wrong in a run is an error that names node and channel, in every
// durability; the store can be closed, opened, and gone on with by a graph that
// does better. Siblings keep what they wrote.
func TestBadRunsLeaveTheStoreResumable(t *testing.T) {
	for name, row := range badRows() {
		for _, d := range allDurabilities {
			t.Run(name+"/"+string(d), func(t *testing.T) { row.test(t, d) })
		}
	}
}

func (row badRow) test(t *testing.T, d pregel.Durability) {
	dir, at, cfg, ranLeft := t.TempDir(), pregel.Thread("t"), pregel.RunOptions{Durability: d, MaxConcurrency: 1}, 0
	onDisk(t, dir, func(s saver.Saver) {
		c, cancel := context.WithCancel(ctx)
		defer cancel()
		left := func(ctx context.Context, v any) (any, error) { ranLeft++; return row.left(ctx, v) }
		right := row.right
		if row.cancel {
			right = func(ctx context.Context, v any) (any, error) { cancel(); return row.right(ctx, v) }
		}
		g, err := ordered(s, row.out, left, right)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.Invoke(c, at, 1, cfg)
		row.wantTyped(t, err, d)
	})
	onDisk(t, dir, func(s saver.Saver) {
		left, right, want := row.left, returns([]any{"better"}), row.want
		if row.again != nil {
			left, right = returns(nil), returns(3)
			if strings.HasPrefix(want, "[") {
				right = returns([]int{3})
			}
		}
		again := row.again
		if _, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"}); errors.Is(err, saver.ErrNotFound) {
			if d != pregel.Exit {
				t.Fatal("nothing is stored")
			}
			again = 1 // Exit keeps a failed superstep or nothing
		}
		counted := func(ctx context.Context, v any) (any, error) { ranLeft++; return left(ctx, v) }
		g, err := ordered(s, row.out, counted, right)
		if err != nil {
			t.Fatal(err)
		}
		res, err := g.Invoke(ctx, at, again, cfg)
		if err != nil || fmt.Sprint(res.Value) != want {
			t.Errorf("going on: %+v, %v; want %s", res, err, want)
		}
	})
	if row.again == nil && d != pregel.Exit && ranLeft != 1 {
		t.Errorf("the sibling ran %d times", ranLeft)
	}
}

func (row badRow) wantTyped(t *testing.T, err error, d pregel.Durability) {
	t.Helper()
	names := row.names
	if row.is != errNamesNode {
		wantNamed(t, err, row.is, names...)
		return
	}
	var te *pregel.TaskError
	var ee *pregel.EncodeError
	switch {
	case errors.As(err, &te) && te.Node == "right":
	case errors.As(err, &ee) && ee.Channel == "out":
		if d == pregel.Exit { // it may be the whole channel that is encoded
			names = names[1:]
		}
	default:
		t.Errorf("error %v; want one of a node or a value", err)
		return
	}
	wantNamed(t, err, err, names...)
}

// ordered is pair with left before right.
func ordered(s saver.Saver, out channel.Channel, left, right pregel.Func) (*pregel.Graph, error) {
	spec, o := pregel.Spec{Channels: map[string]channel.Channel{"in": channel.LastValue[any](), "out": out}, Input: pregel.One("in"), Output: pregel.One("out")},
		pregel.Options{Saver: s}
	for i, f := range []pregel.Func{left, right} {
		n, err := node([]string{"left", "right"}[i], f).SubscribeOnly("in").WriteFunc("out", func(v any) (any, error) { return v, nil }).Build()
		if err != nil {
			return nil, err
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	return pregel.New(spec, o)
}

// A graph that names what is not there, or what it may not, is refused before
// anything is stored, and answers that fit nothing leave a store as it was.
func TestRefusedCallsLeaveTheStoreAlone(t *testing.T) {
	dir, at := t.TempDir(), pregel.Thread("t")
	ask := func(c context.Context, _ any) (any, error) { return pregel.Ask(c, "?") }
	var before string
	onDisk(t, dir, func(s saver.Saver) {
		if _, err := fan(t, pregel.Options{Saver: s}, node("left", ask), node("right", ask)).Invoke(ctx, at, 1); err != nil {
			t.Fatal(err)
		}
		before = contents(t, s)
	})
	onDisk(t, dir, func(s saver.Saver) {
		g := fan(t, pregel.Options{Saver: s}, node("left", ask), node("right", ask))
		_, err := g.Invoke(ctx, at, 2, pregel.RunOptions{OutputKeys: &pregel.Keys{Names: []string{"nowhere"}}})
		wantNamed(t, err, pregel.ErrInvalidGraph, "nowhere")
		_, err = g.Invoke(ctx, at, pregel.Command{Resume: "both?"})
		wantNamed(t, err, pregel.ErrAmbiguousResume)
		_, err = g.Invoke(ctx, pregel.Thread("other"), pregel.Command{Resume: "nobody"})
		wantNamed(t, err, pregel.ErrNoInterrupt, "other")
		if after := contents(t, s); after != before {
			t.Errorf("the store changed from\n%s\nto\n%s", before, after)
		}
	})
}

// contents is everything a store holds, in words.
func contents(t *testing.T, s saver.Saver) string {
	t.Helper()
	var b strings.Builder
	for tup, err := range s.List(ctx, saver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, tup.Config, tup.Metadata, tup.Checkpoint.Versions, tup.Checkpoint.Seen, len(tup.PendingWrites))
	}
	return b.String()
}
