package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// recorded is a run as a file keeps it.
type recorded struct {
	Quick   bool
	Rounds  int
	Size    sizes
	Results []recordedRow
}

type recordedRow struct {
	Key     key
	Figures []figures
}

// save writes what was measured to a file.
func (r *run) save(file string) error {
	rec := recorded{Quick: r.quick, Rounds: r.rounds, Size: r.size}
	for k, all := range r.results {
		rec.Results = append(rec.Results, recordedRow{k, all})
	}
	b, err := json.MarshalIndent(rec, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o666)
}

// load reads what save wrote.
func load(file string) (*run, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var rec recorded
	if err := json.Unmarshal(b, &rec); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r := &run{options: options{quick: rec.Quick, rounds: rec.Rounds}, size: rec.Size, results: map[key][]figures{}, log: io.Discard}
	for _, row := range rec.Results {
		r.results[row.Key] = row.Figures
	}
	r.choose()
	return r, nil
}

// The place of the tables in a document.
const (
	tablesBegin = "<!-- tables of bench/compare: begin -->\n"
	tablesEnd   = "<!-- tables of bench/compare: end -->\n"
)

// into replaces the tables of a document by the summary. Its text around them stays.
func (r *run) into(document string) error {
	b, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(b), tablesBegin)
	_, after, ok2 := strings.Cut(rest, tablesEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the tables: %q and %q", document, tablesBegin, tablesEnd)
	}
	var out bytes.Buffer
	r.printSummary(&out)
	return os.WriteFile(document, []byte(before+tablesBegin+"\n"+out.String()+"\n"+tablesEnd+after), 0o666)
}
