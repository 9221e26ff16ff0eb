package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stele-go/stele/bench/compare/peer"
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
	if strings.Contains(text, "stale") || strings.Count(text, "| stele | 1234 | 1.5 |") != 1 || !strings.Contains(text, "1 met, 0 missed.") || !strings.HasPrefix(text, "# A\n") || !strings.HasSuffix(text, "after\n") {
		t.Errorf("the document is now\n%s", text)
	}
	if err := back.into(file); err == nil {
		t.Error("a document without a place for tables was changed")
	}
}

// TestChart: the picture is XML; its texts lie within it and on none of the others, the
// figures are told in words as well.
func TestChart(t *testing.T) {
	for _, c := range charts {
		var lines []series
		for i, name := range []string{"stele", "sqlite-mattn", "bbolt", "pebble", "badger", "sqlite-langgraph"} {
			l := series{name: name}
			for j, n := range c.sizes {
				l.points = append(l.points, point{float64(n), 12345 * float64(1+j*i*i)}) // all begin in one place
			}
			lines = append(lines, l)
		}
		dec := xml.NewDecoder(strings.NewReader(c.svg(lines)))
		var boxes []box
		var desc, last string
		for {
			tok, err := dec.Token()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			switch e := tok.(type) {
			case xml.StartElement:
				if last = e.Name.Local; last == "text" {
					boxes = append(boxes, newBox(t, e))
				}
			case xml.CharData:
				if last == "text" {
					boxes[len(boxes)-1].fill(string(e))
				} else if last == "desc" {
					desc += string(e)
				}
			case xml.EndElement:
				last = ""
			}
		}
		for i, b := range boxes {
			if b.x0 < 0 || b.x1 > width || b.y0 < 0 || b.y1 > height {
				t.Errorf("%s: %q is cut off: %+v", c.file, b.text, b)
			}
			for _, o := range boxes[:i] {
				if b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 {
					t.Errorf("%s: %q lies on %q", c.file, b.text, o.text)
				}
			}
			if strings.Contains(b.text, "e+") {
				t.Errorf("%s: nobody reads %q", c.file, b.text)
			}
		}
		if want := "stele " + c.unit(12345); !strings.Contains(desc, want) || len(boxes) < 4+len(lines)+len(c.sizes) {
			t.Errorf("%s: %d texts, and no %q in %q", c.file, len(boxes), want, desc)
		}
	}
}

// box is where a text lies, about: letters are six tenths of their height wide.
type box struct {
	x0, y0, x1, y1, size float64
	anchor, text         string
}

func newBox(t *testing.T, e xml.StartElement) box {
	b := box{size: 14}
	for _, a := range e.Attr {
		to := map[string]*float64{"x": &b.x0, "y": &b.y1, "font-size": &b.size}[a.Name.Local]
		if a.Name.Local == "text-anchor" {
			b.anchor = a.Value
		}
		if to == nil {
			continue
		}
		v, err := strconv.ParseFloat(a.Value, 64)
		if err != nil {
			t.Fatal(err)
		}
		*to = v
	}
	return b
}

func (b *box) fill(text string) {
	w := float64(len([]rune(text))) * 0.6 * b.size
	b.text, b.y0 = text, b.y1-b.size
	switch b.anchor {
	case "end":
		b.x0 -= w
	case "middle":
		b.x0 -= w / 2
	}
	b.x1 = b.x0 + w
}

// TestTicks: round numbers around what is shown.
func TestTicks(t *testing.T) {
	for _, tc := range []struct {
		low, high float64
		want      string
	}{
		{44_000, 118_000_000, "10 KB, 100 KB, 1 MB, 10 MB, 100 MB, 1 GB"},
		{2_240, 57_100, "2 KB, 5 KB, 10 KB, 20 KB, 50 KB, 100 KB"},
		{1_000, 10_000, "1 KB, 2 KB, 5 KB, 10 KB"},
		{700, 700, "500 B, 1 KB"},
	} {
		var got []string
		for _, v := range logTicks(tc.low, tc.high) {
			got = append(got, inBytes(v))
		}
		if s := strings.Join(got, ", "); s != tc.want {
			t.Errorf("%v to %v: got %s, want %s", tc.low, tc.high, s, tc.want)
		}
	}
	for v, want := range map[float64]string{0.23: "230 µs", 411.6: "412 ms", 1000: "1 s"} {
		if got := inTime(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
	if got := thousands(1_234_567); got != "1,230,000" {
		t.Error(got)
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
