package crash

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// full is what both savers can do.
type full interface {
	saver.Saver
	saver.Eraser
}

// kind is what a crash state is about.
type kind int

const (
	kindAppend kind = iota
	kindRotation
	kindFlush
	kindCompaction
	kindImage
	kindManifest
	kindDelete
	kindErase
	kindRecovery
	numKinds
)

var kindNames = [numKinds]string{"append", "rotation", "flush", "compaction", "image", "manifest", "delete", "erase", "recovery"}

// step is one step of a program: a call that both savers answer, or something
// that only happens to the disk.
type step struct {
	what string
	kind kind
	// call is nil for a step that concerns the disk alone.
	call func(ctx context.Context, s full) error
	// group are checkpoints that the disk saver is given at once; each is a call of its own.
	group []step
	req   saver.PutRequest // of a step of group
	// life ends and begins the process: "close" or "kill".
	life string
	// work is done by the disk saver alone.
	work func(ctx context.Context, s *disk.Saver) error
	// beside is a call that comes while the work is at its file, or nil.
	beside *step
}

// generator makes random programs. It knows the ids it gave out, so that parents
// and forks make sense, but not what is stored: some calls are refused, by both
// savers alike.
type generator struct {
	rng   *rand.Rand
	id    int                 // of the next checkpoint
	ids   map[string][]string // by thread and namespace
	names []string            // threads
	big   int                 // size of the occasional large value
	runs  string              // what run ids begin with
	alone bool                // no items and no cache beside the checkpoints
	last  map[string][]byte   // by thread, namespace and channel: the value put last
	group bool                // some checkpoints come at once
}

func newGenerator(rng *rand.Rand) *generator {
	return &generator{rng: rng, ids: map[string][]string{}, last: map[string][]byte{}, names: []string{"a", "b", "c"}, big: 40_000, runs: "run"}
}

func (g *generator) thread() string { return g.names[g.rng.IntN(len(g.names))] }

func (g *generator) bytes(n int) saver.Value { return typedBytes(g.data(n)) }

func (g *generator) data(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.rng.Uint32() >> 28) // four random bits a byte: compressible
	}
	return b
}

func typedBytes(b []byte) saver.Value { return saver.ValueTyped(serde.Typed{Kind: "bytes", Data: b}) }

// next is a channel's next value: mostly the last one, with something added or
// replaced, so that the store makes patches; else one of its own.
func (g *generator) next(key string) saver.Value {
	b := slices.Clone(g.last[key])
	switch n := g.rng.IntN(10); {
	case n < 1 || len(b) < 64:
		b = g.data(g.size())
	case n < 6:
		b = append(b, g.data(g.rng.IntN(50))...)
	default:
		at := g.rng.IntN(len(b))
		b = slices.Replace(b, at, min(len(b), at+g.rng.IntN(30)), g.data(g.rng.IntN(30))...)
	}
	g.last[key] = b
	return typedBytes(b)
}

func (g *generator) checkpointID() string {
	g.id++
	return fmt.Sprintf("%06d", g.id)
}

// parent is mostly the newest id, sometimes an older one, sometimes none.
func (g *generator) parent(key string) string {
	ids := g.ids[key]
	switch n := g.rng.IntN(10); {
	case len(ids) == 0 || n == 0:
		return ""
	case n < 3:
		return ids[g.rng.IntN(len(ids))]
	}
	return ids[len(ids)-1]
}

// put stores a checkpoint: a new value for some channels, the parent's for the
// others, one made empty now and then.
func (g *generator) put() step {
	thread, ns := g.thread(), ""
	switch g.rng.IntN(5) {
	case 0:
		ns = "sub:1"
	case 1, 2: // often the same, so that its values go on and are patches
		thread = g.names[0]
	}
	key := thread + "/" + ns
	id, parent := g.checkpointID(), g.parent(key)
	if len(g.ids[key]) > 0 && g.rng.IntN(12) == 0 {
		id = g.ids[key][g.rng.IntN(len(g.ids[key]))] // once more
	} else {
		g.ids[key] = append(g.ids[key], id)
	}
	cp := saver.Checkpoint{V: 4, ID: id, TS: "2026-01-02T03:04:05+00:00",
		Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}}
	fresh := map[string]saver.Version{}
	for _, channel := range []string{"messages", "state", "trigger"} {
		if g.rng.IntN(4) == 0 {
			cp.Versions[channel] = saver.IntVersion(int64(g.rng.IntN(3)))
			continue // as the parent has it, if the version agrees
		}
		v := saver.IntVersion(int64(g.rng.IntN(3)))
		cp.Versions[channel], fresh[channel] = v, v
		if g.rng.IntN(6) > 0 {
			cp.Values[channel] = g.next(key + "/" + channel)
		}
	}
	cfg := saver.Config{ThreadID: thread, Namespace: ns, CheckpointID: parent}
	md := saver.Metadata{"source": "loop", "step": g.id, "run_id": fmt.Sprint(g.runs, g.rng.IntN(3))}
	req := saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: md, NewVersions: fresh}
	if g.rng.IntN(2) == 0 {
		req.Note = g.note()
	}
	if g.rng.IntN(4) == 0 {
		req.Writes = []saver.TaskWrites{{TaskID: "with", Writes: g.writes()}}
	}
	return step{what: fmt.Sprintf("put %s %s on %q", key, id, parent), kind: kindAppend, req: req,
		call: func(ctx context.Context, s full) error { _, err := s.PutRequest(ctx, req); return err }}
}

