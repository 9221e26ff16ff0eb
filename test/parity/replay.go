package parity

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Difference is an answer that is not the recorded one.
type Difference struct {
	Fixture string
	Line    int    // line of the fixture with the call
	What    string // what was answered, and what the recording says
}

// String is "fixture:line: what".
func (d Difference) String() string { return fmt.Sprintf("%s:%d: %s", d.Fixture, d.Line, d.What) }

// Tally counts what replays compared. The zero Tally is ready for use; it is not
// safe for concurrent use.
type Tally struct {
	Fixtures    int // replays and verifications that ran to their end
	Answers     int
	Rules       map[Rule]int // answers decided by each rule
	Differences []Difference
}

// Add takes another tally into t.
func (t *Tally) Add(o Tally) {
	t.Fixtures += o.Fixtures
	t.Answers += o.Answers
	t.Differences = append(t.Differences, o.Differences...)
	for rule, n := range o.Rules {
		t.count(rule, n)
	}
}

func (t *Tally) count(rule Rule, n int) {
	if t.Rules == nil {
		t.Rules = map[Rule]int{}
	}
	t.Rules[rule] += n
}

// DifferenceError is what Replay, VerifyAll, VerifyAt and Same return for
// answers that are not the recorded ones.
type DifferenceError struct{ Differences []Difference }

// Error counts the differences and names the first ones.
func (e *DifferenceError) Error() string {
	const most = 10
	var b strings.Builder
	fmt.Fprintf(&b, "%d differences from LangGraph", len(e.Differences))
	for _, d := range e.Differences[:min(most, len(e.Differences))] {
		fmt.Fprintf(&b, "\n  %s", d)
	}
	return b.String()
}

// Err is nil if there are no differences, and otherwise a *DifferenceError.
func (t *Tally) Err() error {
	if len(t.Differences) == 0 {
		return nil
	}
	return &DifferenceError{Differences: t.Differences}
}

// String is the line that test logs show.
func (t *Tally) String() string {
	s := fmt.Sprintf("parity: %d fixtures, %d answers compared, %d differences", t.Fixtures, t.Answers, len(t.Differences))
	for _, rule := range slices.Sorted(maps.Keys(t.Rules)) {
		s += fmt.Sprintf("; %s %d", rule, t.Rules[rule])
	}
	return s
}

// Replay makes f's calls of line from and later on s, in order, and compares
// every answer. A from of 0 or 1 starts at the beginning; s must then be empty,
// and otherwise hold what the lines before from made. After each call that
// succeeded onAck, if not nil, is told its line; an error it returns ends the
// replay and is returned as it is.
//
// So a replay can be cut and continued: of a process that died, the lines it
// acknowledged are in the saver, the next one may or may not be, and a Replay
// from that one repeats it harmlessly, because every call of a fixture is
// idempotent when it comes twice in a row.
//
// Differences are gathered in the Tally and do not end the replay. The error is
// that of a call which failed though the recording says it succeeds, naming
// fixture and line, or Tally.Err.
func Replay(ctx context.Context, s saver.Saver, f *Fixture, from int, onAck func(line int) error) (Tally, error) {
	return f.run(ctx, s, func(n numbered) bool { return n.line >= from }, onAck)
}

// VerifyAll asks s everything f asks after its last change: what each checkpoint
// is, and the listings. s must hold what f made, whoever made it there and
// however often it was reopened since.
func VerifyAll(ctx context.Context, s saver.Saver, f *Fixture) (Tally, error) {
	last := f.lastWrite()
	return f.run(ctx, s, func(n numbered) bool { return n.line > last }, nil)
}

// VerifyAt checks that s holds what the calls of f up to and including line
// make, and nothing else. ref must be empty, and of a kind that Replay finds
// right; the calls are made on it, and the two are compared.
func VerifyAt(ctx context.Context, s, ref saver.Saver, f *Fixture, line int) error {
	if _, err := f.run(ctx, ref, func(n numbered) bool { return n.line <= line && n.call.changes() }, nil); err != nil {
		return fmt.Errorf("make the reference: %w", err)
	}
	if err := Same(ctx, s, ref); err != nil {
		return fmt.Errorf("%s up to line %d: %w", f.Name, line, err)
	}
	return nil
}

func (f *Fixture) run(ctx context.Context, s saver.Saver, wanted func(numbered) bool, onAck func(int) error) (Tally, error) {
	var t Tally
	for _, n := range f.calls {
		if !wanted(n) {
			continue
		}
		var c comparison
		if err := n.call.run(ctx, s, &c); err != nil {
			return t, fmt.Errorf("%s:%d: %w", f.Name, n.line, err)
		}
		if n.call.answers() {
			t.Answers++
		}
		for rule := range c.rules {
			t.count(rule, 1)
		}
		for _, what := range c.differences {
			t.Differences = append(t.Differences, Difference{Fixture: f.Name, Line: n.line, What: what})
		}
		if onAck != nil {
			if err := onAck(n.line); err != nil {
				return t, err
			}
		}
	}
	t.Fixtures++
	return t, t.Err()
}

// Same reports as an error the first things in which two savers differ: the
// checkpoints of all threads, in order, with their bytes and pending writes.
func Same(ctx context.Context, got, want saver.Saver) error {
	all, err := collect(ctx, want)
	if err != nil {
		return err
	}
	have, err := collect(ctx, got)
	if err != nil {
		return err
	}
	var t Tally
	for i := range max(len(all), len(have)) {
		var c comparison
		switch {
		case i >= len(have):
			c.differ("no checkpoint %+v", all[i].Config)
		case i >= len(all):
			c.differ("a checkpoint too many: %+v", have[i].Config)
		default:
			w, err := freeze(all[i])
			if err != nil {
				return err
			}
			c.tuple("listed", have[i], w)
		}
		for _, what := range c.differences {
			t.Differences = append(t.Differences, Difference{Fixture: "listing", Line: i, What: what})
		}
	}
	return t.Err()
}

func collect(ctx context.Context, s saver.Saver) ([]*saver.Tuple, error) {
	var all []*saver.Tuple
	for t, err := range s.List(ctx, saver.Query{}) {
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// freeze reads a tuple's values, to compare another saver's with.
func freeze(t *saver.Tuple) (*tuple, error) {
	w := &tuple{config: t.Config, cp: t.Checkpoint, metadata: anyMap(t.Metadata), parent: t.Parent}
	w.values = map[string]serde.Typed{}
	for channel, v := range t.Checkpoint.Values {
		var err error
		if w.values[channel], err = v.Typed(); err != nil {
			return nil, fmt.Errorf("channel %q: %w", channel, err)
		}
	}
	for _, pw := range t.PendingWrites {
		v, err := pw.Value.Typed()
		if err != nil {
			return nil, fmt.Errorf("write of channel %q: %w", pw.Channel, err)
		}
		w.writes = append(w.writes, write{task: pw.TaskID, channel: pw.Channel, value: v})
	}
	return w, nil
}
