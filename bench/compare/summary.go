package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/stele-go/stele/bench/compare/peer"
)

// summary is a table of docs/performance.md: medians, an engine a line. What the command
// prints has all figures, modes and quartiles.
type summary struct {
	title   string
	columns []summaryColumn
}

type summaryColumn struct {
	name, work, form, figure string
	mode                     peer.Mode
}

// step are the columns that W1 and W2 have in common.
func step(work, per string) []summaryColumn {
	var columns []summaryColumn
	for _, figure := range []string{per, "put p50 ms", "put p99 ms", "cpu µs/step", "disk B/step", "compacted B/step"} {
		columns = append(columns, summaryColumn{figure, work, "", figure, peer.Durable})
	}
	return append(columns, summaryColumn{per + ", relaxed", work, "", per, peer.Relaxed})
}

var summaries = []summary{
	{"W1: a chat", step("W1", "steps/s")},
	{"W2: 64 writers", step("W2", "commits/s")},
	{"W2 on realistic data", step("W2/realistic", "commits/s")},
	{"W3: the newest tuple of a random thread, gets a second", []summaryColumn{
		{"cold, raw", "W3", "compacted", "cold raw get/s", peer.Relaxed}, {"cold, decoded", "W3", "compacted", "cold decoded get/s", peer.Relaxed},
		{"warm, raw", "W3", "compacted", "warm raw get/s", peer.Relaxed}, {"warm, decoded", "W3", "compacted", "warm decoded get/s", peer.Relaxed},
		{"heap MB", "W3", "compacted", "heap MB", peer.Relaxed},
	}},
	{"W4: the history of a chat, raw, ms", []summaryColumn{
		{"list of 200", "W4", "compacted", "list p50 ms", peer.Relaxed}, {"without values", "W4", "compacted", "list metadata p50 ms", peer.Relaxed},
		{"one by id", "W4", "compacted", "by id p50 ms", peer.Relaxed},
	}},
	{"W5: from Open to the first tuple, ms", []summaryColumn{
		{"after a close", "W5close", "", "ready ms", peer.Relaxed}, {"after a kill", "W5kill", "", "ready ms", peer.Relaxed},
		{"puts lost by the kill", "lost", "", "lost", peer.Relaxed}, {"realistic, after a kill", "W5kill/realistic", "", "ready ms", peer.Durable},
	}},
	{"Items of 1 KB", []summaryColumn{
		{"durable puts/s", "itemput", "", "puts/s", peer.Durable}, {"gets/s", "itemget", "", "gets/s", peer.Relaxed},
		{"search with a filter, ms", "itemsearch", "", "search p50 ms", peer.Relaxed},
	}},
}

// printSummary prints the tables that a document keeps, and the budgets that were missed.
func (r *run) printSummary(w io.Writer) {
	fmt.Fprintf(w, "Medians of %d rounds.\n", r.rounds)
	for _, s := range summaries {
		r.printSummaryTable(w, s)
	}
	var missed strings.Builder
	met, n, _ := r.count(func(line string, v verdict) {
		if v.measured && !v.met {
			missed.WriteString(line)
		}
	})
	fmt.Fprintf(w, "\n### Budgets\n\n%d met, %d missed", met, n)
	if missed.Len() > 0 {
		fmt.Fprintf(w, ":\n\n| missed | target | median (quartiles) |\n|---|---:|---:|\n%s", &missed)
	} else {
		fmt.Fprintln(w, ".")
	}
}

// printSummaryTable leaves out the engines and the columns that were not measured.
func (r *run) printSummaryTable(w io.Writer, s summary) {
	cell := func(c summaryColumn, engine string) string {
		text, _, _ := strings.Cut(r.cellText(key{c.work, engine, c.mode, c.form}, c.figure), " ")
		return text
	}
	head, rows := "", make([]string, len(r.engines))
	for _, c := range s.columns {
		cells, any := make([]string, len(r.engines)), false
		for i, e := range r.engines {
			cells[i] = cell(c, e.Name)
			any = any || cells[i] != ""
		}
		if !any {
			continue
		}
		head += " " + c.name + " |"
		for i := range rows {
			rows[i] += " " + cells[i] + " |"
		}
	}
	if head == "" {
		return
	}
	fmt.Fprintf(w, "\n### %s\n\n| |%s\n|---|%s\n", s.title, head, strings.Repeat("---:|", strings.Count(head, "|")))
	for i, e := range r.engines {
		if strings.Trim(rows[i], " |") != "" {
			fmt.Fprintf(w, "| %s |%s\n", e.Name, rows[i])
		}
	}
}
