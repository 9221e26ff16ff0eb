package traces

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// shown is one event of a run, and what it belongs to.
type shown struct {
	line  string
	v     map[string]any
	mode  string
	group string // the run it is an event of: its namespace and the tasks around
	// within are the groups around it, from the outermost, its own last.
	within []string
	task   string // whose output it shows; "" if it shows no output
	inside []string
}

// resumption is how a resumed run may differ from the rest of one that was never
// cut: by name, and counted.
type resumption struct {
	before  int // events that were shown before the crash
	state   int // "first shows where it stands": the state is shown again
	cached  int // "what ended is shown as cached": it does not run again
	pending int // "shows what is stored beside it": the checkpoint gone on from names errors and interrupts of its tasks
	handled int // "a handler begins the superstep": the events of the run that found a failure stored are not compared
	marks   int // "says that it was resumed": what a resume passes is remembered under __interrupt__
	calls   int // "calls of what ended are not made again": versions_seen does not name them
	whole   int // "a delta channel is stored whole": after writes that a run, begun over, did not make
}

func (r *resumption) add(o resumption) {
	r.before += o.before
	r.state += o.state
	r.cached += o.cached
	r.pending += o.pending
	r.handled += o.handled
	r.marks += o.marks
	r.calls += o.calls
	r.whole += o.whole
}

// readShown reads the events of one run. Tasks run one after another, so what a
// task shows, and the graphs inside it, comes before its result.
func readShown(lines []string) []shown {
	out := make([]shown, len(lines))
	next := map[string]string{} // "namespace name" to the task with the next result
	last := map[string]string{} // namespace to the task with the next result
	for i := len(lines) - 1; i >= 0; i-- {
		e := shown{line: lines[i]}
		_ = json.Unmarshal([]byte(lines[i]), &e.v) // the harness wrote it
		e.mode, _ = e.v["mode"].(string)
		ns := namesOf(e.v["ns"])
		at := strings.Join(ns, "/")
		for k, name := range ns {
			out := strings.Join(ns[:k], "/")
			e.within = append(e.within, out+strings.Join(e.inside, ","))
			if _, id, named := strings.Cut(name, ":"); named {
				e.inside = append(e.inside, id)
			} else if id := next[out+" "+name]; id != "" {
				e.inside = append(e.inside, id)
			}
		}
		e.group = at + strings.Join(e.inside, ",")
		e.within = append(e.within, e.group)
		if r, ok := e.v["result"].(map[string]any); ok {
			e.task, _ = r["id"].(string)
			name, _ := r["name"].(string)
			next[at+" "+name], last[at] = e.task, e.task
		}
		switch e.mode {
		case "updates":
			if e.v["cached"] == true { // it ended before this run
				break
			}
			node, _ := e.v["node"].(string)
			e.task = next[at+" "+node]
		case "custom", "messages":
			e.task = last[at]
		}
		out[i] = e
	}
	insideCalls(out)
	return out
}

// insideCalls finds the tasks that made a call: those that began before it and
// ended after. Packets are shown like calls, but all before the first of them ends.
func insideCalls(events []shown) {
	var open []string
	callers := map[string][]string{}
	for i, e := range events {
		if t, ok := e.v["task"].(map[string]any); ok {
			id, _ := t["id"].(string)
			if names := namesOf(t["triggers"]); len(names) == 1 && names[0] == "__pregel_push" && isPair(t["input"]) {
				callers[id] = slices.Clone(open)
			}
			events[i].inside = append(events[i].inside, callers[id]...)
			open = append(open, id)
		}
		if e.task != "" {
			events[i].inside = append(events[i].inside, callers[e.task]...)
		}
		if e.v["result"] != nil {
			open = slices.DeleteFunc(open, func(id string) bool { return id == e.task })
		}
	}
}

// isPair tells the input of a call, which is shown as positional and named
// arguments.
func isPair(v any) bool {
	list, _ := v.([]any)
	if len(list) != 2 {
		return false
	}
	_, positional := list[0].([]any)
	named, ok := list[1].(map[string]any)
	return positional && ok && len(named) == 0
}

