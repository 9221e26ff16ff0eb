package traces

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
)

// Partner is a program in another language that plays the scenarios of this package on the
// same store: handover.py. Both programs play a scenario from its first call to its last.
//
// What only looks at a thread both do. Of the other calls, runs above all, each program makes
// every second one; then it tells the other what a process knows and the store does not: the
// lines that the call showed, how many ids were made, what nodes did to the world outside, and
// the address that an update returned. Every message is one line of JSON, a [turn]. So all that
// a thread is taken up with is in the store.
type Partner struct {
	In  io.Writer     // its standard input
	Out *bufio.Reader // its standard output
}

// turn is what a program tells the other after a call.
type turn struct {
	Kind    string       `json:"kind"`
	Lines   []string     `json:"lines"`
	Minted  int          `json:"minted"`
	Deeds   [][2]any     `json:"deeds"`
	Address *wireAddress `json:"address"`
	Failed  string       `json:"failed"`
}

// wireAddress is an address as harness.py writes it.
type wireAddress struct {
	Thread     string            `json:"thread_id"`
	Namespace  string            `json:"checkpoint_ns,omitempty"`
	Checkpoint string            `json:"checkpoint_id,omitempty"`
	Map        map[string]string `json:"checkpoint_map,omitempty"`
}

// partner is a Partner in the middle of a scenario.
type partner struct {
	*Partner
	mine  bool // this program makes the next call
	turns int
}

// looks are the calls that change nothing.
var looks = []string{"state", "history", "show"}

// HandedOver plays a scenario in turns with p, which makes the first call if theirs is set. It
// returns the traces of both programs, which hold what each found in the store at the end.
func HandedOver(t testing.TB, p *Partner, scenario string, d pregel.Durability, theirs bool, open func(random func() float64) saver.Saver) (mine, partners []string, err error) {
	job := map[string]any{"scenario": scenario, "durability": d, "mine": theirs}
	if err := p.tell(job); err != nil {
		return nil, nil, err
	}
	tr := newTrace(t, scenario, d, 0, open)
	tr.life.partner = &partner{Partner: p, mine: !theirs}
	defer func() {
		if r := recover(); r != nil { // the scenario did not find what it looked for
			err = fmt.Errorf("%v\n%s", r, debug.Stack())
		}
	}()
	scenarios[scenario](tr)
	tr.dump()
	last, err := p.hear("end")
	return tr.lines, last.Lines, err
}

// inTurns makes a call of a scenario if it is this program's turn, and else hears of it.
func inTurns[T any](tr *trace, kind string, f func(again bool) T) (result T) {
	l := tr.life
	p := l.partner
	if slices.Contains(looks, kind) {
		result = f(false)
		err := p.tell(turn{Kind: kind}) // who goes on writes
		if err == nil {
			_, err = p.hear(kind)
		}
		if err != nil {
			panic(err)
		}
		return result
	}
	mine := p.mine
	p.mine = !mine
	p.turns++
	from := len(tr.lines)
	if mine {
		result = f(false)
		said := turn{Kind: kind, Lines: tr.lines[from:], Minted: int(l.minted.Load())}
		for _, d := range l.deeds {
			said.Deeds = append(said.Deeds, [2]any{d.name, canon(d.value)})
		}
		if at, ok := any(result).(config); ok {
			said.Address = &wireAddress{at.ThreadID, at.Namespace, at.CheckpointID, at.CheckpointMap}
		}
		if err := p.tell(said); err != nil {
			panic(err)
		}
		return result
	}
	said, err := p.hear(kind)
	if err != nil {
		panic(err)
	}
	tr.lines = append(tr.lines, said.Lines...)
	for l.minted.Load() < int64(said.Minted) {
		tr.env.IDs.Next(0)
	}
	l.deeds = nil
	for _, d := range said.Deeds {
		l.deeds = append(l.deeds, deed{name: fmt.Sprint(d[0]), value: d[1]})
	}
	if at, ok := any(&result).(*config); ok && said.Address != nil {
		a := said.Address
		*at = on(pregel.Address{ThreadID: a.Thread, Namespace: a.Namespace, CheckpointID: a.Checkpoint, CheckpointMap: a.Map})
	}
	return result
}

func (p *Partner) tell(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = p.In.Write(append(b, '\n'))
	}
	return err
}

// hear waits for the partner to say that it made a call of a kind.
func (p *Partner) hear(kind string) (turn, error) {
	var said turn
	line, err := p.Out.ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(line), &said)
	}
	switch {
	case err != nil:
		return turn{}, fmt.Errorf("the partner says nothing: %w", err)
	case said.Failed != "":
		return turn{}, fmt.Errorf("the partner failed: %s", said.Failed)
	case said.Kind != kind:
		return turn{}, fmt.Errorf("the partner made a call %q, this program a call %q", said.Kind, kind)
	}
	return said, nil
}

// Scenarios are the names of all scenarios, sorted.
func Scenarios() []string { return slices.Sorted(maps.Keys(scenarios)) }

// Golden is LangGraph's trace of a scenario, made in the directory of this package. It is
// os.ErrNotExist if the scenario is not played in that durability.
func Golden(scenario string, d pregel.Durability) ([]string, error) {
	text, err := os.ReadFile(filepath.Join("golden", scenario+"."+string(d)+".jsonl"))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), nil
}

// Differs compares two traces of a scenario but for the deliberate differences, and returns the
// first lines that differ; "" where a trace has ended.
func Differs(scenario string, d pregel.Durability, a, b []string) (inA, inB string, differ bool) {
	a, b = normalise(scenario, d, a), normalise(scenario, d, b)
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y && !sameJSON(x, y) {
			return x, y, true
		}
	}
	return "", "", false
}
