package changetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// program is a changed program. ran counts the functions of the program that began.
type program struct {
	preflight func(ctx context.Context, s saver.Saver, q saver.ThreadQuery) (*pregel.PreflightReport, error)
	g         *pregel.Graph
	ran       *atomic.Int64
}

// plan says how a changed program differs from the old one, besides its state.
type plan struct {
	names  map[string]string // present names of nodes; "-" for one that is gone
	asks   string            // the node that asks; "" is ask
	words  string            // what it asks; "" is "send it?"
	breaks []string          // breakpoints before nodes
	fields []graph.Field
	joined []string // what ship waits for; nil: price and ask
	more   []string // nodes more, each after ship
	wakes  []string // nodes that slow wakes as well
	split  bool     // a node record does a part of what ask did
	// version and migrations of the graph. Without them another program reads what this one has stored.
	version    string
	migrations []pregel.Migration
	body       func(ctx context.Context) error
	waits      map[string]func(ctx context.Context) error // of nodes that wait
	inner      func(ran *atomic.Int64) (*pregel.Graph, error)
}

func (p *plan) name(node string) string {
	if to := p.names[node]; to != "" {
		return to
	}
	return node
}

// newer makes a program with the state S, whose worker takes a P.
func newer[S, P any](p plan) maker {
	return func(s saver.Saver, items store.Store) (*program, error) {
		ran := new(atomic.Int64)
		if p.inner == nil {
			p.inner = innerOf[inside]("check")
		}
		inner, err := p.inner(ran)
		if err != nil {
			return nil, err
		}
		b := graph.For[S](p.fields...)
		asks := p.name("ask")
		if p.asks != "" {
			asks = p.asks
		}
		var nodes []string
		for _, node := range []string{"take", "price", "slow", "ask", "ship", "body", "pack", "inner", "nap", "hear", "doze", "talk", "record"} {
			name := p.name(node)
			if name == "-" || node == "record" && !p.split {
				continue
			}
			nodes = append(nodes, name)
			switch node {
			case "pack":
				graph.Worker(b, name, func(context.Context, P, *S) (graph.Update, error) { ran.Add(1); return nil, nil })
			case "inner":
				b.Subgraph(name, inner)
			default:
				b.Node(name, func(ctx context.Context, _ *S) (graph.Update, error) {
					ran.Add(1)
					var err error
					switch {
					case p.waits[node] != nil:
						err = p.waits[node](ctx)
					case waits[node] != nil:
						err = waits[node](ctx)
					case node == "body" && p.body != nil:
						err = p.body(ctx)
					case name == asks || node == "body":
						_, err = pregel.AskFor[string](ctx, cmp.Or(p.words, "send it?"))
					}
					return nil, err
				})
			}
		}
		has := map[string]bool{}
		for _, n := range nodes {
			has[n] = true
		}
		b.Edge(graph.Start, p.name("take"))
		if ask := p.name("ask"); has[ask] {
			b.Edge(p.name("slow"), ask)
		}
		joined := p.joined
		if joined == nil {
			for _, n := range []string{p.name("price"), p.name("ask")} {
				if has[n] {
					joined = append(joined, n)
				}
			}
		}
		b.Join(joined, p.name("ship"))
		for _, n := range p.wakes {
			b.Join([]string{"slow"}, n)
		}
		if p.split {
			b.Edge(p.name("ask"), "record")
		}
		last := p.name("ship")
		for _, n := range p.more {
			b.Node(n, func(context.Context, *S) (graph.Update, error) { ran.Add(1); return nil, nil }).Edge(last, n)
			last = n
		}
		g, err := b.Compile(graph.Options{Name: "orders", Saver: s, Store: items, InterruptBefore: p.breaks, Version: p.version, Migrations: p.migrations,
			Env: pregel.Environment{Now: func() time.Time { return time.Now().Add(later) }}})
		if err != nil {
			return nil, err
		}
		return &program{g.Preflight, g.Untyped(), ran}, nil
	}
}

