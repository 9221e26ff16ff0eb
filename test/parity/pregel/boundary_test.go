package traces

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// newLife begins a life on a simulated disk: the first one, or the one after
// past.
func newLife(t failer, scenario string, d pregel.Durability, fs *crashfs.FS, p *past) *trace {
	rng := rand.New(rand.NewPCG(1, 2))
	return liveOn(t, scenario, d, p, &ledger{fs: fs}, func(random func() float64) (*disk.Saver, error) {
		return disk.Open("store", disk.Options{Random: random, LogFileSize: 64 << 10, Simulation: disk.Simulation{FS: fs, Rand: rng.Uint64, Inline: true}})
	})
}

// liveOn begins a life on the store that open opens.
func liveOn(t failer, scenario string, d pregel.Durability, p *past, led *ledger, open func(random func() float64) (*disk.Saver, error)) *trace {
	minted := 0
	if p != nil {
		minted = p.minted()
	}
	tr := newTrace(t, scenario, d, minted, func(random func() float64) saver.Saver {
		sv, err := open(random)
		if err != nil {
			t.Fatal(err)
		}
		led.Saver = sv
		return led
	})
	l := tr.life
	l.ledger, l.past, l.exits, l.ran = led, p, d == pregel.Exit, map[string]int{}
	if p != nil {
		l.deeds = p.deeds()
	}
	return tr
}

// goOn makes what is left of the scenario and returns every line of it.
func (tr *trace) goOn() {
	scenarios[tr.scenario](tr)
	tr.dump()
	if err := tr.life.ledger.Close(); err != nil {
		tr.t.Error(err)
	}
}

// tally counts what the boundaries showed.
type tally struct {
	mu                       sync.Mutex
	boundaries, begun, lines int
	again                    int // tasks whose output was stored, which did not run again
	skipped                  map[string]int
	resumption
}

// String is one line about the boundaries, and one for each reason not to compare.
func (s *tally) String() string {
	var b strings.Builder
	for _, why := range slices.Sorted(maps.Keys(s.skipped)) {
		fmt.Fprintf(&b, "not compared: %d: %s\n", s.skipped[why], why)
	}
	fmt.Fprintf(&b, "cut: %d boundaries, %d of them inside a run, %d lines after them equal, %d shown before, %d tasks replayed\n",
		s.boundaries, s.begun, s.lines, s.before, s.again)
	fmt.Fprintf(&b, "normalised: first shows where it stands %d, shows as cached what ended %d, shows what is stored beside the checkpoint %d, "+
		"begins with the handler of a failure %d, remembers what a resume passed %d, does not name calls of what ended %d, stores a delta channel whole %d",
		s.state, s.cached, s.pending, s.handled, s.marks, s.calls, s.whole)
	return b.String()
}

// TestBoundaries cuts the power at every boundary between one save and the next,
// opens the store again and goes on: what follows is LangGraph's trace of the run
// that nothing cut, ids included, to the last stored field.
//
// STELE_BOUNDARIES is at how many boundaries of a trace to cut, spread evenly; at
// all if there are less than twice as many. 0 cuts at all of them.
func TestBoundaries(t *testing.T) {
	few := uint64(6)
	if race.Enabled {
		few = 2
	}
	each := int(number(t, "STELE_BOUNDARIES", few))
	sum := tally{skipped: map[string]int{}}
	t.Run("all", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(scenarios)) {
			if endsWithProcess[name] != "" {
				continue
			}
			for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
				if _, err := os.Stat(goldenOf(name, d)); err != nil {
					continue
				}
				t.Run(name+"/"+string(d), func(t *testing.T) {
					t.Parallel()
					sum.scenario(t, name, d, each)
				})
			}
		}
	})
	fmt.Printf("scenarios: %d of %d\n%v\n", len(scenarios)-len(endsWithProcess), len(scenarios), &sum)
	for name := range endsWithProcess {
		if scenarios[name] == nil {
			t.Errorf("there is no scenario %q", name)
		}
	}
	if sum.again == 0 || sum.begun == 0 {
		t.Error("nothing was replayed")
	}
}

