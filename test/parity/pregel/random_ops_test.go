package traces

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/pregel"
)

func (r *random) runAt(input any, cfg config) {
	cfg.RecursionLimit, cfg.InterruptBefore, cfg.InterruptAfter = 9, r.op.Before, r.op.After
	if of := r.durability; of != pregel.Exit && r.op.Durability != "" {
		if r.op.Durability == pregel.Exit {
			r.durability = pregel.Exit
		}
		defer func() { r.durability = of }()
	}
	r.run(r.graph, input, cfg)
}

// shown is the newest state; a state that cannot be shown ends the operation.
func (r *random) shown(cfg config, subgraphs, trace bool) *pregel.StateSnapshot {
	s, err := r.graph.GetState(ctx, cfg.Address, pregel.StateOptions{Subgraphs: subgraphs})
	if err != nil {
		r.refused(err)
		return nil
	}
	if trace {
		r.put(m{"state": snapshot(s)})
	}
	return s
}

func (r *random) refused(err error) {
	if !errors.Is(err, pregel.ErrInvalidUpdate) {
		r.t.Fatal(err)
	}
	r.error(err)
}

// showHistory shows the history, and returns the addresses in it.
func (r *random) showHistory() {
	for s, err := range r.graph.GetStateHistory(ctx, r.config().Address, pregel.HistoryQuery{}) {
		if err != nil {
			r.refused(err)
			return
		}
		r.put(m{"history": snapshot(s)})
	}
}

// picked is the address of some checkpoint of the thread.
func (r *random) picked(op opSpec) (config, bool) {
	var all []config
	for s, err := range r.graph.GetStateHistory(ctx, r.config().Address, pregel.HistoryQuery{}) {
		if err != nil {
			r.refused(err)
			return config{}, false
		}
		all = append(all, on(s.Address))
	}
	return all[op.Pick%len(all)], true
}

func (r *random) do(op opSpec) {
	switch op.Op {
	case "run":
		r.runAt(op.Input.plain(), r.config())
	case "state":
		r.shown(r.config(), op.Pick%2 == 0, true)
	case "go_on":
		r.goOn(op)
	case "bulk":
		r.bulk(op)
	case "clear":
		r.update(r.graph, r.config(), pregel.StateUpdate{AsNode: pregel.End})
		r.shown(r.config(), false, true)
	case "input":
		r.update(r.graph, r.config(), pregel.StateUpdate{Values: op.Input.plain(), AsNode: pregel.Input})
		r.runAt(nil, r.config())
	case "command":
		r.runAt(pregel.Command{Goto: targets(op.Goto), Update: op.Update.plain()}, r.config())
	case "inside":
		r.inside(op)
	default:
		r.elsewhere(op)
	}
}

// goOn answers what waits.
func (r *random) goOn(op opSpec) {
	s := r.shown(r.config(), false, true)
	if s == nil {
		return
	}
	var ids []string
	seen := map[string]bool{}
	for _, in := range s.Interrupts {
		if !seen[in.ID] {
			seen[in.ID] = true
			ids = append(ids, in.ID)
		}
	}
	answer := fmt.Sprint("r", op.Pick)
	answers := m{}
	for _, id := range ids {
		answers[id] = answer
	}
	switch {
	case len(ids) == 0 && len(s.Next) == 0 && op.Stray:
		r.runAt(pregel.Command{Resume: answer}, r.config())
	case len(ids) == 0 || op.How == "none":
		r.runAt(nil, r.config())
	case op.How == "value":
		r.runAt(pregel.Command{Resume: answer, Update: op.Update.plain(), Goto: going(op.Goto)}, r.config())
	case op.How == "one":
		r.runAt(pregel.Command{Resume: m{ids[op.Pick%len(ids)]: answer}}, r.config())
	default:
		r.runAt(pregel.Command{Resume: answers, Update: op.Update.plain(), Goto: going(op.Goto)}, r.config())
	}
}

// going is where a command goes, if anywhere.
func going(list []dest) any {
	if len(list) == 0 {
		return nil
	}
	return targets(list)
}

func (r *random) bulk(op opSpec) {
	values, more := op.Values.plain(), op.More.plain()
	out, err := r.graph.BulkUpdateState(ctx, r.config().Address, [][]pregel.StateUpdate{
		{{Values: values, AsNode: op.As}, {Values: more, AsNode: op.As2}}, {{Values: more, AsNode: op.As}}})
	if err != nil {
		r.error(err)
		return
	}
	r.put(m{"updated": out.CheckpointID})
	if op.Run {
		r.runAt(nil, r.config())
	}
}

// elsewhere is an operation at some checkpoint of the thread.
func (r *random) elsewhere(op opSpec) {
	at, ok := r.config(), true
	if op.Op != "update" || !op.AtHead {
		at, ok = r.picked(op)
	}
	if !ok {
		return
	}
	switch op.Op {
	case "replay":
		r.runAt(nil, at)
	case "branch":
		r.runAt(op.Input.plain(), at)
	case "update":
		out := r.update(r.graph, at, pregel.StateUpdate{Values: op.Values.plain(), AsNode: op.As})
		if op.Run {
			r.runAt(nil, out)
		}
	case "copy":
		u := pregel.StateUpdate{AsNode: pregel.Copy}
		if op.Pick%2 == 1 {
			u.Values = []pregel.StateUpdate{{Values: op.Values.plain(), AsNode: op.As}}
		}
		if op.Map {
			u.Values = op.Values.plain()
		}
		out := r.update(r.graph, at, u)
		if op.Run {
			r.runAt(nil, out)
		}
	default:
		r.t.Fatal("no such operation: ", op.Op)
	}
}

// inside goes back to where a graph inside stands.
func (r *random) inside(op opSpec) {
	at, ok := r.config(), true
	if op.Pick%3 == 0 {
		at, ok = r.picked(op)
	}
	if !ok {
		return
	}
	s := r.shown(at, true, false)
	if s == nil {
		return
	}
	var places []config
	for _, t := range s.Tasks {
		if t.State != nil && on(t.State.Address).CheckpointID != "" {
			places = append(places, on(t.State.Address))
		}
	}
	if len(places) > 0 {
		r.runAt(nil, places[op.Pick%len(places)])
	}
}
