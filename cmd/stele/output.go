package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// printer writes the output of one command. It keeps the first error and writes nothing
// after it, so that a closed pipe ends the command.
type printer struct {
	w    io.Writer
	json bool
	err  error
}

func (a *app) printer() *printer { return &printer{w: a.out, json: a.flags.json} }

// print writes v as JSON for machines, or calls people to write it for people.
func (a *app) print(v any, people func(*printer)) error {
	p := a.printer()
	if p.json {
		return p.object(v)
	}
	people(p)
	return p.err
}

// line writes a line for people.
func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// hint writes a hint for people, if there is one.
func (p *printer) hint(text string) {
	if text != "" {
		p.line("%s", text)
	}
}

// object writes one JSON object, over several lines.
func (p *printer) object(v any) error { return p.encode(v, "  ") }

// row writes one JSON object of many, in a line.
func (p *printer) row(v any) error { return p.encode(v, "") }

func (p *printer) encode(v any, indent string) error {
	if p.err != nil {
		return p.err
	}
	enc := json.NewEncoder(p.w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	p.err = enc.Encode(v)
	return p.err
}

// widest is how wide a column gets for a cell. One that is longer moves the rest of its own row alone.
const widest = 48

// table writes rows under a head. Numbers are aligned to the right.
func (p *printer) table(head []string, rows [][]any) {
	widths := make([]int, len(head))
	cells := [][]string{head}
	for _, r := range rows {
		row := make([]string, len(r))
		for i, v := range r {
			row[i] = fmt.Sprint(v)
		}
		cells = append(cells, row)
	}
	for _, row := range cells {
		for i, c := range row {
			if n := text.StringWidthWithoutEscSequences(c); n <= widest {
				widths[i] = max(widths[i], n)
			}
		}
	}
	for _, row := range cells {
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", max(0, widths[i]-text.StringWidthWithoutEscSequences(c)))
			if len(rows) > 0 && isNumber(rows[0][i]) {
				line.WriteString(pad + c + "  ")
			} else {
				line.WriteString(c + pad + "  ")
			}
		}
		p.line("%s", strings.TrimRight(line.String(), " \n"))
	}
}

func isNumber(v any) bool {
	switch v.(type) {
	case int, int64, uint64, size:
		return true
	}
	return false
}

// size is a number of bytes for people.
type size int64

// String is the size in binary units, three digits.
func (s size) String() string {
	const units = "KMGTP"
	n := float64(s)
	if s < 1<<10 {
		return strconv.FormatInt(int64(s), 10) + " B"
	}
	i := -1
	for n >= 1<<10 && i+1 < len(units) {
		n /= 1 << 10
		i++
	}
	digits := 2
	switch {
	case n >= 100:
		digits = 0
	case n >= 10:
		digits = 1
	}
	return strconv.FormatFloat(n, 'f', digits, 64) + " " + units[i:i+1] + "iB"
}

// stamp is a time for people; "-" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05.000000")
}

// compact is a value as JSON in one line, cut at n bytes; 0 cuts nothing.
func compact(v any, n int) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	s := strings.TrimRight(b.String(), "\n")
	if n > 0 && len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return s
}

// plural is "1 file", "2 files".
func plural[N int | int64 | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ok := strings.CutSuffix(what, "ry"); ok { // entry
		return fmt.Sprint(n, " ", stem, "ries")
	}
	return fmt.Sprint(n, " ", what, "s")
}
