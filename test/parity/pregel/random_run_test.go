package traces

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// spec is a graph and a script as random_graphs.py draws them.
type spec struct {
	Seed      int               `json:"seed"`
	Keys      map[string]string `json:"keys"`
	Frequency int               `json:"frequency"`
	Graph     graphSpec         `json:"graph"`
	Script    []opSpec          `json:"script"`
}

// exits reports whether some run of the script is an Exit run in every trace.
func (s spec) exits() bool {
	return slices.ContainsFunc(s.Script, func(op opSpec) bool { return op.Durability == pregel.Exit })
}

type graphSpec struct {
	Nodes    []nodeSpec   `json:"nodes"`
	Edges    [][2]string  `json:"edges"`
	Joins    []joinSpec   `json:"joins"`
	Branches []branchSpec `json:"branches"`
	Before   []string     `json:"before"`
	After    []string     `json:"after"`
	Stable   bool         `json:"stable"`
}

type nodeSpec struct {
	Name    string     `json:"name"`
	Sub     *graphSpec `json:"sub"`
	Calls   int        `json:"calls"`
	Asks    int        `json:"asks"`
	Emits   bool       `json:"emits"`
	Fails   int        `json:"fails"`
	Retries int        `json:"retries"`
	Handler pairs      `json:"handler"`
	Update  pairs      `json:"update"`
	Returns string     `json:"returns"`
	Goto    []dest     `json:"goto"`
	Parent  bool       `json:"parent"`
	Defer   bool       `json:"defer"`
	Tasks   []callSpec `json:"tasks"`

	HandlerAsks bool `json:"handler_asks"`
}

// callSpec is a durable task that a node calls.
type callSpec struct {
	Asks  bool `json:"asks"`
	Below bool `json:"below"`
}

type branchSpec struct {
	From string   `json:"from"`
	By   string   `json:"by"`
	Ways [][]dest `json:"ways"`
}

type opSpec struct {
	Op     string `json:"op"`
	Pick   int    `json:"pick"`
	How    string `json:"how"`
	Input  pairs  `json:"input"`
	Update pairs  `json:"update"`
	Values pairs  `json:"values"`
	More   pairs  `json:"more"`
	As     string `json:"as"`
	As2    string `json:"as2"`
	AtHead bool   `json:"at_head"`
	Run    bool   `json:"run"`
	Goto   []dest `json:"goto"`

	Durability pregel.Durability `json:"durability"`
	Before     []string          `json:"before"`
	After      []string          `json:"after"`

	Stray bool `json:"stray"`
	Map   bool `json:"map"`
}

// joinSpec is the pair of the sources and the target of a join.
type joinSpec struct {
	from []string
	to   string
}

func (j *joinSpec) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&j.from, &j.to})
}

// dest is where a node goes: a name or a packet.
type dest struct{ to any }

func (d *dest) UnmarshalJSON(b []byte) error {
	var send struct {
		Send string `json:"send"`
		Arg  any    `json:"arg"`
	}
	if json.Unmarshal(b, &send) == nil {
		d.to = pregel.Send{Node: send.Send, Arg: plainValue(send.Arg)}
		return nil
	}
	var name string
	err := json.Unmarshal(b, &name)
	d.to = name
	return err
}

// plainValue is JSON as a graph's values.
func plainValue(v any) any {
	switch x := v.(type) {
	case float64:
		return int(x)
	case []any:
		words := make([]string, len(x))
		for i, w := range x {
			words[i] = w.(string)
		}
		return words
	case m:
		if ow, ok := x["$overwrite"]; ok {
			return pregel.Overwrite{Value: plainValue(ow)}
		}
		out := m{}
		for k, e := range x {
			out[k] = plainValue(e)
		}
		return out
	}
	return v
}

// pairs is an update; nil is none.
type pairs pregel.Pairs

func (p *pairs) UnmarshalJSON(b []byte) error {
	var list [][2]any
	if err := json.Unmarshal(b, &list); err != nil || list == nil {
		return err
	}
	*p = pairs{}
	for _, e := range list {
		*p = append(*p, pregel.Pair{Key: e[0].(string), Value: plainValue(e[1])})
	}
	return nil
}

func (p pairs) plain() any {
	if p == nil {
		return nil
	}
	return pregel.Pairs(p)
}

