package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// table is what is printed of a workload.
type table struct {
	work, title string
	columns     []string
}

var tables = []table{
	{"floors", "What the machine allows", []string{"4 KB fdatasync p50 ms", "4 KB fdatasync p99 ms", "8 KB pread p50 ms", "memcpy GB/s"}},
	{"W1", "W1: a chat, serialising included", []string{"steps/s", "put p50 ms", "put p99 ms", "cpu µs/step", "syncs/step", "flushes/step",
		"device KB/step", "disk B/step", "compacted B/step", "rss MB"}},
	{"W1raw", "W1 raw", []string{"steps/s", "put p50 ms", "put p99 ms", "cpu µs/step", "syncs/step", "flushes/step", "device KB/step",
		"disk B/step", "compacted B/step", "rss MB"}},
	{"W1engine", "W1 as an engine on stele saves it: told what grew, writes durable with the checkpoint that follows",
		[]string{"steps/s", "put p50 ms", "put p99 ms", "cpu µs/step", "syncs/step", "flushes/step", "device KB/step", "disk B/step",
			"compacted B/step", "rss MB"}},
	{"W2", "W2: many writers", []string{"commits/s", "put p50 ms", "put p99 ms", "cpu µs/step", "syncs/step", "flushes/step", "device KB/step",
		"disk B/step", "compacted B/step", "rss MB"}},
	{"W2/realistic", "W2 on realistic data; cpu includes Close, Open and Flush", []string{"commits/s", "put p50 ms", "put p99 ms",
		"cpu µs/step", "puts cpu µs/step", "close ms", "open ms", "syncs/step", "flushes/step", "device KB/step", "disk B/step",
		"compacted B/step", "rss MB"}},
	{"fill/realistic", "Filling many threads of realistic data, one caller; cpu includes Close, Open and Flush",
		[]string{"commits/s", "put p50 ms", "put p99 ms", "cpu µs/step", "puts cpu µs/step", "close ms", "open ms", "syncs/step", "flushes/step",
			"device KB/step", "disk B/step", "rss MB"}},
	{"W3", "W3: the newest tuple of random threads", []string{"cold raw get/s", "cold decoded get/s", "warm raw get/s", "warm decoded get/s",
		"8 at once decoded get/s", "8 at once decoded p99 ms", "warm raw cpu µs", "warm decoded cpu µs", "heap MB", "rss MB"}},
	{"W4", "W4: the history of a chat, raw", []string{"list p50 ms", "list metadata p50 ms", "by id p50 ms", "rss MB"}},
	{"copies", "W4: no list is quicker than its values copied once into fresh memory", []string{"27 MB copied p50 ms"}},
	{"W5close", "W5: open after a clean close", []string{"ready ms", "heap MB", "rss MB"}},
	{"W5kill", "W5: open after kill -9", []string{"ready ms", "heap MB", "rss MB"}},
	{"W5close/realistic", "W5 on realistic data: open after a clean close", []string{"ready ms", "heap MB", "rss MB"}},
	{"W5kill/realistic", "W5 on realistic data: open after kill -9, with all puts to replay and with a tenth", []string{"ready ms", "heap MB", "rss MB"}},
	{"lost", "Acknowledged puts lost by kill -9 in the relaxed mode", []string{"lost"}},
	{"lost/realistic", "The same on realistic data, both modes", []string{"lost"}},
	{"itemput", "Items of 1 KB: durable puts by all writers", []string{"puts/s", "cpu µs/step"}},
	{"itemget", "Items: get", []string{"gets/s", "cpu µs/step"}},
	{"itemsearch", "Items: search with one filter", []string{"search p50 ms"}},
	{"vector", "Vectors: the ten nearest", []string{"search p50 ms", "floor p50 ms"}},
}

// print prints all tables and the verdicts.
func (r *run) print(w io.Writer) {
	fmt.Fprintf(w, "%d rounds, engines in turn, each measurement in a process of its own; medians, and quartiles in parentheses. Device figures count the whole disk.\n", r.rounds)
	fmt.Fprintf(w, "Sizes: %+v\n", r.size)
	if len(r.left) > 0 {
		fmt.Fprintf(w, "After %s the rest of round %d was left out: %s.\n", r.limit, r.rounds, strings.Join(r.left, ", "))
	}
	for _, t := range tables {
		r.printTable(w, t)
	}
	r.printBudgets(w)
}

func (r *run) printTable(w io.Writer, t table) {
	keys := slices.SortedFunc(maps.Keys(r.results), func(a, b key) int {
		if d := r.order(a.Engine) - r.order(b.Engine); d != 0 {
			return d
		}
		return strings.Compare(string(a.Mode)+a.Form, string(b.Mode)+b.Form)
	})
	keys = slices.DeleteFunc(keys, func(k key) bool { return k.Work != t.work })
	if len(keys) == 0 {
		return
	}
	fmt.Fprintf(w, "\n### %s\n\n| engine | %s |\n|---|%s\n", t.title, strings.Join(t.columns, " | "), strings.Repeat("---:|", len(t.columns)))
	for _, k := range keys {
		name := strings.TrimSpace(strings.Join([]string{k.Engine, string(k.Mode), k.Form}, " "))
		cells := make([]string, len(t.columns))
		for i, column := range t.columns {
			cells[i] = r.cellText(k, column)
		}
		fmt.Fprintf(w, "| %s | %s |\n", name, strings.Join(cells, " | "))
	}
}

func (r *run) order(engine string) int {
	for i, e := range r.engines {
		if e.Name == engine {
			return i
		}
	}
	return len(r.engines)
}

func (r *run) cellText(k key, column string) string {
	var values []float64
	for _, f := range r.results[k] {
		if v, ok := f[column]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return ""
	}
	q1, median, q3 := quartiles(values)
	if len(values) == 1 || q1 == q3 {
		return number(median)
	}
	return fmt.Sprintf("%s (%s-%s)", number(median), number(q1), number(q3))
}

// number prints three digits, or all of a whole part.
func number(v float64) string {
	switch {
	case v != v:
		return ""
	case v >= 100 || v <= -100 || v == float64(int64(v)):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 1:
		return strconv.FormatFloat(v, 'g', 3, 64)
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}