// innerOf makes the graph inside with the state I and the name of its second node.
func innerOf[I any](second string) func(ran *atomic.Int64) (*pregel.Graph, error) {
	return func(ran *atomic.Int64) (*pregel.Graph, error) {
		g, err := graph.For[I]().Node("read", func(context.Context, *I) (graph.Update, error) { ran.Add(1); return nil, nil }).
			Node(second, func(ctx context.Context, _ *I) (graph.Update, error) {
				ran.Add(1)
				_, err := pregel.AskFor[string](ctx, "is it right?")
				return nil, err
			}).Sequence(graph.Start, "read", second).Compile(graph.Options{})
		if err != nil {
			return nil, err
		}
		return g.Untyped(), nil
	}
}

// later is when the changed programs run: sleeps of the old one are over.
const later = 4 * time.Hour

// maker makes a changed program.
type maker func(s saver.Saver, items store.Store) (*program, error)

// change is one change of the old program.
type change struct {
	name string
	make maker
	// without is the program without its migrations; nil if it has none.
	without maker
}

// migrating is a change to the state S with a migration, and the worker's argument P.
func migrating[S, P any](name string, m pregel.Migration) change {
	m.From, m.To, m.Name = "old", "new", name
	return change{name, newer[S, P](plan{version: "new", migrations: []pregel.Migration{m}}), newer[S, P](plan{version: "new"})}
}

// inLists makes a list of a text.
func inLists(values map[string]any) error {
	if to, ok := values["to"].(string); ok {
		values["to"] = []string{to}
	}
	return nil
}

// numbered makes the lines numbers, also those that a task has written.
func numbered(values map[string]any) error {
	if lines, ok := values["lines"].([]any); ok {
		values["lines"] = make([]int, len(lines))
	}
	return nil
}

func numberedWrite(key string, value any) (string, any, error) {
	if lines, ok := value.([]any); ok && key == "lines" {
		return key, make([]int, len(lines)), nil
	}
	return key, value, nil
}

func names(pairs ...string) plan {
	p := plan{names: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		p.names[pairs[i]] = pairs[i+1]
	}
	return p
}

// Changes of single fields of state.
type (
	added struct {
		Way   string         `json:"way"`
		To    string         `json:"to"`
		Count int32          `json:"count"`
		Lines []string       `json:"lines" state:"append"`
		Tags  []string       `json:"tags"`
		Box   box            `json:"box"`
		Sizes map[string]int `json:"sizes" state:"merge"`
		More  []int          `json:"more" state:"append"`
	}
	renamed struct {
		Way   string         `json:"way"`
		To    string         `json:"recipient"`
		Count int32          `json:"count"`
		Lines []string       `json:"rows" state:"append"`
		Tags  []string       `json:"tags"`
		Box   box            `json:"box"`
		Sizes map[string]int `json:"sizes" state:"merge"`
	}
	aliased struct {
		Way   string         `json:"way"`
		To    string         `json:"recipient" state:"alias=to"`
		Count int32          `json:"count"`
		Lines []string       `json:"rows" state:"append,alias=lines"`
		Tags  []string       `json:"tags"`
		Box   box            `json:"box"`
		Sizes map[string]int `json:"sizes" state:"merge"`
	}
	removed struct {
		Way   string   `json:"way"`
		Count int32    `json:"count"`
		Lines []string `json:"lines" state:"append"`
		Tags  []string `json:"tags"`
	}
	wider struct {
		Way   string           `json:"way"`
		To    string           `json:"to"`
		Count int64            `json:"count"`
		Lines []string         `json:"lines" state:"append"`
		Tags  []any            `json:"tags"`
		Box   map[string]any   `json:"box"`
		Sizes map[string]int64 `json:"sizes" state:"merge"`
	}
	narrower struct {
		Way   string         `json:"way"`
		To    string         `json:"to"`
		Count int8           `json:"count"` // what is stored fits
		Lines []string       `json:"lines" state:"append"`
		Tags  []string       `json:"tags"`
		Box   box            `json:"box"`
		Sizes map[string]int `json:"sizes" state:"merge"`
	}
	retyped struct {
		Way   string         `json:"way"`
		To    []string       `json:"to"`
		Count int32          `json:"count"`
		Lines []string       `json:"lines" state:"append"`
		Tags  []string       `json:"tags"`
		Box   box            `json:"box"`
		Sizes map[string]int `json:"sizes" state:"merge"`
	}
	retypedWrite struct {
		Way   string         `json:"way"`
		To    string         `json:"to"`
		Count int32          `json:"count"`
		Lines []int          `json:"lines" state:"append"`
		Tags  []string       `json:"tags"`
		Box   box            `json:"box"`
		Sizes map[string]int `json:"sizes" state:"merge"`
	}
	nested struct {
		Way   string   `json:"way"`
		To    string   `json:"to"`
		Count int32    `json:"count"`
		Lines []string `json:"lines" state:"append"`
		Tags  []string `json:"tags"`
		Box   struct {
			Weight string `json:"weight"`
			Label  string `json:"label"`
		} `json:"box"`
		Sizes map[string]int `json:"sizes" state:"merge"`
	}
	reduced struct {
		Way   string         `json:"way"`
		To    string         `json:"to" state:"add"`
		Count int32          `json:"count" state:"add"`
		Lines []string       `json:"lines" state:"append"`
		Tags  []string       `json:"tags" state:"append"`
		Box   box            `json:"box"`
		Sizes map[string]int `json:"sizes" state:"merge"`
	}
	unreduced struct {
		Way   string         `json:"way"`
		To    string         `json:"to"`
		Count int32          `json:"count"`
		Lines []string       `json:"lines"`
		Tags  []string       `json:"tags"`
		Box   box            `json:"box"`
		Sizes map[string]int `json:"sizes"`
	}
)