func (s *spec) builder() *program {
	kinds := map[string]func() channel.Channel{
		"any": channel.AnyValue[string], "delta": func() channel.Channel { return deltaItems(s.Frequency) },
		"eph": func() channel.Channel { return channel.Ephemeral[string](channel.Guarded) }, "last": channel.LastValue[string],
		"list":      func() channel.Channel { return channel.Reduce(channel.Append[string]) },
		"sum":       func() channel.Channel { return channel.Reduce(func(a, b int) int { return a + b }) },
		"topic":     func() channel.Channel { return channel.Topic[string](channel.PerStep) },
		"topic_all": func() channel.Channel { return channel.Topic[string](channel.Accumulate) },
		"untracked": func() channel.Channel { return channel.UntrackedValue[string](channel.Guarded) },
	}
	var fields []graph.Field
	for _, k := range slices.Sorted(maps.Keys(s.Keys)) {
		fields = append(fields, graph.Key(k, kinds[s.Keys[k]]()))
	}
	return newProgram(fields...)
}

// told is a word for what a node was given.
func told(v any) string {
	in, ok := v.(m)
	if !ok {
		return fmt.Sprint(v)
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(in)) {
		switch x := in[k].(type) {
		case []string:
			out = append(out, fmt.Sprint(k, len(x)))
		case []any:
			out = append(out, fmt.Sprint(k, len(x)))
		case nil:
			out = append(out, k+"None")
		default:
			out = append(out, fmt.Sprint(k, x))
		}
	}
	return strings.Join(out, ",")
}

// random runs a spec.
type random struct {
	*trace
	spec  spec
	mu    sync.Mutex // guards calls
	calls map[string]int
	graph *pregel.Graph
	op    opSpec // under way
}

func playRandom(tr *trace, s spec) {
	r := &random{trace: tr, spec: s, calls: map[string]int{}}
	r.graph = r.build(s.Graph, "", graph.Options{Saver: tr.saver})
	for _, op := range s.Script {
		r.op = op
		r.put(opLine(op.Op))
		r.do(op)
	}
	r.put(opLine("end"))
	r.showHistory()
}

func (r *random) build(g graphSpec, path string, o graph.Options) *pregel.Graph {
	b := r.spec.builder()
	for _, n := range g.Nodes {
		opts := graph.NodeOptions{Defer: n.Defer}
		if n.Retries > 1 {
			opts.Retry = []pregel.RetryPolicy{{InitialInterval: time.Microsecond, NoJitter: true, MaxAttempts: n.Retries}}
		}
		if n.Handler != nil {
			opts.OnError = n.handle
		}
		r.node(b, n, path+n.Name, opts)
	}
	for _, e := range g.Edges {
		b.Edge(e[0], e[1])
	}
	for _, j := range g.Joins {
		b.Join(j.from, j.to)
	}
	for i, br := range g.Branches {
		b.Conditional(br.From, fmt.Sprint("branch", i), br.choose)
	}
	o.InterruptBefore, o.InterruptAfter = g.Before, g.After
	return r.compile(b, o)
}

func (br branchSpec) choose(_ context.Context, s any) (any, error) {
	steps, _ := s.(m)["steps"].([]string)
	n := len(steps)
	if br.By == "n" {
		n, _ = s.(m)["n"].(int)
	}
	return targets(br.Ways[n%len(br.Ways)]), nil
}

func targets(list []dest) []any {
	out := make([]any, len(list))
	for i, d := range list {
		out[i] = d.to
	}
	return out
}

func (r *random) node(b *program, n nodeSpec, path string, opts graph.NodeOptions) {
	if n.Sub == nil {
		b.Node(n.Name, r.body(n, path), opts)
		return
	}
	o := graph.Options{}
	if n.Sub.Stable {
		o.Checkpointing = pregel.Stable
	}
	sub := r.build(*n.Sub, path+".", o)
	if n.Calls == 0 {
		b.Subgraph(n.Name, sub, opts)
		return
	}
	opts.Subgraphs = []*pregel.Graph{sub}
	b.Node(n.Name, func(ctx context.Context, v any) (any, error) {
		var out []string
		for i := range n.Calls {
			res, err := sub.Invoke(ctx, pregel.Inside(), pregel.Pairs{{Key: "n", Value: i}, {Key: "steps", Value: []string{told(v)}}})
			if err != nil {
				return nil, err
			}
			steps, _ := res.Map()["steps"].([]string)
			out = append(out, steps[max(len(steps)-2, 0):]...)
		}
		return m{"steps": out}, nil
	}, opts)
}
