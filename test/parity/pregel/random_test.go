package traces

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/pregel"
)

// randomFiles hold graphs and scripts drawn at random, with what LangGraph did
// with them. STELE_RANDOM_TRACES names another such file instead, which
// random_trace.py writes: random_trace.py FILE FIRST-SEED COUNT.
func randomFiles() []string {
	if f := os.Getenv("STELE_RANDOM_TRACES"); f != "" {
		return []string{f}
	}
	return []string{"random.jsonl.gz", "random_rich.jsonl.gz", "random_loose.jsonl.gz", "random_found.jsonl.gz"}
}

// randomCase is one line of the file.
type randomCase struct {
	Spec   spec                `json:"spec"`
	Traces map[string][]string `json:"traces"`
}

// TestRandomGraphs compares graphs drawn at random with LangGraph's traces of
// them. A failure names the seed; random_graphs.py draws the same graph again.
func TestRandomGraphs(t *testing.T) {
	var sum randomSum
	for _, name := range randomFiles() {
		sum.file(t, name)
	}
	fmt.Printf("random graphs: %d, traces: %d equal, %d different\n", sum.graphs, sum.equal, sum.ran-sum.equal)
}

// randomSum counts what was compared.
type randomSum struct{ graphs, ran, equal int }

func (s *randomSum) file(t *testing.T, name string) {
	eachRandom(t, name, func(c randomCase) {
		s.graphs++
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
			s.play(t, c, d)
		}
	})
}

// eachRandom reads a file of random graphs. The race detector is shown a share of them.
func eachRandom(t *testing.T, name string, do func(randomCase)) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(bufio.NewReader(unzipped))
	for n := 0; ; n++ {
		var c randomCase
		if err := dec.Decode(&c); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if !race.Enabled || n%5 == 0 {
			do(c)
		}
	}
}

// play compares one trace of a graph, if there is one in this durability.
func (s *randomSum) play(t *testing.T, c randomCase, d pregel.Durability) {
	want := c.Traces[string(pregel.Sync)]
	if d == pregel.Exit {
		want = c.Traces[string(pregel.Exit)]
	}
	// The savers and Async differ little from what the scenarios show of them; most behind failures.
	disk := d == pregel.Async
	if want == nil || disk && c.Spec.Seed%4 > 0 && c.Spec.Seed < 5000 {
		return
	}
	t.Run(fmt.Sprintf("%d/%s", c.Spec.Seed, d), func(t *testing.T) {
		s.ran++
		open := inMemory
		if disk {
			open = onDisk(t)
		}
		tr := newTrace(t, "random", d, 0, open)
		playRandom(tr, c.Spec)
		tr.dump()
		n := comparable(c.Spec, d, want)
		got := tr.lines
		if n < len(want) {
			got = sameCalls(got, want[:n])
		}
		if compare(t, normaliseRandom(c.Spec, d, got), normaliseRandom(c.Spec, d, want[:n])) {
			s.equal++
		}
	})
}

var counters = regexp.MustCompile(`"counters_since_delta_snapshot":\{[^}]*\},?`)

// normaliseRandom applies the deliberate differences that random graphs meet: an
// error handler that ended is not run again, and delta channels' counters in
// events of an Exit run. A trace with an Exit run in it is normalised as one.
func normaliseRandom(s spec, d pregel.Durability, lines []string) []string {
	if s.exits() {
		d = pregel.Exit
	}
	lines = slices.DeleteFunc(slices.Clone(lines), func(l string) bool {
		return strings.Contains(l, `"mode":`) && strings.Contains(l, `"__error_handler__`) && !strings.Contains(l, `"checkpoint":`)
	})
	if d == pregel.Exit {
		for i, l := range lines {
			if !strings.Contains(l, `"checkpoint":`) {
				continue
			}
			lines[i] = counters.ReplaceAllString(l, "")
		}
	}
	lines = normalise("random", d, lines)
	for i, l := range lines {
		var v m
		if json.Unmarshal([]byte(l), &v) != nil {
			continue
		}
		if b, err := json.Marshal(withoutTexts(v)); err == nil {
			lines[i] = string(b)
		}
	}
	return lines
}

// comparable is how many lines of an Exit trace can be compared: those before the
// first run that ends with refused writes. In LangGraph that superstep leaves some
// of them behind.
func comparable(s spec, d pregel.Durability, lines []string) int {
	begin := 0
	if d == pregel.Exit || s.exits() {
		for i, l := range lines {
			if l == callLine {
				begin = i
			}
			if strings.Contains(l, "InvalidUpdateError") || strings.Contains(l, "INVALID_CONCURRENT") {
				return begin
			}
		}
	}
	return len(lines)
}

// callLine begins a run.
const callLine = `{"call":"run"}`

// sameCalls are the lines up to the end of as many runs as want has: a line more or less in one is no reason
// to compare less of the others.
func sameCalls(lines, want []string) []string {
	left := 0
	for _, l := range want {
		if l == callLine {
			left++
		}
	}
	for i, l := range lines {
		if l != callLine {
			continue
		}
		if left--; left < 0 {
			return lines[:i]
		}
	}
	return lines
}

// withoutTexts replaces the texts of errors that are not the nodes' own.
func withoutTexts(v any) any {
	own := func(x any) any {
		if s, ok := x.(string); ok && !strings.HasSuffix(s, " failed") {
			return "(an error)"
		}
		return x
	}
	switch x := v.(type) {
	case m:
		for k, e := range x {
			if x[k] = withoutTexts(e); k == "error" && x["text"] == nil {
				x[k] = own(e)
			}
		}
	case []any:
		for i, e := range x {
			x[i] = withoutTexts(e)
		}
		if len(x) == 3 && x[1] == "__error__" {
			x[2] = own(x[2])
		}
	}
	return v
}

func opLine(op string) m { return m{"op": op} }