type (
	parcelMore struct {
		SKU   string `json:"sku"`
		N     int64  `json:"n"`
		Heavy bool   `json:"heavy"`
	}
	parcelOther struct {
		SKU int `json:"sku"`
		N   int `json:"n"`
	}
	receiptOther struct {
		ID    string `json:"id"`
		Total int32  `json:"total"`
	}
	insideOther struct {
		To    string `json:"to"`
		Count int32  `json:"count"`
		Text  []int  `json:"text"`
	}
)

func charges[I any](name string, input I) func(ctx context.Context) error {
	return results(name, input, func(receipt, error) error { return nil })
}

// errWrong: a program that goes on got something else than the guide says.
var errWrong = errors.New("wrong")

// results makes a body whose call has another result. check looks at what the stored one is read as.
func results[I, R any](name string, input I, check func(r R, err error) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		r, err := pregel.NewTask(name, func(context.Context, I) (r R, err error) { return r, nil }).Call(ctx, input)
		if err := cmp.Or(check(r, err), err); err != nil {
			return err
		}
		_, err = pregel.AskFor[string](ctx, "now?")
		return err
	}
}

// otherField: what the present type has no field for is dropped, and its own field is zero.
func otherField(r receiptOther, err error) error {
	if err != nil || r.ID != "charged 3" || r.Total != 0 {
		return fmt.Errorf("%w: a receipt with another field: %+v, %v", errWrong, r, err)
	}
	return nil
}

func otherResult(n int, err error) error {
	if misfit := new(channel.TypeError); n != 0 || !errors.As(err, &misfit) {
		return fmt.Errorf("%w: a receipt as a number: %d, %v", errWrong, n, err)
	}
	return nil
}

func deltas() graph.Field {
	return graph.Key("lines", channel.Delta(10, func(v []string, ws [][]string) ([]string, error) {
		for _, w := range ws {
			v = append(v, w...)
		}
		return v, nil
	}))
}