// note is what an engine may tell of a checkpoint.
func (g *generator) note() *saver.Note {
	n := &saver.Note{Graph: []string{"LangGraph", "a graph"}[g.rng.IntN(2)]}
	if g.rng.IntN(3) > 0 {
		n.Next = []string{"agent", "tools"}[:1+g.rng.IntN(2)]
		n.Stop = []saver.Stop{saver.StopNone, saver.StopBreakpoint, saver.StopSteps}[g.rng.IntN(3)]
	}
	if g.rng.IntN(3) == 0 {
		n.Deltas = []string{"messages"}
	}
	return n
}

// attempt counts an attempt at recovery. What it counts is not seen, but that the
// thread was written to is.
func (g *generator) attempt() step {
	thread := g.thread()
	return step{what: "count an attempt at " + thread, kind: kindAppend, call: func(ctx context.Context, s full) error {
		_, err := s.CountAttempt(ctx, saver.Config{ThreadID: thread})
		return err
	}}
}

func (g *generator) size() int {
	switch g.rng.IntN(12) {
	case 0:
		return g.big
	case 1:
		return 0
	}
	return g.rng.IntN(300)
}

func (g *generator) writes() []saver.Write {
	var out []saver.Write
	for range 1 + g.rng.IntN(2) {
		channel := []string{"messages", "__interrupt__", "__error__", "x"}[g.rng.IntN(4)]
		out = append(out, saver.Write{Channel: channel, Value: g.bytes(g.rng.IntN(200))})
	}
	return out
}

func (g *generator) putWrites() step {
	thread := g.thread()
	id := g.parent(thread + "/")
	if id == "" {
		id = fmt.Sprintf("%06d", g.id+1) // a checkpoint still to come
	}
	cfg, w, task := saver.Config{ThreadID: thread, CheckpointID: id}, g.writes(), fmt.Sprint("task", g.rng.IntN(3))
	return step{what: fmt.Sprintf("writes %s %s", thread, id), kind: kindAppend,
		call: func(ctx context.Context, s full) error { return s.PutWrites(ctx, cfg, w, task, "") }}
}

func (g *generator) deletion() step {
	thread := g.thread()
	switch g.rng.IntN(8) {
	case 5, 6:
		return g.setTTL()
	case 7:
		return step{what: "sweep", kind: kindDelete, call: func(ctx context.Context, s full) error {
			_, err := s.Sweep(ctx)
			return err
		}}
	case 0:
		run := fmt.Sprint(g.runs, g.rng.IntN(3))
		return step{what: "delete " + run, kind: kindDelete,
			call: func(ctx context.Context, s full) error {
				_, err := s.DeleteForRuns(ctx, []string{run}, nil)
				return err
			}}
	case 1:
		policy := saver.RetentionPolicy{ThreadIDs: []string{thread}, KeepLast: 1 + g.rng.IntN(3)}
		return step{what: fmt.Sprintf("retain %d of %s", policy.KeepLast, thread), kind: kindDelete,
			call: func(ctx context.Context, s full) error {
				_, err := s.Retain(ctx, policy, false)
				return err
			}}
	case 2:
		return step{what: "prune " + thread, kind: kindDelete,
			call: func(ctx context.Context, s full) error {
				_, err := s.Prune(ctx, []string{thread}, saver.KeepLatest)
				return err
			}}
	}
	return step{what: "delete " + thread, kind: kindDelete,
		call: func(ctx context.Context, s full) error { return s.DeleteThread(ctx, thread) }}
}

// setTTL gives a thread a TTL that passes within the program, mostly, by the clock of
// the calls, which goes on by a second with each.
func (g *generator) setTTL() step {
	thread, ttl := g.thread(), []time.Duration{3 * time.Second, 10 * time.Second, 0, saver.NoTTL}[g.rng.IntN(4)]
	return step{what: fmt.Sprintf("set the TTL of %s to %v", thread, ttl), kind: kindDelete,
		call: func(ctx context.Context, s full) error { return s.SetTTL(ctx, thread, ttl) }}
}

