package traces

import (
	"context"
	"fmt"
	"slices"

	"github.com/stele-go/stele/pregel"
)

// task is the durable task of a call.
func (c callSpec) task(node string, i int) *pregel.TaskFunc[string, string] {
	below := pregel.NewTask(node+"_below", func(_ context.Context, v string) (string, error) { return v + "!", nil })
	return pregel.NewTask(fmt.Sprintf("%s_call%d", node, i), func(ctx context.Context, v string) (string, error) {
		out := v
		if c.Below {
			var err error
			if out, err = below.Call(ctx, v); err != nil {
				return "", err
			}
		}
		if !c.Asks {
			return out, nil
		}
		answer, err := pregel.AskFor[string](ctx, v+"?")
		return out + answer, err
	})
}

// called makes the calls of a node one after another.
func called(ctx context.Context, node string, calls []*pregel.TaskFunc[string, string]) (out []string, err error) {
	for i, c := range calls {
		v, err := c.Call(ctx, fmt.Sprint(node, i))
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// handle is the handler of the node's failure.
func (n nodeSpec) handle(ctx context.Context, _ any) (any, error) {
	out := slices.Clone(pregel.Pairs(n.Handler))
	if !n.HandlerAsks {
		return out, nil
	}
	answer, err := pregel.AskFor[string](ctx, "h"+n.Name+"?")
	for i, p := range out {
		if p.Key == "steps" {
			out[i].Value = []string{answer}
		}
	}
	return out, err
}

// call counts the runs of a node.
func (r *random) call(path string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[path]++
	return r.calls[path]
}

func (r *random) body(n nodeSpec, path string) pregel.Func {
	var calls []*pregel.TaskFunc[string, string]
	for i, c := range n.Tasks {
		calls = append(calls, c.task(n.Name, i))
	}
	return func(ctx context.Context, v any) (any, error) {
		if n.Emits {
			if err := pregel.Emit(ctx, path+" "+told(v)); err != nil {
				return nil, err
			}
		}
		answers, err := called(ctx, n.Name, calls)
		if err != nil {
			return nil, err
		}
		for i := range n.Asks {
			a, err := pregel.AskFor[string](ctx, fmt.Sprint(n.Name, i, "?"))
			if err != nil {
				return nil, err
			}
			answers = append(answers, a)
		}
		if r.call(path) <= n.Fails {
			return nil, boom{n.Name + " failed"}
		}
		out := slices.Clone(pregel.Pairs(n.Update))
		for i, p := range out {
			if _, plain := p.Value.([]string); p.Key == "steps" && plain {
				out[i].Value = append([]string{fmt.Sprintf("%s(%s)", n.Name, told(v))}, answers...)
			}
		}
		c := pregel.Command{Update: out, Goto: targets(n.Goto)}
		if n.Parent {
			c.Graph = pregel.Parent
		}
		switch n.Returns {
		case "none":
			return nil, nil
		case "dict":
			return out, nil
		case "send":
			return n.Goto[0].to, nil
		case "command":
			return c, nil
		}
		return []any{c, in("more")}, nil
	}
}
