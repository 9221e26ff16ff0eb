package traces

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// The states of the scenarios as structs. Keys that a scenario does not declare are last
// values that nobody writes.
type (
	stepsState struct {
		Steps []string `json:"steps" state:"append"`
	}
	wideState struct {
		Steps    []string          `json:"steps"`
		Items    []string          `json:"items"`
		Left     []string          `json:"left"`
		Right    []string          `json:"right"`
		N        int               `json:"n"`
		Key      int               `json:"key"`
		X        int               `json:"x"`
		Secret   string            `json:"secret"`
		Draft    string            `json:"draft"`
		Messages []channel.Message `json:"messages"`
	}
	managedState struct {
		Steps []string `json:"steps"`
		Last  bool     `json:"last"`
		Left  int      `json:"left"`
	}
	noteState struct {
		Steps []string `json:"steps"`
		Note  string   `json:"note"`
	}
	shownTextState struct {
		Steps []string `json:"steps"`
		Shown string   `json:"shown"`
	}
	shownState struct {
		A int      `json:"a"`
		N []string `json:"n"`
	}
)

func (s *stepsState) write(key string, v any) graph.Update {
	if key == "steps" {
		return put(&s.Steps, v)
	}
	return nil
}

func (s *wideState) write(key string, v any) graph.Update {
	switch key {
	case "steps":
		return put(&s.Steps, v)
	case "items":
		return put(&s.Items, v)
	case "left":
		return put(&s.Left, v)
	case "right":
		return put(&s.Right, v)
	case "n":
		return put(&s.N, v)
	case "key":
		return put(&s.Key, v)
	case "x":
		return put(&s.X, v)
	case "secret":
		return put(&s.Secret, v)
	case "draft":
		return put(&s.Draft, v)
	case "messages":
		return put(&s.Messages, v)
	}
	return nil
}

func (s *managedState) write(key string, v any) graph.Update {
	if key == "steps" {
		return put(&s.Steps, v)
	}
	return nil
}

func (s *noteState) write(key string, v any) graph.Update {
	switch key {
	case "steps":
		return put(&s.Steps, v)
	case "note":
		return put(&s.Note, v)
	}
	return nil
}

func (s *shownTextState) write(key string, v any) graph.Update {
	switch key {
	case "steps":
		return put(&s.Steps, v)
	case "shown":
		return put(&s.Shown, v)
	}
	return nil
}

func (s *shownState) write(key string, v any) graph.Update {
	switch key {
	case "a":
		return put(&s.A, v)
	case "n":
		return put(&s.N, v)
	}
	return nil
}

// put is a write of what a program written for maps has.
func put[T any](field *T, v any) graph.Update {
	switch x := v.(type) {
	case T:
		return graph.Write(field, x)
	case pregel.Overwrite:
		value, err := channel.Convert[T](x.Value)
		if err != nil {
			panic(err)
		}
		return graph.Overwrite(field, value)
	}
	return graph.WriteAs(field, v)
}

// writable is a pointer to a state.
type writable[S any] interface {
	*S
	write(key string, v any) graph.Update
}

// notTyped says what a scenario does that the typed face does not, and why.
var notTyped = map[string]string{
	"root_state":          "a state without keys is no struct",
	"branch_reads":        "an edge of a typed graph reads the whole state, and a node returns fields only",
	"messages_to_packets": "a node of a typed graph does not return keys that the state does not have",
	"delta_from_null":     "a list of a struct is empty where it was nothing",
	"sent_reads_state":    "its keys are of other types than those of the struct",
}

// packets are nodes that run on packets, by scenario.
var packets = map[string][]string{
	"send_fan_out": {"work"}, "command_goto": {"c"}, "interrupt_sends": {"work"}, "resume_after_send": {"work"},
	"updates_with_sends": {"task"}, "sends_in_sequence": {"2"}, "untracked": {"w"},
}

// typedGraph is a graph that was made with the typed face.
type typedGraph interface {
	stream(ctx context.Context, cfg config, input any) (iter.Seq2[pregel.Event, error], bool)
	state(ctx context.Context, a pregel.Address, o pregel.StateOptions) (*pregel.StateSnapshot, error)
	history(ctx context.Context, a pregel.Address) iter.Seq2[*pregel.StateSnapshot, error]
	update(ctx context.Context, a pregel.Address, u pregel.StateUpdate) (pregel.Address, error, bool)
}

// typedUse is how a trace uses the typed face. A nil one uses the untyped.
type typedUse struct {
	made    map[*pregel.Graph]typedGraph
	untyped []string // calls that went past it
}

// several is a call that has no typed form.
const several = "several updates at once"

// past notes a call that goes past the typed face.
func (u *typedUse) past(call string) {
	if u != nil {
		u.untyped = append(u.untyped, call)
	}
}