func (g *generator) copyThread() step {
	src, dst := g.thread(), g.thread()
	for _, ns := range []string{"", "sub:1"} {
		both := append(slices.Clone(g.ids[dst+"/"+ns]), g.ids[src+"/"+ns]...)
		slices.Sort(both)
		g.ids[dst+"/"+ns] = slices.Compact(both)
	}
	return step{what: fmt.Sprintf("copy %s to %s", src, dst), kind: kindAppend,
		call: func(ctx context.Context, s full) error { return s.CopyThread(ctx, src, dst) }}
}

func flushStep() step {
	return step{what: "flush", kind: kindFlush, work: func(ctx context.Context, s *disk.Saver) error { return s.Flush(ctx) }}
}

func imageStep() step {
	return step{what: "image", kind: kindImage, work: func(ctx context.Context, s *disk.Saver) error { return s.Inside().Engine.WriteImage(ctx) }}
}

func compactStep() step {
	return step{what: "compact", kind: kindCompaction, work: func(ctx context.Context, s *disk.Saver) error { return s.Compact(ctx) }}
}

func partStep() step {
	return step{what: "compact part", kind: kindCompaction, work: func(ctx context.Context, s *disk.Saver) error {
		_, err := s.Inside().Engine.CompactStep(ctx)
		return err
	}}
}

func lifeStep(how string) step { return step{what: how, kind: kindManifest, life: how} }

func syncStep() step {
	return step{what: "sync", kind: kindAppend, call: func(ctx context.Context, s full) error { return s.Sync(ctx) }}
}

// erase is a call that rewrites files: it waits for other work. It erases a thread, or
// several threads and items.
func (g *generator) erase() step {
	if !g.alone && g.rng.IntN(2) == 0 {
		return g.eraseSeveral()
	}
	return eraseStep([]string{g.thread()}, nil)
}

func (g *generator) eraseSeveral() step {
	prefix := [][]string{{"a"}, {"a", "b"}, {"b"}}[g.rng.IntN(3)]
	return eraseStep([]string{g.thread(), g.thread()}, [][]string{prefix})
}

func eraseStep(threads []string, prefixes [][]string) step {
	return step{what: fmt.Sprintf("erase threads %q and items %q", threads, prefixes), kind: kindErase, call: func(ctx context.Context, s full) error {
		if len(prefixes) == 0 {
			return s.Erase(ctx, threads...)
		}
		return s.(eraser).eraseAll(ctx, threads, prefixes)
	}}
}

// call is a random call.
func (g *generator) call() step {
	if g.rng.IntN(20) == 0 {
		return g.erase()
	}
	return g.quick()
}

// quick is a random call that may come while the store works.
func (g *generator) quick() step {
	switch n := g.rng.IntN(20); {
	case n < 7, n < 10 && g.alone:
		return g.put()
	case n < 9:
		return g.items()
	case n < 10:
		return g.entries()
	case n < 11:
		return g.attempt()
	case n < 15:
		return g.putWrites()
	case n < 17:
		return g.copyThread()
	case n < 19:
		return g.deletion()
	}
	return syncStep()
}

// beside gives a call to some of the steps of the store's own work.
func (g *generator) beside(s step) step {
	if g.rng.IntN(3) == 0 {
		c := g.quick()
		s.what, s.beside = fmt.Sprintf("%s, beside it %s", s.what, c.what), &c
	}
	return s
}

// program is n random steps.
func (g *generator) program(n int) []step {
	var steps []step
	for range n {
		switch k := g.rng.IntN(100); {
		case k < 10 && g.group:
			s := step{what: "at once", kind: kindAppend}
			for range 2 + g.rng.IntN(4) {
				put := g.put()
				s.what, s.group = s.what+", "+put.what, append(s.group, put)
			}
			steps = append(steps, s)
		case k < 70:
			steps = append(steps, g.call())
		case k < 77:
			steps = append(steps, g.beside(flushStep()))
		case k < 84:
			steps = append(steps, g.beside(imageStep()))
		case k < 87:
			steps = append(steps, g.beside(compactStep()))
		case k < 90:
			steps = append(steps, g.beside(partStep()))
		case k < 95:
			steps = append(steps, lifeStep("close"))
		default:
			steps = append(steps, lifeStep("kill"))
		}
	}
	return steps
}

// moreSteps are some calls on a recovered store, perhaps with work between.
func moreSteps(rng *rand.Rand) []step {
	g := newGenerator(rng)
	g.id = 20
	for i := range 20 { // ids the program before may have used
		key := g.thread() + "/"
		g.ids[key] = append(g.ids[key], fmt.Sprintf("%06d", i+1))
	}
	steps := []step{g.call(), g.call(), g.call()}
	work := []func() step{flushStep, imageStep, compactStep, partStep}
	if rng.IntN(2) == 0 {
		steps = slices.Insert(steps, rng.IntN(4), work[rng.IntN(4)]())
	}
	return steps
}

// list is a program, one step a line.
func list(steps []step) string {
	var b bytes.Buffer
	for i, s := range steps {
		fmt.Fprintf(&b, "%3d %s\n", i, s.what)
	}
	return b.String()
}
