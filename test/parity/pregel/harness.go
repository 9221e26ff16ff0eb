package traces

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
)

var ctx = context.Background()

// The injected world is the one of harness.py.
var clock = time.Unix(1_700_000_000, 0)

const idNode = 0xBDE4E02AB92B

// mintedUpTo is how many ids were made when this one was: they grow by one tick
// each.
func mintedUpTo(id string) int {
	var hi, mid, lo uint64
	if _, err := fmt.Sscanf(id, "%8x-%4x-6%3x", &hi, &mid, &lo); err != nil {
		return 0
	}
	const ticksTo1970 = 0x01B21DD213814000
	return int(hi<<28|mid<<12|lo) - int(clock.UnixNano()/100+ticksTo1970) + 1
}

// boom is an error whose stored form is its text.
type boom struct{ text string }

// Error is the text.
func (b boom) Error() string { return b.text }

// trace runs graphs and writes what they do as the canonical lines harness.py
// writes.
type trace struct {
	t          failer
	scenario   string
	durability pregel.Durability
	env        pregel.Environment
	saver      saver.Saver
	flat       bool // graphs inside are not shown
	metadata   bool // of tasks is shown
	wide       bool // tasks of a superstep run at once, not one after another
	lines      []string
	typed      *typedUse // nil: the untyped face
	life       *life     // what it can be taken up from after a crash
}

// failer is what a trace needs of a test. Processes that are killed have none.
type failer interface {
	Fatal(args ...any)
	Error(args ...any)
}

// newTrace makes a trace in the injected world, on the saver that open makes.
// It begins after minted ids were made.
func newTrace(t failer, scenario string, d pregel.Durability, minted int, open func(random func() float64) saver.Saver) *trace {
	now := func() time.Time { return clock }
	l := &life{}
	node := func() uint64 { l.minted.Add(1); return idNode }
	ids := pregel.NewIDSource(now, node)
	for range minted {
		ids.Next(0)
	}
	sv := open(func() float64 { return float64(l.minted.Load()%4096) / 4096 })
	return &trace{t: t, scenario: scenario, durability: d, env: pregel.Environment{Now: now, IDs: ids}, saver: sv, life: l}
}

func (tr *trace) put(line map[string]any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(line); err != nil {
		tr.t.Fatal(err)
	}
	tr.lines = append(tr.lines, strings.TrimSpace(b.String()))
}

func (tr *trace) config(thread ...string) config {
	c := on(pregel.Thread("t"))
	if len(thread) > 0 {
		c.ThreadID = thread[0]
	}
	return c
}

var modes = []pregel.Mode{pregel.ModeValues, pregel.ModeUpdates, pregel.ModeCustom, pregel.ModeCheckpoints, pregel.ModeTasks}

func (tr *trace) run(g *pregel.Graph, input any, cfgs ...config) {
	cfg := tr.config()
	if len(cfgs) > 0 {
		cfg = cfgs[0]
	}
	tr.runModes(g, input, cfg, modes...)
}

func (tr *trace) runModes(g *pregel.Graph, input any, cfg config, modes ...pregel.Mode) {
	cfg.Durability, cfg.MaxConcurrency, cfg.Subgraphs = tr.durability, 1, !tr.flat
	if tr.wide {
		cfg.MaxConcurrency = 0
	}
	call(tr, "run", func(again bool) any {
		c := tr.life.calls[len(tr.life.calls)-1]
		c.input, c.cfg = input, cfg
		if again {
			input, cfg = tr.life.past.goOn(input, cfg)
		}
		tr.put(map[string]any{"call": "run"})
		cfg.Modes = modes
		for e, err := range tr.events(g, cfg, input) {
			if err != nil {
				tr.error(err)
				break
			}
			tr.event(e)
		}
		return nil
	})
}

// events runs g with the face that the trace uses.
func (tr *trace) events(g *pregel.Graph, cfg config, input any) iter.Seq2[pregel.Event, error] {
	if tr.typed != nil && tr.typed.made[g] != nil {
		if events, ok := tr.typed.made[g].stream(ctx, cfg, input); ok {
			return events
		}
		tr.typed.past(notTaken(input, cfg))
	}
	return g.Stream(ctx, cfg.Address, input, cfg.RunOptions)
}