// changes are those of the guide, docs/guide/changes.md, and their like.
var changes = []change{
	{"nothing", newer[state, parcel](plan{body: charges("charge", int32(3))}), nil},
	{"add a field", newer[added, parcel](plan{}), nil},
	{"rename fields", newer[renamed, parcel](plan{}), nil},
	{"rename fields, with aliases", newer[aliased, parcel](plan{}), nil},
	{"remove fields", newer[removed, parcel](plan{}), nil},
	{"wider types", newer[wider, parcel](plan{}), nil},
	{"a narrower type that fits", newer[narrower, parcel](plan{}), nil},
	{"another type", newer[retyped, parcel](plan{}), nil},
	{"another type of what is appended", newer[retypedWrite, parcel](plan{}), nil},
	{"another type in a struct", newer[nested, parcel](plan{}), nil},
	{"reducers", newer[reduced, parcel](plan{}), nil},
	{"no reducers", newer[unreduced, parcel](plan{}), nil},
	{"a list becomes a delta channel", newer[unreduced, parcel](plan{fields: []graph.Field{deltas()}}), nil},
	{"add a node", newer[state, parcel](plan{more: []string{"thank"}}), nil},
	{"rename the node that asks", newer[state, parcel](names("ask", "approve")), nil},
	{"rename a node", newer[state, parcel](names("price", "value")), nil},
	{"rename the first node", newer[state, parcel](names("take", "accept")), nil},
	{"rename the worker", newer[state, parcel](names("pack", "wrap")), nil},
	{"remove a node", newer[state, parcel](names("price", "-")), nil},
	{"remove the worker", newer[state, parcel](names("pack", "-")), nil},
	{"remove the graph inside", newer[state, parcel](names("inner", "-")), nil},
	{"split a node", newer[state, parcel](plan{split: true}), nil},
	{"one more for a join", newer[state, parcel](plan{joined: []string{"price", "ask", "slow"}}), nil},
	{"no join", newer[state, parcel](plan{joined: []string{"ask"}}), nil},
	{"one more way to a node", newer[state, parcel](plan{wakes: []string{"ask", "body"}}), nil},
	{"the question in another node", newer[state, parcel](plan{asks: "ship"}), nil},
	{"a breakpoint in place of a question", newer[state, parcel](plan{asks: "nobody", breaks: []string{"ask"}}), nil},
	{"a breakpoint more", newer[state, parcel](plan{breaks: []string{"price", "pack", "inner"}}), nil},
	{"an argument more", newer[state, parcelMore](plan{}), nil},
	{"another argument", newer[state, parcelOther](plan{}), nil},
	{"another input of a call", newer[state, parcel](plan{body: charges("charge", "three")}), nil},
	{"another field in the result of a call", newer[state, parcel](plan{body: results("charge", int32(3), otherField)}), nil},
	{"another type of the result of a call", newer[state, parcel](plan{body: results("charge", int32(3), otherResult)}), nil},
	{"another call", newer[state, parcel](plan{body: charges("pay", int32(3))}), nil},
	{"no call", newer[state, parcel](plan{}), nil},
	{"rename the nodes that wait", newer[state, parcel](names("nap", "rest", "hear", "listen")), nil},
	{"another order of waits", newer[state, parcel](plan{waits: otherWaits}), nil},
	{"no waits", newer[state, parcel](plan{waits: noWaits}), nil},
	{"another type of a signal", newer[state, parcel](plan{waits: otherType}), nil},
	{"another type inside", newer[state, parcel](plan{inner: innerOf[insideOther]("check")}), nil},
	migrating[retyped, parcel]("another type, with a migration", pregel.Migration{Values: inLists}),
	migrating[retypedWrite, parcel]("another type of what is appended, with a migration", pregel.Migration{Values: numbered, Write: numberedWrite}),
	migrating[state, parcelOther]("another argument, with a migration", pregel.Migration{Packet: func(_ string, arg any) (any, error) {
		return parcelOther{SKU: 7}, nil
	}}),
	{"other words of a question", newer[state, parcel](plan{words: "may it go?"}), nil},
	{"other words of a question, with a migration", newer[state, parcel](plan{words: "may it go?", version: "new", migrations: []pregel.Migration{
		{From: "old", To: "new", Name: "other words of a question, with a migration", Question: func(q pregel.Interrupt) (pregel.Interrupt, error) {
			q.Value = "may it go?"
			return q, nil
		}}}}), nil},
	{"rename a node inside", newer[state, parcel](plan{inner: innerOf[inside]("approve")}), nil},
}
