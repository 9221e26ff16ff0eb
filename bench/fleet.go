package bench

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/stele-go/stele/saver"
)

// Fleet is realistic data: threads whose steps have the shape that a graph of several
// nodes gives them. All ids are UUIDs of 36 characters. A version is 32 digits, a dot and 16 random
// digits, the same for all channels that a step changes. A checkpoint knows 9 to 14 channels,
// what 4 to 6 nodes saw of 3 to 8 channels each, and metadata of 6 keys. Its Values are the
// whole state, as an engine hands it over, and Changed says which are new.
//
// The first step sets all channels. Each later one changes 2 to 4: it sets a scalar, empties
// the one set before, and replaces up to two maps, about 2 KB a step on average. Beside each
// checkpoint lies one write of a map.
//
// Threads have ids of their own, and take turns with the state of a few recorded ones, so that
// the data of many threads fit into little memory. The first steps of a fleet are those of
// a longer one. Safe for concurrent use.
type Fleet struct {
	seed    uint64
	threads uint64
	runs    [][]Step
}

// fleetRuns is how many threads are recorded.
const fleetRuns = 16

// NewFleet makes the steps of so many threads from a seed.
func NewFleet(seed uint64, threads, steps int) *Fleet {
	f := &Fleet{seed: seed, threads: uint64(threads), runs: make([][]Step, min(threads, fleetRuns))}
	for i := range f.runs {
		f.runs[i] = NewData(f.mix('r', i, 0)).graph().record(steps)
	}
	return f
}

// Thread is the id of the t-th thread.
func (f *Fleet) Thread(t int) string {
	return uuid(f.mix('t', t, 0)&^0xf000|0x4000, f.mix('t', t, 1)>>2|1<<63)
}

// Task is the id of the task whose write lies beside a step.
func (f *Fleet) Task(t, n int) string {
	return uuid(f.mix('k', t, 2*n)&^0xf000|0x5000, f.mix('k', t, 2*n+1)>>2|1<<63)
}

// ID is the id of the checkpoint of a thread's n-th step, a UUIDv6: it grows with n, and
// threads step in turn. It is "" for the step before the first.
func (f *Fleet) ID(t, n int) string {
	if n < 0 {
		return ""
	}
	const began, apart = 0x1f0f51d34a2c7e0, 12_000 // in 100 ns, since 1582
	r := f.mix('i', t, n)
	tick := began + (uint64(n)*f.threads+uint64(t))*apart + r>>48%apart
	return uuid(tick>>12<<16|0x6000|tick&0xfff, 1<<63|uint64(n)&0x3fff<<48|r&(1<<48-1))
}

// Step is the n-th step of a thread. What it holds is shared, and must not be changed.
func (f *Fleet) Step(t, n int) Step {
	s := f.runs[t%len(f.runs)][n]
	s.Checkpoint.ID = f.ID(t, n)
	return s
}

// mix hashes what a random number is for.
func (f *Fleet) mix(what byte, t, n int) uint64 {
	x := f.seed
	for _, v := range [...]uint64{uint64(what), uint64(t), uint64(n)} { // SplitMix64
		x += v + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}

func uuid(high, low uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], high)
	binary.BigEndian.PutUint64(b[8:], low)
	var out [36]byte
	hex.Encode(out[:], b[:4])
	for _, part := range [...]struct{ at, from, to int }{{9, 4, 6}, {14, 6, 8}, {19, 8, 10}, {24, 10, 16}} {
		out[part.at-1] = '-'
		hex.Encode(out[part.at:], b[part.from:part.to])
	}
	return string(out[:])
}

// The names in a graph. The triggers take turns at being the scalar that is set, and the one
// that is emptied after it.
var (
	graphTriggers = [...]string{"branch:to:plan", "branch:to:act", "branch:to:check"}
	graphState    = [...]string{"messages", "plan", "documents", "tool_results", "summary", "profile", "budget", "route", "scratch", "review"}
	graphNodes    = [...]string{"__input__", "__start__", "plan", "act", "check", "respond"}
)

// graph is a thread that is being recorded: its state after the last step.
type graph struct {
	*Data
	runID, userID, graphID string

	state    []string            // the channels that hold maps
	reads    map[string][]string // of each node, the channels it sees
	nodes    []string
	versions map[string]saver.Version
	values   map[string]saver.Value
	seen     map[string]map[string]saver.Version
}