func (tr *trace) event(e pregel.Event) {
	line := map[string]any{"mode": e.Mode, "ns": append([]string{}, e.NS...)}
	if d, ok := e.Data.(pregel.DebugEvent); ok {
		line["type"], line["step"], e.Data = d.Type, d.Step, d.Payload
	}
	switch d := e.Data.(type) {
	case pregel.Update:
		line["node"] = d.Node
		if d.Cached {
			line["cached"] = true
		}
		if d.Node == pregel.KeyInterrupt {
			line["interrupts"] = canonInterrupts(e.Interrupts)
		} else {
			line["data"] = canon(d.Value)
		}
	case pregel.MessageEvent:
		line["message"], line["metadata"] = canon(d.Message), canon(d.Metadata)
	case pregel.TaskEvent:
		input := canon(d.Input)
		if tr.isCall(d) {
			input = []any{[]any{input}, map[string]any{}}
		}
		line["task"] = map[string]any{"id": d.ID, "name": d.Name, "input": input, "triggers": d.Triggers}
		if tr.metadata {
			line["metadata"] = maps.Clone(d.Metadata)
			if d.Metadata == nil {
				line["metadata"] = map[string]any{}
			}
		}
	case pregel.TaskResult:
		ints := []any{}
		for _, in := range d.Interrupts {
			ints = append(ints, map[string]any{"id": in.ID, "value": canon(in.Value)})
		}
		line["result"] = map[string]any{"id": d.ID, "name": d.Name, "error": errText(d.Err), "result": canon(d.Result), "interrupts": ints}
	case pregel.CheckpointEvent:
		tasks := []any{}
		for _, t := range d.Tasks {
			ids := []any{}
			if t.Err == nil {
				for _, in := range t.Interrupts {
					ids = append(ids, in.ID)
				}
			}
			tasks = append(tasks, map[string]any{"id": t.ID, "name": t.Name, "error": errText(t.Err), "interrupts": ids})
		}
		line["checkpoint"] = map[string]any{"config": place(&d.Address), "parent": place(d.Parent), "values": canon(d.Values),
			"metadata": canon(map[string]any(d.Metadata)), "next": append([]string{}, d.Next...), "tasks": tasks}
	default:
		line["data"] = canon(e.Data)
		if len(e.Interrupts) > 0 {
			line["interrupts"] = canonInterrupts(e.Interrupts)
			if e.Data == nil { // a single output shows only the interrupts
				line["data"] = map[string]any{}
			}
		}
	}
	tr.put(line)
}

// isCall tells a call of a function from a packet: LangGraph shows its input as
// the pair of positional and named arguments.
func (tr *trace) isCall(d pregel.TaskEvent) bool {
	return slices.Equal(d.Triggers, []string{"__pregel_push"}) && (strings.HasPrefix(tr.scenario, "functional") || drawnCall(d.Name))
}

// drawnCall reports whether name is that of a durable task of a random graph.
func drawnCall(name string) bool {
	return strings.Contains(name, "_call") || strings.HasSuffix(name, "_below")
}

// errorNames are LangGraph's names of the engine's errors.
var errorNames = []struct {
	is   error
	name string
}{
	{pregel.ErrRecursionLimit, "GraphRecursionError"}, {pregel.ErrEmptyInput, "EmptyInputError"},
	{pregel.ErrDrained, "GraphDrained"}, {pregel.ErrAmbiguousResume, "RuntimeError"}, {pregel.ErrInvalidUpdate, "InvalidUpdateError"},
}

func (tr *trace) error(err error) {
	line := map[string]any{"error": fmt.Sprintf("%T: %v", err, err), "text": ""}
	var b boom
	if errors.As(err, &b) {
		line["error"], line["text"] = "Boom", b.text
	}
	for _, n := range errorNames {
		if errors.Is(err, n.is) {
			line["error"] = n.name
		}
	}
	tr.put(line)
}