// endsWithProcess are the scenarios that another process cannot take up, by the
// reason.
var endsWithProcess = byScenario(map[string][]string{
	"a run of a thread of its own, inside a node, begins anew with the node": {"child_with_own_thread"},
	"the cache, the store or an untracked value is memory of the process":    {"node_cache", "functional_cache", "store_in_nodes", "untracked"},
	"the request to drain is memory of the process":                          {"drain", "drain_below", "drain_seen"},
	"it shows what its own functions counted in the process": {"two_handlers", "node_defaults", "functional_kept_calls",
		"lifecycle"},
	"its stream says which messages and debug events it has shown already": {"many_writes", "messages_of_nodes", "messages_without_ids",
		"messages_to_packets", "messages_in_parts", "functional_messages", "delta_messages"},
	"a run at a checkpoint inside goes on at the newest checkpoint, which does not say where graphs inside were told to stand": {"answers_at_places"},
	"its runs have a durability each":     {"delta_mixed_durability"},
	"one of its tasks waits for another":  {"handler_after_sibling"},
	"it runs for thousands of supersteps": {"delta_bound"},
})

func byScenario(reasons map[string][]string) map[string]string {
	out := map[string]string{}
	for why, names := range reasons {
		for _, n := range names {
			out[n] = why
		}
	}
	return out
}

func goldenOf(name string, d pregel.Durability) string {
	if d == pregel.Async {
		d = pregel.Sync
	}
	return filepath.Join("golden", name+"."+string(d)+".jsonl")
}

// wholeLife runs a scenario that nothing cuts, and compares it with LangGraph's
// trace.
func wholeLife(t *testing.T, name string, d pregel.Durability) *trace {
	t.Helper()
	golden, err := os.ReadFile(goldenOf(name, d))
	if err != nil {
		t.Fatal(err)
	}
	whole := newLife(t, name, d, crashfs.New(), nil)
	whole.goOn()
	if !compare(t, normalise(name, d, whole.lines), normalise(name, d, strings.Split(strings.TrimSpace(string(golden)), "\n"))) {
		t.FailNow()
	}
	return whole
}

// scenario compares what follows cuts of a scenario with the whole.
func (s *tally) scenario(t *testing.T, name string, d pregel.Durability, each int) {
	whole := wholeLife(t, name, d)
	acks := whole.life.ledger.acks
	stride := 1
	if each > 0 {
		stride = max(1, len(acks)/(each+1))
	}
	for k := stride; k <= len(acks) && !t.Failed(); k += stride {
		p := whole.life.crashedAfter(acks[:k])
		if why := p.incomparable(); why != "" {
			s.mu.Lock()
			s.skipped[why]++
			s.mu.Unlock()
			continue
		}
		for sv := range whole.life.ledger.fs.States(acks[k-1].at, crashfs.Options{MaxTorn: -1, MaxSingle: 1}) {
			tr := newLife(t, name, d, sv.FS(), p)
			func() {
				defer func() {
					if r := recover(); r != nil { // the scenario did not find what it looked for
						t.Fatalf("cut after save %s, in call %d: %v\n%s", p.boundary(), p.next, r, debug.Stack())
					}
				}()
				tr.goOn()
			}()
			s.compare(t, whole, tr, p)
			break
		}
	}
}

// compare compares a life after a crash with the whole.
func (s *tally) compare(t *testing.T, whole, tr *trace, p *past) {
	t.Helper()
	var from int
	for _, c := range whole.life.calls[:p.next] {
		from += len(c.lines)
	}
	got, want := slices.Clone(tr.lines[from:]), slices.Clone(whole.lines[from:])
	var r resumption
	replayed := 0
	if len(p.saved) > 0 {
		was, is := whole.life.calls[p.next].lines, tr.life.calls[p.next].lines
		a, b, found := sameRest(is, was, p)
		if r = found; slices.ContainsFunc(p.saved, func(a ack) bool { return a.handled }) {
			a, b, r = nil, nil, resumption{handled: len(a)}
		}
		got, want = append(a, got[len(is):]...), append(b, want[len(was):]...)
		replayed = p.ranAgain(t, tr)
	}
	r.sameStored(got, want, p)
	s.mu.Lock()
	s.boundaries++
	s.begun += b2i(len(p.saved) > 0)
	s.again += replayed
	s.lines += len(got)
	s.add(r)
	s.mu.Unlock()
	if !compare(t, got, want) {
		t.Logf("cut after save %s, in call %d", p.boundary(), p.next)
		if os.Getenv("STELE_BOUNDARY_TRACE") != "" {
			t.Logf("after the crash:\n%s\nof the whole:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// ranAgain checks that no task ran again whose output was stored, and returns how
// many such tasks there were.
func (p *past) ranAgain(t *testing.T, tr *trace) (stored int) {
	t.Helper()
	for _, a := range p.saved {
		if !a.ended || p.replays {
			continue
		}
		stored++
		if n := tr.life.ran[a.task]; n > 0 {
			t.Errorf("task %s ran %d times, though its output was stored", a.task, n)
		}
	}
	return stored
}