// compile makes a program with the typed face.
func (u *typedUse) compile(tr *trace, p *program, o graph.Options) (*pregel.Graph, error) {
	var keys []string
	for _, f := range p.fields {
		keys = append(keys, f.Name)
	}
	slices.Sort(keys)
	switch {
	case slices.Equal(keys, []string{"steps"}):
		return compileTyped[stepsState](tr, u, p, keys, nil, o)
	case slices.Contains(keys, "last"):
		return compileTyped[managedState](tr, u, p, keys, p.fields, o)
	case slices.Contains(keys, "note"):
		return compileTyped[noteState](tr, u, p, keys, p.fields, o)
	case slices.Contains(keys, "shown"):
		return compileTyped[shownTextState](tr, u, p, keys, p.fields, o)
	case slices.Contains(keys, "a"):
		return compileTyped[shownState](tr, u, p, keys, p.fields, o)
	}
	return compileTyped[wideState](tr, u, p, keys, p.fields, o)
}

// typedFace is the typed builder behind a program written for maps.
type typedFace[S any, P writable[S]] struct {
	b       *graph.StateBuilder[S]
	p       *program
	keys    []string
	workers []string
	g       *graph.Graph[S]
}

func compileTyped[S any, P writable[S]](tr *trace, u *typedUse, p *program, keys []string, fields []graph.Field, o graph.Options) (*pregel.Graph, error) {
	f := &typedFace[S, P]{b: graph.For[S](fields...), p: p, keys: keys, workers: packets[tr.scenario]}
	for _, s := range p.steps {
		s(f)
	}
	g, err := f.b.Compile(o)
	if err != nil {
		return nil, err
	}
	f.g = g
	u.made[g.Untyped()] = f
	return g.Untyped(), nil
}

// shown is the state as the programs know it. What is zero may as well be absent, but for
// numbers and bools.
func (f *typedFace[S, P]) shown(s *S) m {
	out := m{}
	rv := reflect.ValueOf(s).Elem()
	for i := range rv.NumField() {
		key, v := rv.Type().Field(i).Tag.Get("json"), rv.Field(i)
		empty := v.Kind() == reflect.String && v.Len() == 0 || v.Kind() == reflect.Slice && v.IsNil()
		if slices.Contains(f.keys, key) && !empty {
			out[key] = v.Interface()
		}
	}
	return out
}

// said is what a node of such a program returned, for the fields of s.
func (f *typedFace[S, P]) said(s *S, out any) graph.Update {
	switch x := out.(type) {
	case nil:
		return nil
	case string:
		return graph.Goto(x)
	case []string:
		return graph.Goto(x...)
	case pregel.Send:
		return graph.Send(x.Node, x.Arg)
	case []pregel.Send:
		var u graph.Update
		for _, p := range x {
			u = u.And(f.said(s, p))
		}
		return u
	case pregel.Command:
		if x.Graph == pregel.Parent {
			return graph.Parent(func(outer *S) graph.Update { return f.said(outer, pregel.Command{Update: x.Update, Goto: x.Goto}) })
		}
		return f.said(s, x.Update).And(f.said(s, x.Goto))
	case []pregel.Command:
		var u graph.Update
		for _, c := range x {
			u = u.And(f.said(s, c))
		}
		return u
	case []any:
		var u graph.Update
		for _, e := range x {
			u = u.And(f.said(s, e))
		}
		return u
	}
	pairs, ok := pregel.PairsOf(out)
	if !ok {
		panic(fmt.Sprintf("a node returned a %T", out))
	}
	var u graph.Update
	for _, p := range pairs {
		u = u.And(P(s).write(p.Key, p.Value))
	}
	return u
}

func (f *typedFace[S, P]) body(run func(ctx context.Context, input any) (any, error)) graph.NodeFunc[S] {
	return func(ctx context.Context, s *S) (graph.Update, error) {
		out, err := run(ctx, f.shown(s))
		if err != nil {
			return nil, err
		}
		return f.said(s, out), nil
	}
}

func (f *typedFace[S, P]) node(name string, run pregel.Func, opts []graph.NodeOptions) {
	if slices.Contains(f.workers, name) {
		graph.Worker(f.b, name, func(ctx context.Context, in any, s *S) (graph.Update, error) {
			out, err := run(ctx, in)
			if err != nil {
				return nil, err
			}
			return f.said(s, out), nil
		}, f.options(name, opts)...)
		return
	}
	f.b.Node(name, f.body(run), f.options(name, opts)...)
}

// options moves the error handler to where the typed builder has it.
func (f *typedFace[S, P]) options(name string, opts []graph.NodeOptions) []graph.NodeOptions {
	if len(opts) == 0 {
		return nil
	}
	o := opts[len(opts)-1]
	if o.OnError != nil {
		f.b.OnError(name, f.body(o.OnError))
		o.OnError = nil
	}
	return []graph.NodeOptions{o}
}