func (tr *trace) state(g *pregel.Graph, subgraphs bool, cfgs ...config) *pregel.StateSnapshot {
	cfg := tr.config()
	if len(cfgs) > 0 {
		cfg = cfgs[0]
	}
	return call(tr, "state", func(bool) *pregel.StateSnapshot {
		get := g.GetState
		if tr.typed != nil && tr.typed.made[g] != nil {
			get = func(ctx context.Context, a pregel.Address, opts ...pregel.StateOptions) (*pregel.StateSnapshot, error) {
				return tr.typed.made[g].state(ctx, a, opts[0])
			}
		}
		s, err := get(ctx, cfg.Address, pregel.StateOptions{Subgraphs: subgraphs})
		if err != nil {
			tr.t.Fatal(err)
		}
		tr.put(map[string]any{"state": snapshot(s)})
		return s
	})
}

func (tr *trace) history(g *pregel.Graph) []*pregel.StateSnapshot {
	return tr.historyOf(g, tr.config())
}

func (tr *trace) historyOf(g *pregel.Graph, cfg config) []*pregel.StateSnapshot {
	return call(tr, "history", func(bool) (out []*pregel.StateSnapshot) {
		states := g.GetStateHistory(ctx, cfg.Address, pregel.HistoryQuery{})
		if tr.typed != nil && tr.typed.made[g] != nil {
			states = tr.typed.made[g].history(ctx, cfg.Address)
		}
		for s, err := range states {
			if err != nil {
				tr.t.Fatal(err)
			}
			out = append(out, s)
			tr.put(map[string]any{"history": snapshot(s)})
		}
		return out
	})
}

func (tr *trace) update(g *pregel.Graph, cfg config, u pregel.StateUpdate) config {
	return call(tr, "update", func(bool) config {
		out, err := tr.updated(g, cfg, u)
		if err != nil {
			tr.error(err)
			return cfg
		}
		tr.put(map[string]any{"updated": place(&out)})
		return on(out)
	})
}

// updated updates the state with the face that the trace uses.
func (tr *trace) updated(g *pregel.Graph, cfg config, u pregel.StateUpdate) (pregel.Address, error) {
	if tr.typed != nil && tr.typed.made[g] != nil {
		if out, err, ok := tr.typed.made[g].update(ctx, cfg.Address, u); ok {
			return out, err
		}
		tr.typed.past(several)
	}
	return g.UpdateState(ctx, cfg.Address, u)
}

// dump writes everything the saver holds.
func (tr *trace) dump() {
	var all []*saver.Tuple
	for tup, err := range tr.saver.List(ctx, saver.Query{}) {
		if err != nil {
			tr.t.Fatal(err)
		}
		all = append(all, tup)
	}
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if a.Config.ThreadID != b.Config.ThreadID {
			return a.Config.ThreadID < b.Config.ThreadID
		}
		if a.Config.Namespace != b.Config.Namespace {
			return a.Config.Namespace < b.Config.Namespace
		}
		return a.Checkpoint.ID < b.Checkpoint.ID
	})
	for _, tup := range all {
		cp := tup.Checkpoint
		values, versions, seen := map[string]any{}, map[string]any{}, map[string]any{}
		for k, v := range cp.Values {
			values[k] = tr.decode(v)
		}
		for k, v := range cp.Versions {
			versions[k] = v.String()
		}
		for n, s := range cp.Seen {
			m := map[string]any{}
			for k, v := range s {
				m[k] = v.String()
			}
			seen[n] = m
		}
		writes := []any{}
		for _, w := range tup.PendingWrites {
			writes = append(writes, []any{w.TaskID, w.Channel, tr.decode(w.Value)})
		}
		tr.put(map[string]any{"stored": map[string]any{"config": placeOf(&tup.Config), "parent": placeOf(tup.Parent),
			"metadata": canon(map[string]any(tup.Metadata)), "v": cp.V, "values": values, "versions": versions, "seen": seen,
			"updated": canon(cp.Updated), "writes": writes}})
	}
}

func (tr *trace) decode(v saver.Value) any {
	x, err := v.Any()
	if err != nil {
		tr.t.Fatal(err)
	}
	return canon(x)
}

// config is where a call works and how it is run: LangGraph's config is both.
type config struct {
	pregel.Address
	pregel.RunOptions
}

func on(a pregel.Address) config { return config{Address: a} }
