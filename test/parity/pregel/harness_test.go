package pregel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/serde"
)

var ctx = context.Background()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The injected world is the one of harness.py.
var clock = time.Unix(1_700_000_000, 0)

const idNode = 0xBDE4E02AB92B

// boom is an error whose stored form is its text.
type boom struct{ text string }

func (b boom) Error() string { return b.text }

// trace runs graphs and writes what they do as the canonical lines harness.py
// writes.
type trace struct {
	t          *testing.T
	durability pregel.Durability
	env        pregel.Environment
	saver      saver.Saver
	flat       bool // graphs inside are not shown
	metadata   bool // of tasks is shown
	lines      []string
}

func newTrace(t *testing.T, d pregel.Durability, disk bool) *trace {
	now := func() time.Time { return clock }
	ids := 0
	node := func() uint64 { ids++; return idNode }
	random := func() float64 { return float64(ids%4096) / 4096 }
	var sv saver.Saver = memory.New(memory.Options{Random: random})
	if disk {
		// Power loss is not at stake here, so nothing waits for the device.
		d, err := saver.Open(t.TempDir(), saver.Options{Sync: saver.SyncNever, Random: random})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		sv = d
	}
	return &trace{t: t, durability: d,
		env:   pregel.Environment{Now: now, IDs: pregel.NewIDSource(now, node)},
		saver: sv}
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

func (tr *trace) config(thread ...string) pregel.Config {
	c := pregel.Config{ThreadID: "t"}
	if len(thread) > 0 {
		c.ThreadID = thread[0]
	}
	return c
}

var modes = []pregel.Mode{pregel.ModeValues, pregel.ModeUpdates, pregel.ModeCustom, pregel.ModeCheckpoints, pregel.ModeTasks}

func (tr *trace) run(g *pregel.Graph, input any, cfgs ...pregel.Config) {
	cfg := tr.config()
	if len(cfgs) > 0 {
		cfg = cfgs[0]
	}
	tr.runModes(g, input, cfg, modes...)
}

func (tr *trace) runModes(g *pregel.Graph, input any, cfg pregel.Config, modes ...pregel.Mode) {
	cfg.Durability, cfg.MaxConcurrency, cfg.Subgraphs = tr.durability, 1, !tr.flat
	tr.put(map[string]any{"call": "run"})
	for e, err := range g.Stream(ctx, input, cfg, modes...) {
		if err != nil {
			tr.error(err)
			return
		}
		tr.event(e)
	}
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
		line["checkpoint"] = map[string]any{"config": place(&d.Config), "parent": place(d.Parent), "values": canon(d.Values),
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
	return slices.Equal(d.Triggers, []string{"__pregel_push"}) && strings.HasPrefix(tr.t.Name(), "TestTraces/functional")
}

func errText(v any) any {
	switch x := v.(type) {
	case nil:
		return nil
	case error:
		return x.Error()
	}
	return fmt.Sprint(v)
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

func (tr *trace) state(g *pregel.Graph, subgraphs bool, cfgs ...pregel.Config) *pregel.StateSnapshot {
	cfg := tr.config()
	if len(cfgs) > 0 {
		cfg = cfgs[0]
	}
	s, err := g.GetState(ctx, cfg, subgraphs)
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.put(map[string]any{"state": snapshot(s)})
	return s
}

func (tr *trace) history(g *pregel.Graph) []*pregel.StateSnapshot {
	return tr.historyOf(g, tr.config())
}

func (tr *trace) historyOf(g *pregel.Graph, cfg pregel.Config) []*pregel.StateSnapshot {
	var out []*pregel.StateSnapshot
	for s, err := range g.GetStateHistory(ctx, cfg, pregel.HistoryQuery{}) {
		if err != nil {
			tr.t.Fatal(err)
		}
		out = append(out, s)
		tr.put(map[string]any{"history": snapshot(s)})
	}
	return out
}

func snapshot(s *pregel.StateSnapshot) map[string]any {
	ids, tasks := []any{}, []any{}
	for _, in := range s.Interrupts {
		ids = append(ids, in.ID)
	}
	for _, t := range s.Tasks {
		var state any
		switch {
		case t.State != nil:
			state = snapshot(t.State)
		case t.StateConfig != nil:
			state = place(t.StateConfig)
		}
		ints := []any{}
		for _, in := range t.Interrupts {
			ints = append(ints, canon(in))
		}
		tasks = append(tasks, map[string]any{"id": t.ID, "name": t.Name, "path": canon(t.Path), "error": errText(t.Err),
			"interrupts": ints, "result": canon(t.Result), "state": state})
	}
	return map[string]any{"values": canon(s.Values), "next": append([]string{}, s.Next...), "config": place(&s.Config), "parent": place(s.Parent),
		"metadata": canon(map[string]any(s.Metadata)), "interrupts": ids, "tasks": tasks}
}

func (tr *trace) update(g *pregel.Graph, cfg pregel.Config, u pregel.StateUpdate) pregel.Config {
	out, err := g.UpdateState(ctx, cfg, u)
	if err != nil {
		tr.error(err)
		return cfg
	}
	tr.put(map[string]any{"updated": place(&out)})
	return out
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

func placeOf(c *saver.Config) any {
	if c == nil {
		return nil
	}
	return place(&pregel.Config{ThreadID: c.ThreadID, Namespace: c.Namespace, CheckpointID: c.CheckpointID})
}

func place(c *pregel.Config) any {
	if c == nil {
		return nil
	}
	m := map[string]any{"thread_id": c.ThreadID}
	if c.Namespace != "" {
		m["checkpoint_ns"] = c.Namespace
	}
	if c.CheckpointID != "" {
		m["checkpoint_id"] = c.CheckpointID
	}
	if len(c.CheckpointMap) > 0 {
		m["checkpoint_map"] = c.CheckpointMap
	}
	return m
}

func canonInterrupts(list []pregel.Interrupt) []any {
	out := []any{}
	for _, in := range list {
		out = append(out, canon(in))
	}
	return out
}

func canon(v any) any {
	switch x := v.(type) {
	case nil:
		return nil
	case pregel.Interrupt:
		return map[string]any{"$interrupt": map[string]any{"id": x.ID, "value": canon(x.Value)}}
	case pregel.Send:
		return map[string]any{"$send": []any{x.Node, canon(x.Arg)}}
	case channel.Message:
		return canonMessage(x.ID, x.Role, x.Content)
	case map[string]any:
		if x["role"] != nil && (x["id"] != nil || x["content"] != nil) { // a message, as it is stored
			return canonMessage(x["id"], x["role"], x["content"])
		}
	case pregel.Overwrite:
		return map[string]any{"$overwrite": canon(x.Value)}
	case serde.DeltaSnapshot:
		return map[string]any{"$snapshot": canon(x.Value)}
	case serde.Set:
		out := canonList(reflect.ValueOf(x))
		sort.Slice(out, func(i, j int) bool { return fmt.Sprint(out[i]) < fmt.Sprint(out[j]) })
		return map[string]any{"$set": out}
	case pregel.RepeatedWrites:
		return map[string]any{"$writes": canon(x.Writes)}
	case pregel.Pairs:
		m := map[string]any{}
		for _, p := range x {
			m[p.Key] = canon(p.Value)
		}
		return m
	case error:
		return map[string]any{"$error": x.Error()}
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Map:
		if rv.IsNil() {
			return nil
		}
		m := map[string]any{}
		for it := rv.MapRange(); it.Next(); {
			m[fmt.Sprint(it.Key().Interface())] = canon(it.Value().Interface())
		}
		return m
	case reflect.Slice:
		if rv.IsNil() {
			return nil
		}
		return canonList(rv)
	}
	return v
}

func canonList(rv reflect.Value) []any {
	out := make([]any, rv.Len())
	for i := range out {
		out[i] = canon(rv.Index(i).Interface())
	}
	return out
}

// TestTraces compares every scenario with LangGraph's own trace, line by line.
// Async must store and show what Sync does.
func TestTraces(t *testing.T) {
	equal, ran, lines := 0, 0, 0
	for _, n := range normalisers {
		n.uses = 0
	}
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
			golden := d
			if d == pregel.Async {
				golden = pregel.Sync
			}
			want, err := os.ReadFile(filepath.Join("golden", name+"."+string(golden)+".jsonl"))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			check := func(t *testing.T, disk bool) {
				ran++
				tr := newTrace(t, d, disk)
				scenarios[name](tr)
				tr.dump()
				if compare(t, normalise(name, d, tr.lines), normalise(name, d, strings.Split(strings.TrimSpace(string(want)), "\n"))) {
					equal++
					lines += len(tr.lines)
				}
			}
			t.Run(name+"/"+string(d), func(t *testing.T) { check(t, false) })
			t.Run(name+"/"+string(d)+"/disk", func(t *testing.T) { check(t, true) })
		}
	}
	golden, err := filepath.Glob("golden/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range golden {
		name, _, _ := strings.Cut(filepath.Base(f), ".")
		if scenarios[name] == nil {
			t.Errorf("%s has no scenario in Go", f)
		}
	}
	used := 0
	for _, n := range normalisers {
		used += n.uses
	}
	shown, of := behavioursShown(t)
	fmt.Printf("scenarios: %d of %d, traces: %d equal, %d different, normalised: %d (graphs: %d, lines: %d)\n", shown, of, equal, ran-equal, used, len(scenarios), lines)
}

// normaliser is one deliberate difference from LangGraph.
type normaliser struct {
	name string // what
	why  string
	// apply rewrites lines of both traces, or empties them; it reports how many.
	apply func(scenario string, d pregel.Durability, lines []string) int
	uses  int
}

var normalisers = []*normaliser{
	{name: "an empty Command is ErrEmptyInput",
		why: "LangGraph means EmptyInputError but fails on an unset variable",
		apply: func(_ string, _ pregel.Durability, lines []string) (n int) {
			for i, l := range lines {
				if l == `{"error":"UnboundLocalError","text":""}` {
					lines[i], n = `{"error":"EmptyInputError","text":""}`, n+1
				}
			}
			return n
		}},
	{name: "a failed superstep leaves nothing behind",
		why: "LangGraph's Exit stores that the nodes of a superstep ran whose writes were refused, so they would never run again, and the write before the one refused",
		apply: func(scenario string, d pregel.Durability, lines []string) (n int) {
			if scenario != "concurrent_update" && scenario != "two_overwrites" || d != pregel.Exit {
				return 0
			}
			for i, l := range lines {
				cut := dropSeen(l, "a", "b")
				if scenario == "two_overwrites" && strings.HasPrefix(l, `{"stored":`) {
					cut = strings.Replace(cut, `"steps":["a"]}`, `"steps":["in"]}`, 1)
				}
				if cut != l {
					lines[i], n = cut, n+1
				}
			}
			return n
		}},
	{name: "an event shows the counters of delta channels as they were",
		why: "LangGraph's Exit resets them in the metadata that an event of the last checkpoint holds",
		apply: func(scenario string, d pregel.Durability, lines []string) (n int) {
			if d != pregel.Exit || !strings.HasPrefix(scenario, "delta") {
				return 0
			}
			for i, l := range lines {
				if cut := dropCounters(l); cut != l {
					lines[i], n = cut, n+1
				}
			}
			return n
		}},
	{name: "an error handler that ended is not run again",
		why: "LangGraph stores what it wrote and runs it again on resume all the same",
		apply: func(scenario string, _ pregel.Durability, lines []string) (n int) {
			handler := map[string]string{"handler_beside_question": "__error_handler__f", "two_handlers": "__error_handler__a"}[scenario]
			if handler == "" {
				return 0
			}
			for i, runs := 0, 0; i < len(lines); i++ {
				if lines[i] == `{"call":"run"}` {
					runs++
				}
				if runs > 1 && strings.Contains(lines[i], `"mode":`) && strings.Contains(lines[i], `"`+handler+`"`) {
					lines[i], n = "", n+1
				}
			}
			return n
		}},
	{name: "Exit reports interrupts once they are stored",
		why: "an interrupt somebody answers must be there",
		apply: func(_ string, d pregel.Durability, lines []string) int {
			if d != pregel.Exit {
				return 0
			}
			return interruptsLast(lines)
		}},
}

// normalise applies the deliberate differences, and counts what they changed.
func normalise(scenario string, d pregel.Durability, lines []string) []string {
	lines = slices.Clone(lines)
	for _, n := range normalisers {
		n.uses += n.apply(scenario, d, lines)
	}
	return slices.DeleteFunc(lines, func(l string) bool { return l == "" })
}

func dropSeen(line string, nodes ...string) string {
	var v map[string]any
	if json.Unmarshal([]byte(line), &v) != nil {
		return line
	}
	stored, _ := v["stored"].(map[string]any)
	seen, _ := stored["seen"].(map[string]any)
	found := false
	for _, n := range nodes {
		_, has := seen[n]
		found = found || has
		delete(seen, n)
	}
	if !found {
		return line
	}
	b, err := json.Marshal(v)
	if err != nil {
		return line
	}
	return string(b)
}

func dropCounters(line string) string {
	var v map[string]any
	if json.Unmarshal([]byte(line), &v) != nil {
		return line
	}
	cp, _ := v["checkpoint"].(map[string]any)
	md, _ := cp["metadata"].(map[string]any)
	if next, _ := cp["next"].([]any); len(next) > 0 || md["counters_since_delta_snapshot"] == nil {
		return line
	}
	delete(md, "counters_since_delta_snapshot")
	b, err := json.Marshal(v)
	if err != nil {
		return line
	}
	return string(b)
}

// interruptsLast moves the reports of interrupts to the end of their run.
func interruptsLast(lines []string) int {
	moved := 0
	for start := 0; start < len(lines); {
		end := start + 1
		for end < len(lines) && strings.Contains(lines[end], `"mode":`) {
			end++
		}
		var first, last []string
		for _, l := range lines[start:end] {
			if strings.Contains(l, `"$interrupt"`) && strings.Contains(l, `"mode":`) || strings.Contains(l, `"interrupts":[{"id"`) {
				last = append(last, l)
			} else {
				first = append(first, l)
			}
		}
		slices.Sort(last) // graphs inside store theirs first
		for i, l := range append(first, last...) {
			if lines[start+i] != l {
				moved++
			}
			lines[start+i] = l
		}
		start = end
	}
	return moved
}

func compare(t *testing.T, got, want []string) bool {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if sameJSON(g, w) {
			continue
		}
		var x, y any
		_ = json.Unmarshal([]byte(g), &x) // what is no JSON is shown as null
		_ = json.Unmarshal([]byte(w), &y)
		t.Errorf("line %d differs (-LangGraph +stele):\n%s", i+1, cmp.Diff(y, x))
		return false
	}
	return true
}

// sameJSON compares values: 1 and 1.0, and the order of keys, do not matter.
func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}