func (d *Data) graph() *graph {
	g := &graph{Data: d, runID: d.ID(), userID: d.ID(), graphID: d.ID(), state: graphState[:5+d.r.IntN(6)], nodes: graphNodes[:4+d.r.IntN(3)],
		reads: map[string][]string{}, versions: map[string]saver.Version{}, values: map[string]saver.Value{}, seen: map[string]map[string]saver.Version{}}
	known := slices.Concat([]string{"__start__"}, graphTriggers[:], g.state)
	for _, node := range g.nodes {
		d.r.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
		g.reads[node] = slices.Clone(known[:3+d.r.IntN(6)])
	}
	return g
}

func (g *graph) record(steps int) []Step {
	all := make([]Step, steps)
	for n := range all {
		all[n] = g.step(n)
	}
	return all
}

// step is one superstep: a node ran, saw the channels it reads, and changed some.
func (g *graph) step(n int) Step {
	before, version := g.versions, g.version(n+1)
	g.versions, g.values, g.seen = maps.Clone(g.versions), maps.Clone(g.values), maps.Clone(g.seen)
	changed := map[string]saver.Version{}
	change := func(channel string, v saver.Value) {
		changed[channel], g.versions[channel] = version, version
		if delete(g.values, channel); !v.IsZero() {
			g.values[channel] = v
		}
	}
	if n == 0 {
		for _, channel := range slices.Concat([]string{"__start__"}, graphTriggers[1:]) {
			change(channel, saver.Value{})
		}
		for _, channel := range g.state {
			change(channel, saver.ValueOf(g.object(stepBytes/len(g.state))))
		}
	}
	turns := len(graphTriggers)
	if n > 0 {
		change(graphTriggers[(n-1)%turns], saver.Value{})
		replaced := g.replaced()
		for _, i := range g.r.Perm(len(g.state))[:replaced] {
			change(g.state[i], saver.ValueOf(g.object(stepBytes*6/5/replaced)))
		}
	}
	change(graphTriggers[n%turns], saver.ValueOf(n))
	for i, node := range g.nodes {
		if n == 0 {
			g.seen[node] = g.sees(node, g.versions)
		} else if i == n%len(g.nodes) {
			g.seen[node] = g.sees(node, before)
		}
	}
	source := "loop"
	if n == 0 {
		source = "input"
	}
	write := saver.Write{Channel: g.state[g.r.IntN(len(g.state))], Value: saver.ValueOf(g.object(300))}
	return Step{Changed: changed, Writes: []saver.Write{write},
		Checkpoint: saver.Checkpoint{V: 4, TS: time.Date(2026, 1, 19, 10, 17, n, 498064000, time.UTC).Format("2006-01-02T15:04:05.000000-07:00"),
			Values: g.values, Versions: g.versions, Seen: g.seen, Updated: slices.Sorted(maps.Keys(changed))},
		Metadata: saver.Metadata{"source": source, "step": n - 1, "parents": map[string]any{}, "run_id": g.runID, "user_id": g.userID, "graph_id": g.graphID}}
}

// stepBytes is how much a step changes on average. One in six replaces no map at all, so the
// others replace more.
const stepBytes = 2000

// replaced is how many maps a step replaces: none in one step of six, one in three of six, two
// in two of six.
func (g *graph) replaced() int { return [...]int{0, 1, 1, 1, 2, 2}[g.r.IntN(6)] }

// sees is what a node sees of the channels it reads.
func (g *graph) sees(node string, versions map[string]saver.Version) map[string]saver.Version {
	m := make(map[string]saver.Version, len(g.reads[node]))
	for _, channel := range g.reads[node] {
		m[channel] = versions[channel]
	}
	return m
}

// object is a map of several kinds of values, of about so many bytes serialized.
func (g *graph) object(size int) map[string]any {
	const rest = 175 // everything but the text
	return map[string]any{
		"id": g.ID(), "kind": "result", "content": g.Text(max(8, size-rest)), "score": g.r.Float64(), "done": g.r.IntN(2) == 0,
		"tags": []any{words[g.r.IntN(len(words))], words[g.r.IntN(len(words))], words[g.r.IntN(len(words))]}, "error": nil,
		"usage": map[string]any{"prompt_tokens": g.r.IntN(5000), "completion_tokens": g.r.IntN(500)},
	}
}

// version is the n-th version as LangGraph mints it: its number, and a random fraction that
// tells versions of two runs apart.
func (g *graph) version(n int) saver.Version {
	v, err := saver.NextVersion(saver.IntVersion(int64(n-1)), g.r.Float64)
	if err != nil {
		panic(err) // an integer has a successor
	}
	return v
}
