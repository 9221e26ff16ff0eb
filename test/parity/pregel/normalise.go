package traces

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stele-go/stele/pregel"
)

// normaliser is one deliberate difference from LangGraph.
type normaliser struct {
	name string // what
	why  string
	// apply rewrites lines of both traces, or empties them; it reports how many.
	apply func(scenario string, d pregel.Durability, lines []string) int
	uses  atomic.Int64
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
	{name: "a question of a call is told once to a graph around",
		why: "LangGraph tells it for the call and again for each of its callers, so it waits several times under one id",
		apply: func(scenario string, _ pregel.Durability, lines []string) (n int) {
			if scenario != "random" && scenario != "functional_question_below" {
				return 0
			}
			for i, l := range lines {
				if cut := toldOnce(l); cut != l {
					lines[i], n = cut, n+1
				}
			}
			return n
		}},
	{name: "an answer that was taken is not stored again",
		why: "LangGraph's Exit stores one that a graph inside took after another task had ended",
		apply: func(scenario string, d pregel.Durability, lines []string) (n int) {
			if scenario != "random" || d != pregel.Exit {
				return 0
			}
			for i, l := range lines {
				if cut := takenAnswer.ReplaceAllString(l, ""); cut != l && strings.HasPrefix(l, `{"stored":`) {
					lines[i], n = cut, n+1
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
		n.uses.Add(int64(n.apply(scenario, d, lines)))
	}
	return slices.DeleteFunc(lines, func(l string) bool { return l == "" })
}

var takenAnswer = regexp.MustCompile(`\["00000000-0000-0000-0000-000000000000","__resume__","[^"]*"\],|,?\["00000000-0000-0000-0000-000000000000","__resume__","[^"]*"\]`)

// toldOnce drops interrupts that an earlier one of the same list repeats.
func toldOnce(line string) string {
	if !strings.Contains(line, "nterrupt") {
		return line
	}
	var v any
	if json.Unmarshal([]byte(line), &v) != nil {
		return line
	}
	b, err := json.Marshal(eachOnce(v))
	if err != nil {
		return line
	}
	return string(b)
}

// eachOnce is v with every list of interrupts, or of their ids, without repeats.
func eachOnce(v any) any {
	switch x := v.(type) {
	case map[string]any:
		for k, e := range x {
			x[k] = eachOnce(e)
			if list, ok := x[k].([]any); ok && k == "interrupts" {
				x[k] = distinct(list)
			}
		}
	case []any:
		for i, e := range x {
			x[i] = eachOnce(e)
		}
		if len(x) == 3 && x[1] == "__interrupt__" { // a pending write
			if list, ok := x[2].([]any); ok {
				x[2] = distinct(list)
			}
		}
	}
	return v
}

func distinct(list []any) []any {
	out := []any{}
	for _, e := range list {
		if !slices.ContainsFunc(out, func(x any) bool { return reflect.DeepEqual(x, e) }) {
			out = append(out, e)
		}
	}
	return out
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

// sameJSON compares values: 1 and 1.0, and the order of keys, do not matter.
func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return reflect.DeepEqual(x, y)
}
