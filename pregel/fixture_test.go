package pregel_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

var errBoom = errors.New("boom")

// fan is a graph whose nodes all run in the first superstep, on the input n, and
// append what they return to "out".
func fan(t *testing.T, o pregel.Options, nodes ...*pregel.NodeBuilder) *pregel.Graph {
	t.Helper()
	spec := pregel.Spec{Input: pregel.One("in"), Output: pregel.One("out"),
		Channels: map[string]channel.Channel{"in": channel.LastValue[any](), "out": channel.Reduce(channel.Append[any])}}
	for _, b := range nodes {
		n, err := b.SubscribeOnly("in").WriteFunc("out", func(v any) (any, error) { return []any{v}, nil }).Build()
		if err != nil {
			t.Fatal(err)
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	g, err := pregel.New(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func node(name string, f pregel.Func) *pregel.NodeBuilder { return pregel.NewNode(name).Do(f) }

func returns(v any) pregel.Func { return func(context.Context, any) (any, error) { return v, nil } }

func fails(err error) pregel.Func { return func(context.Context, any) (any, error) { return nil, err } }

// waits ends when its context does.
func waits(ctx context.Context, _ any) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func wantOut(t *testing.T, res *pregel.Result, err error, want ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := res.Value.([]any); !slices.Equal(got, want) {
		t.Errorf("out = %v, want %v", res.Value, want)
	}
}

// withModes is o with the modes of a stream.
func withModes(o pregel.RunOptions, modes ...pregel.Mode) pregel.RunOptions {
	o.Modes = modes
	return o
}