func namesOf(v any) (out []string) {
	list, _ := v.([]any)
	for _, x := range list {
		s, _ := x.(string)
		out = append(out, s)
	}
	return out
}

// checkpointOf is the id of the checkpoint an event shows, or "".
func (e shown) checkpointOf() string {
	cp, _ := e.v["checkpoint"].(map[string]any)
	config, _ := cp["config"].(map[string]any)
	id, _ := config["checkpoint_id"].(string)
	return id
}

// rest is what is left of a run that was cut when saved was stored: the events
// from the checkpoints on that its graphs go on from, without what ended.
// heads are these checkpoints by group, starts with those of graphs that had
// stored nothing yet, and gone the events left out.
func rest(whole []shown, saved []ack, replays bool) (left []shown, heads, starts map[string]string, gone []shown) {
	stored, ended := map[string]bool{}, map[string]bool{}
	for _, a := range saved {
		if a.put {
			stored[a.checkpoint] = true
		}
		if a.ended && !replays {
			ended[a.task] = true
		}
	}
	from := map[string]int{}
	heads = map[string]string{}
	for i, e := range whole {
		if id := e.checkpointOf(); stored[id] {
			from[e.group], heads[e.group] = i, id
		}
	}
	starts = maps.Clone(heads)
	for _, e := range whole {
		if id := e.checkpointOf(); id != "" && starts[e.group] == "" {
			starts[e.group] = id // from where it stood before
		}
	}
	for i, e := range whole {
		past := ended[e.task] || slices.ContainsFunc(e.inside, func(id string) bool { return ended[id] })
		for _, g := range e.within {
			past = past || i < from[g]
		}
		if past && e.v["call"] == nil {
			gone = append(gone, e)
		} else {
			left = append(left, e)
		}
	}
	return left, heads, starts, gone
}

// sameRest compares a resumed run with the rest of the whole one.
func sameRest(got, whole []string, p *past) (a, b []string, r resumption) {
	left, heads, starts, gone := rest(readShown(whole), p.saved, p.replays)
	r.before = len(gone)
	for _, e := range left {
		b = append(b, withoutPending(e, starts, nil))
	}
	again := readShown(got)
	for i, e := range again {
		if e.mode == "values" && e.v["interrupts"] == nil && startsAt(again[i+1:], e.group, heads) {
			r.state++
			continue
		}
		if e.v["cached"] == true {
			delete(e.v, "cached")
			was := slices.IndexFunc(gone, func(g shown) bool { return g.mode == "updates" && sameJSON(g.line, encodeLine(e.v)) })
			if was >= 0 {
				gone = slices.Delete(gone, was, was+1)
				r.cached++
				continue
			}
			e.v["cached"] = true
		}
		a = append(a, withoutPending(e, starts, &r))
	}
	return a, b, r
}

// startsAt reports whether the next event of the group shows the checkpoint it
// goes on from.
func startsAt(events []shown, group string, heads map[string]string) bool {
	for _, e := range events {
		if e.group == group {
			return heads[group] != "" && e.checkpointOf() == heads[group]
		}
	}
	return false
}

// withoutPending is the event; one that shows the checkpoint a graph goes on
// from without what its tasks left.
func withoutPending(e shown, starts map[string]string, r *resumption) string {
	if starts[e.group] == "" || e.checkpointOf() != starts[e.group] {
		return e.line
	}
	cp, _ := e.v["checkpoint"].(map[string]any)
	if r != nil && len(cp["metadata"].(m)) > 3 {
		r.pending++
	}
	maps.DeleteFunc(cp["metadata"].(m), func(k string, _ any) bool { return k != "source" && k != "step" && k != "parents" })
	delete(cp, "parent") // under Exit it was made and not stored
	tasks, _ := cp["tasks"].([]any)
	for _, t := range tasks {
		task, _ := t.(map[string]any)
		left, _ := task["interrupts"].([]any)
		if r != nil && (task["error"] != nil || len(left) > 0) {
			r.pending++
		}
		task["error"], task["interrupts"] = nil, []any{}
	}
	return encodeLine(e.v)
}

func encodeLine(v map[string]any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