func (f *typedFace[S, P]) subgraph(name string, g *pregel.Graph, opts []graph.NodeOptions) {
	f.b.Subgraph(name, g, f.options(name, opts)...)
}

func (f *typedFace[S, P]) edge(from, to string)          { f.b.Edge(from, to) }
func (f *typedFace[S, P]) join(from []string, to string) { f.b.Join(from, to) }
func (f *typedFace[S, P]) sequence(names []string)       { f.b.Sequence(names...) }
func (f *typedFace[S, P]) defaults(o graph.NodeOptions) {
	f.b.Defaults(f.options(pregel.AllNodes, []graph.NodeOptions{o})[0])
}

func (f *typedFace[S, P]) branch(from, _ string, path graph.Path, o graph.BranchOptions) {
	ends := slices.Collect(maps.Values(o.Ends))
	if len(ends) == 0 {
		ends = append([]string{graph.End}, f.p.nodes...)
	}
	f.b.Branch(from, f.body(path), ends...)
}

// notTaken says what the typed face does not take of a run.
func notTaken(input any, cfg config) string {
	cmd, _ := input.(pregel.Command)
	switch {
	case cfg.OutputKeys != nil:
		return "a run that shows a single key, which is no state"
	case cmd.Goto != nil:
		return "a run that goes to a node that does not exist, which is an error"
	}
	return "an empty command, which goes on with what is left"
}

// stream runs the graph; ok is false for input that the typed face does not take.
func (f *typedFace[S, P]) stream(ctx context.Context, cfg config, input any) (events iter.Seq2[pregel.Event, error], ok bool) {
	var c graph.Command[S]
	change := func(v any) func(s *S) graph.Update { return func(s *S) graph.Update { return f.said(s, v) } }
	switch x := input.(type) {
	case nil:
	case pregel.Command:
		if x.Goto == "missing" || x.Resume == nil && x.Update == nil && x.Goto == nil {
			return nil, false
		}
		c.Resume = x.Resume
		if x.Update != nil || x.Goto != nil {
			c.Update = change(pregel.Command{Update: x.Update, Goto: x.Goto})
		}
	default:
		c.Input = change(input)
	}
	if cfg.OutputKeys != nil && cfg.OutputKeys.Single {
		return nil, false
	}
	return func(yield func(pregel.Event, error) bool) {
		for e, err := range f.g.StreamDo(ctx, cfg.Address, c, cfg.RunOptions) {
			if e.Mode == pregel.ModeValues && len(e.NS) == 0 && e.Data != nil && !reflect.DeepEqual(canon(f.values(e.State)), canon(f.declared(e.Data))) {
				err = fmt.Errorf("the typed state is %+v, and the values are %v", *e.State, e.Data)
			}
			if !yield(e.Event, err) || err != nil {
				return
			}
		}
	}, true
}

// declared are values with those that are absent as zero.
func (f *typedFace[S, P]) declared(data any) m {
	out := f.values(new(S))
	for k, v := range data.(m) {
		if v != nil {
			out[k] = v
		}
	}
	return out
}

// values are all fields.
func (f *typedFace[S, P]) values(s *S) m {
	out := m{}
	rv := reflect.ValueOf(s).Elem()
	for i := range rv.NumField() {
		out[rv.Type().Field(i).Tag.Get("json")] = rv.Field(i).Interface()
	}
	delete(out, "last")
	if rv.Type() == reflect.TypeFor[managedState]() {
		delete(out, "left")
	}
	return out
}

func (f *typedFace[S, P]) state(ctx context.Context, a pregel.Address, o pregel.StateOptions) (*pregel.StateSnapshot, error) {
	s, err := f.g.State(ctx, a, o)
	if err != nil {
		return nil, err
	}
	return &s.StateSnapshot, nil
}

func (f *typedFace[S, P]) history(ctx context.Context, a pregel.Address) iter.Seq2[*pregel.StateSnapshot, error] {
	return func(yield func(*pregel.StateSnapshot, error) bool) {
		for s, err := range f.g.History(ctx, a, pregel.HistoryQuery{}) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&s.StateSnapshot, nil) {
				return
			}
		}
	}
}

func (f *typedFace[S, P]) update(ctx context.Context, a pregel.Address, u pregel.StateUpdate) (out pregel.Address, err error, ok bool) {
	if _, several := u.Values.([]pregel.StateUpdate); several {
		return out, nil, false
	}
	var change func(s *S) graph.Update
	if u.Values != nil {
		change = func(s *S) graph.Update { return f.said(s, u.Values) }
	}
	out, err = f.g.Update(ctx, a, change, graph.UpdateOptions{AsNode: u.AsNode})
	return out, err, true
}
