package pregel_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/internal/vfs/crashfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
)

// newLife begins a life on a simulated disk: the first one, or the one after
// past.
func newLife(t *testing.T, scenario string, d pregel.Durability, fs *crashfs.FS, p *past) *trace {
	t.Helper()
	minted := 0
	if p != nil {
		minted = p.minted()
	}
	led := &ledger{fs: fs}
	tr := newTrace(t, scenario, d, minted, func(random func() float64) saver.Saver {
		rng := rand.New(rand.NewPCG(1, 2))
		opts := saver.Options{Random: random, LogFileSize: 64 << 10}
		disk, err := saver.OpenSimulated("store", opts, saver.Simulation{FS: fs, Rand: rng.Uint64, Inline: true})
		if err != nil {
			t.Fatal(err)
		}
		led.Disk = disk
		return led
	})
	tr.life.ledger, tr.life.past, tr.life.exits = led, p, d == pregel.Exit
	if p != nil {
		tr.life.deeds = p.deeds()
	}
	return tr
}

func (tr *trace) end() {
	if err := tr.life.ledger.Close(); err != nil {
		tr.t.Error(err)
	}
}

// tally counts what the boundaries showed.
type tally struct {
	boundaries, begun, lines int
	skipped                  map[string]int
	resumption
}

// TestBoundaries cuts the power at every boundary between one save and the next,
// opens the store again and goes on: what follows is LangGraph's trace of the run
// that nothing cut, ids included, to the last stored field.
func TestBoundaries(t *testing.T) {
	sum := tally{skipped: map[string]int{}}
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		if endsWithProcess[name] != "" {
			continue
		}
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
			if _, err := os.Stat(goldenOf(name, d)); err != nil {
				continue
			}
			t.Run(name+"/"+string(d), func(t *testing.T) { sum.scenario(t, name, d) })
		}
	}
	for why, n := range sum.skipped {
		fmt.Printf("not compared: %d: %s\n", n, why)
	}
	fmt.Printf("boundaries: %d cut, %d inside a run, lines after them: %d equal; shown before: %d, state shown again: %d, shown as cached: %d, shown with what is stored: %d\n",
		sum.boundaries, sum.begun, sum.lines, sum.before, sum.state, sum.cached, sum.pending)
}

// endsWithProcess are the scenarios that another process cannot take up, and
// why.
var endsWithProcess = map[string]string{
	"child_with_own_thread": "the run of a thread of its own, inside a node, begins anew with the node",
	"node_cache":            "the cache is memory of the process",
	"untracked":             "untracked values are memory of the process",
	"drain":                 "the request to drain is memory of the process",
}

func goldenOf(name string, d pregel.Durability) string {
	if d == pregel.Async {
		d = pregel.Sync
	}
	return filepath.Join("golden", name+"."+string(d)+".jsonl")
}

// scenario runs a scenario whole, compares it with LangGraph's trace, and then
// compares every cut of it with the whole.
func (s *tally) scenario(t *testing.T, name string, d pregel.Durability) {
	golden, err := os.ReadFile(goldenOf(name, d))
	if err != nil {
		t.Fatal(err)
	}
	whole := newLife(t, name, d, crashfs.New(), nil)
	scenarios[name](whole)
	whole.dump()
	whole.end()
	if !compare(t, normalise(name, d, whole.lines), normalise(name, d, strings.Split(strings.TrimSpace(string(golden)), "\n"))) {
		return
	}
	acks := whole.life.ledger.acks
	for k := 1; k <= len(acks); k++ {
		p := whole.life.crashedAfter(acks[:k])
		if why := p.incomparable(); why != "" {
			s.skipped[why]++
			continue
		}
		if !s.cut(t, whole, p, acks[k-1].at) && t.Failed() {
			return
		}
	}
}

func (s *tally) cut(t *testing.T, whole *trace, p *past, at int) bool {
	for state := range whole.life.ledger.fs.States(at, crashfs.Options{MaxTorn: -1, MaxSingle: 1}) {
		tr := newLife(t, whole.scenario, whole.durability, state.FS(), p)
		func() {
			defer func() {
				if r := recover(); r != nil {
					t.Fatalf("cut after save %s, in call %d: %v\n%s", p.boundary(), p.next, r, debug.Stack())
				}
			}()
			scenarios[whole.scenario](tr)
		}()
		tr.dump()
		tr.end()
		s.boundaries++
		return s.compare(t, whole, tr, p)
	}
	return false
}

// compare compares a life after a crash with the whole.
func (s *tally) compare(t *testing.T, whole, tr *trace, p *past) bool {
	t.Helper()
	var from int
	for _, c := range whole.life.calls[:p.next] {
		from += len(c.lines)
	}
	got, want := tr.lines[from:], whole.lines[from:]
	if len(p.saved) > 0 {
		s.begun++
		a, b, r := sameRest(tr.life.calls[p.next].lines, whole.life.calls[p.next].lines, p)
		if slices.ContainsFunc(p.saved, func(a ack) bool { return a.handled }) {
			a, b, r = nil, nil, resumption{handled: len(a)}
		}
		s.add(r)
		got = append(a, got[len(tr.life.calls[p.next].lines):]...)
		want = append(b, want[len(whole.life.calls[p.next].lines):]...)
	}
	s.sameStored(got, want, p)
	s.lines += len(got)
	if compare(t, got, want) {
		return true
	}
	t.Logf("cut after save %s, in call %d", p.boundary(), p.next)
	if os.Getenv("STELE_BOUNDARY_TRACE") != "" {
		t.Logf("after the crash:\n%s\nof the whole:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return false
}
