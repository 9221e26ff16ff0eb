package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/stele-go/stele/bench/graphs"
)

// options say what to compare.
type options struct {
	python, program string
	rounds          int
	seconds         float64
	graphs          []string
	recordWork      bool // print what LangGraph does, and time nothing
	out, progress   io.Writer
}

// keeping is a saver and a durability.
type keeping struct{ saver, durability string }

// String is the name of both in the tables.
func (k keeping) String() string {
	if k.saver == "none" {
		return "none"
	}
	return k.saver + " " + k.durability
}

var keepings = []keeping{{"none", "async"},
	{"memory", "sync"}, {"memory", "async"}, {"memory", "exit"},
	{"disk", "sync"}, {"disk", "async"}, {"disk", "exit"}}

// row is one line of the table.
type row struct {
	w            graphs.Workload
	k            keeping
	ours, theirs figures
	oursAlone    bool // the graph has no counterpart to compare with
}

// figures are what one run took and computed, in seconds, round by round.
type figures struct{ took, cpu []float64 }

func (f *figures) add(t timed) {
	f.took = append(f.took, t.Seconds/float64(t.Runs))
	f.cpu = append(f.cpu, t.CPU/float64(t.Runs))
}

func (o options) run() (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ours, err := start("stele", self, "-child")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ours.stop()) }()
	theirs, err := start("LangGraph", o.python, "-W", "ignore", o.program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, theirs.stop()) }()
	rows, err := o.rows()
	if err != nil {
		return err
	}
	record := map[string]work{}
	for _, r := range rows {
		if err := r.sameWork(ours, theirs, record); err != nil {
			return err
		}
	}
	if o.recordWork {
		e := json.NewEncoder(o.out)
		e.SetIndent("", "\t")
		return e.Encode(record)
	}
	hidden := hiddenRows()
	for round := range o.rounds {
		fmt.Fprintf(o.progress, "round %d of %d\n", round+1, o.rounds)
		for _, r := range append(slices.Clone(rows), hidden...) {
			if err := r.measure(o.seconds, ours, theirs); err != nil {
				return err
			}
		}
	}
	printTable(o.out, rows)
	printHidden(o.out, hidden)
	return nil
}

func (o options) rows() ([]*row, error) {
	var rows []*row
	for _, name := range o.graphs {
		w, ok := graphs.Find(name)
		if !ok {
			return nil, fmt.Errorf("graph %q is unknown; there are %v", name, names())
		}
		for _, k := range keepings {
			if k.saver == "none" && w.Turns > 1 {
				continue // nothing would grow
			}
			rows = append(rows, &row{w: w, k: k})
		}
	}
	return rows, nil
}

// hiddenRows are nodes of a millisecond: what storing costs where there is work
// to hide it behind. Only stele runs them.
func hiddenRows() []*row {
	w, _ := graphs.Find("line1ms")
	var rows []*row
	for _, k := range keepings {
		rows = append(rows, &row{w: w, k: k, oursAlone: true})
	}
	return rows
}

func (r *row) request() request {
	name := r.w.Name
	if r.oursAlone {
		name += "1ms"
	}
	return request{Graph: name, Saver: r.k.saver, Durability: r.k.durability}
}

// key names the row in a record of work.
func (r *row) key() string { return r.w.Name + ", " + r.k.String() }

// sameWork refuses to compare sides that do not do the same, and records what
// that is.
func (r *row) sameWork(ours, theirs *side, record map[string]work) error {
	q := r.request()
	q.Work = true
	var a, b work
	if err := ours.ask(q, &a); err != nil {
		return err
	}
	if err := theirs.ask(q, &b); err != nil {
		return err
	}
	if a != b {
		return fmt.Errorf("graph %s, saver %s: stele did %+v, LangGraph %+v", r.w.Name, r.k, a, b)
	}
	record[r.key()] = b
	return nil
}

// measure adds one round: first one side, then the other, in an order that
// changes from round to round.
func (r *row) measure(seconds float64, ours, theirs *side) error {
	q := r.request()
	q.Seconds = seconds
	one := func(s *side, into *figures) error {
		var t timed
		if err := s.ask(q, &t); err != nil {
			return err
		}
		into.add(t)
		return nil
	}
	if r.oursAlone {
		return one(ours, &r.ours)
	}
	if len(r.ours.took)%2 == 0 {
		return errors.Join(one(ours, &r.ours), one(theirs, &r.theirs))
	}
	return errors.Join(one(theirs, &r.theirs), one(ours, &r.ours))
}
