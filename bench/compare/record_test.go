package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/bench/compare/peer"
	"gonum.org/v1/plot/plotter"
)

// TestRecord: what was measured survives a file, and its tables replace the old ones in
// a document, whose text stays.
func TestRecord(t *testing.T) {
	r := &run{options: options{rounds: 1, quick: true}, size: quickSizes, log: io.Discard,
		results: map[key][]figures{{"W1", "stele", peer.Durable, ""}: {{"steps/s": 1234, "put p99 ms": 1.5}}}}
	r.choose()
	file, doc := filepath.Join(t.TempDir(), "run.json"), filepath.Join(t.TempDir(), "doc.md")
	for _, err := range []error{r.save(file), os.WriteFile(doc, []byte("# A\n"+tablesBegin+"stale\n"+tablesEnd+"after\n"), 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	back, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	var want, got bytes.Buffer
	r.print(&want)
	if back.print(&got); got.String() != want.String() || !strings.Contains(got.String(), "1234") {
		t.Errorf("printed anew:\n%s\nwant:\n%s", got.String(), want.String())
	}
	for range 2 {
		if err := back.into(doc); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if strings.Contains(text, "stale") || strings.Count(text, "W1: a chat") != 1 || !strings.HasPrefix(text, "# A\n") || !strings.HasSuffix(text, "after\n") || strings.Contains(text, "\n### ") {
		t.Errorf("the document is now\n%s", text)
	}
	if err := back.into(file); err == nil {
		t.Error("a document without a place for tables was changed")
	}
}

// TestChart draws lines, and looks for them.
func TestChart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chart.svg")
	c := charts[0]
	lines := map[string]plotter.XYs{"stele": {{X: 25, Y: 10}, {X: 400, Y: 200}}, "other": {{X: 25, Y: 100}, {X: 400, Y: 9000}}}
	if err := c.draw(lines, []peer.Engine{{Name: "stele"}, {Name: "other"}}, file); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "stele", "other", c.title} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("no %q in the chart", want)
		}
	}
}

// TestScaleTable prints figures some of which grow.
func TestScaleTable(t *testing.T) {
	small, large := figures{}, figures{}
	for _, column := range scaleColumns {
		small[column], large[column] = 1, 1.9
	}
	large["open ms"] = 2.1
	var out bytes.Buffer
	printScale(&out, 1, []int{10_000, 20_000}, map[int][]figures{10_000: {small}, 20_000: {large}})
	if !strings.HasSuffix(out.String(), "\nscale: 6 of 7 flat\n") || strings.Count(out.String(), "not flat") != 1 {
		t.Error(out.String())
	}
	for _, bad := range []string{"", "x", "10", "10000,-1"} {
		if got, err := counts(bad); err == nil {
			t.Errorf("%q is taken for %v", bad, got)
		}
	}
	if got, err := counts("20000,10000"); err != nil || got[0] != 10_000 {
		t.Errorf("%v, %v", got, err)
	}
}
