package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/group"
)

// call is a call of a program, as it went on the recording disk.
type call struct {
	what       string
	do         func(ctx context.Context, s full) error
	at         int // what the clock said
	start, end int // operations recorded when it began, and when it returned
}

// trace is a program that was run to its end on a recording disk, with the state
// of the model after each of its calls.
type trace struct {
	config
	steps  []step
	fs     *crashfs.FS
	calls  []call
	dumps  []string // dumps[k]: after the first k calls
	synced []mark   // what is durable from which operation on
	kinds  []kind   // by cut: what a crash there is about
	looked int      // fresh states looked at, those of recoveries included

	grouped int   // checkpoints that were stored at once
	patches int64 // values logged as patches
	older   int64 // values written to segments as patches
}

// mark says that from operation at on, the first calls are durable.
type mark struct{ at, calls int }

// run runs a program on disk and model side by side. Any difference without a
// crash is an error already.
func run(ctx context.Context, c config, steps []step) (*trace, error) {
	t := &trace{config: c, steps: steps, fs: crashfs.New()}
	r := runner{t: t, ctx: ctx, clk: &clock{}}
	r.model = newModel(r.clk)
	if err := r.begin(); err != nil {
		return t, err
	}
	t.label(kindManifest)
	if err := r.note(); err != nil {
		return t, err
	}
	for i := range steps {
		t.fs.Mark(fmt.Sprintf("step %d: %s", i, steps[i].what))
		if err := r.step(&steps[i]); err != nil {
			return t, fmt.Errorf("step %d, %s: %w", i, steps[i].what, err)
		}
		t.label(steps[i].kind)
	}
	if err := r.compare(); err != nil {
		return t, err
	}
	t.count(r.disk)
	if err := r.disk.Close(); err != nil {
		return t, err
	}
	t.label(kindManifest)
	return t, nil
}

type runner struct {
	t     *trace
	ctx   context.Context
	clk   *clock
	gate  *gate
	disk  *opened
	model full
}

func (r *runner) begin() (err error) {
	r.gate = &gate{FS: r.t.fs}
	if r.disk, err = r.t.open(r.gate, r.clk); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	r.durable()
	return nil
}

// durable notes that all calls so far survive from here on.
func (r *runner) durable() {
	r.t.synced = append(r.t.synced, mark{r.t.fs.Len(), len(r.t.calls)})
}

// note keeps the state of the model.
func (r *runner) note() error {
	d, err := dump(r.ctx, r.model)
	r.t.dumps = append(r.t.dumps, d)
	return err
}

func (r *runner) step(s *step) error {
	switch {
	case s.call != nil:
		return r.call(s)
	case s.group != nil:
		return r.group(s.group)
	case s.work != nil:
		if err := r.work(s); err != nil {
			return err
		}
		if s.kind == kindFlush {
			r.durable()
		}
		return nil
	case s.life == "rekey":
		if r.t.ring != nil {
			r.t.ring.turn()
		}
		return nil
	case s.life == "close":
		r.t.count(r.disk)
		if err := r.disk.Close(); err != nil {
			return err
		}
	default:
		r.t.count(r.disk)
		r.gate.dead = true
		r.t.fs.Kill()
		_ = r.disk.Close() // frees its goroutines; every operation fails
	}
	if err := r.begin(); err != nil {
		return err
	}
	if rep := r.disk.OpenReport(); rep.CleanClose != (s.life == "close") && len(r.t.calls) > 0 && s.life == "close" {
		return fmt.Errorf("clean close not seen: %+v", rep)
	}
	return r.compare()
}

// work lets the store work, with a call beside it if the step has one. What is
// stored before a segment is created is durable when its flush is over.
func (r *runner) work(s *step) error {
	var besideErr error
	if s.beside != nil {
		r.gate.beside = func() { besideErr = r.call(s.beside) }
		defer func() { r.gate.beside = nil }()
	}
	return errors.Join(s.work(r.ctx, r.disk.Saver), besideErr)
}

func (r *runner) call(s *step) error {
	c := call{what: s.what, do: s.call, start: r.t.fs.Len(), at: len(r.t.calls) + 1}
	r.clk.set(c.at)
	got := s.call(r.ctx, r.disk)
	c.end = r.t.fs.Len()
	r.t.calls = append(r.t.calls, c)
	if want := s.call(r.ctx, r.model); class(got) != class(want) {
		return fmt.Errorf("disk answers %v, model %v", got, want)
	}
	if s.what == "sync" {
		r.durable()
	}
	return r.note()
}

// group gives the disk saver several checkpoints at once. A crash leaves the first few of them. The
// first that is refused ends it.
func (r *runner) group(puts []step) error {
	var reqs []saver.PutRequest
	for _, s := range puts {
		reqs = append(reqs, s.req)
	}
	start, at := r.t.fs.Len(), len(r.t.calls)+1
	r.clk.set(at)
	n, got := group.Of(r.disk.Saver).PutGroup(r.ctx, reqs)
	end := r.t.fs.Len()
	for i, s := range puts {
		r.t.calls = append(r.t.calls, call{what: s.what, do: s.call, at: at, start: start, end: end})
		want := s.call(r.ctx, r.model)
		if i < n && want != nil || i == n && class(got) != class(want) {
			return fmt.Errorf("disk stores %d and answers %v, model %v to number %d", n, got, want, i)
		}
		if err := r.note(); err != nil || i == n {
			return err
		}
	}
	r.t.grouped += n
	return nil
}

func (r *runner) compare() error {
	got, err := dump(r.ctx, r.disk)
	if err != nil {
		return err
	}
	if want := r.t.dumps[len(r.t.dumps)-1]; got != want {
		return fmt.Errorf("without a crash: %s", difference(got, want))
	}
	return nil
}

// label says what crashes during the last step are about. The manifest is told
// by its name, rotation by the log file that gets its name.
func (t *trace) label(k kind) {
	from, to := len(t.kinds), t.fs.Len()
	if k == kindAppend {
		for i := from; i < to; i++ {
			if op := t.fs.Op(i); strings.HasPrefix(op, "rename") && strings.Contains(op, ".log") {
				k = kindRotation
			}
		}
	}
	for i := from; i < to; i++ {
		this := k
		if strings.Contains(t.fs.Op(i), "MANIFEST") {
			this = kindManifest
		}
		t.kinds = append(t.kinds, this)
	}
}

// kindOf is what a crash at a cut is about: the operation before it.
func (t *trace) kindOf(cut int) kind {
	if cut == 0 {
		return kindManifest
	}
	return t.kinds[cut-1]
}

// bounds are how many of the calls must, and can at most, have survived a crash
// at a cut.
func (t *trace) bounds(cut int) (lo, hi int) {
	for i, c := range t.calls {
		if t.mode == disk.SyncAlways && c.end <= cut {
			lo = i + 1
		}
		if c.start < cut {
			hi = i + 1
		}
	}
	for _, m := range t.synced {
		if m.at <= cut {
			lo = max(lo, m.calls)
		}
	}
	return min(lo, hi), hi
}

// matching are the numbers of calls between lo and hi after which the model was
// in this state.
func (t *trace) matching(got string, lo, hi int) []int {
	var ks []int
	for k := lo; k <= hi; k++ {
		if t.dumps[k] == got {
			ks = append(ks, k)
		}
	}
	return ks
}

// String is how to run the trace again.
func (t *trace) String() string {
	return fmt.Sprintf("seed %d, sync mode %v, encrypted %v\n%s", t.seed, t.mode, t.ring != nil, list(t.steps))
}

// traceOf is the trace of a seed: sync mode and program follow from it.
func traceOf(ctx context.Context, seed uint64) (*trace, error) {
	rng := rand.New(rand.NewPCG(seed, 0xc4a5))
	c := config{seed: seed, mode: []disk.SyncMode{disk.SyncAlways, disk.SyncAlways, disk.SyncNever, disk.SyncInterval}[seed%4]}
	g := newGenerator(rng)
	g.group = true
	g.names = append(g.names, g.names[0], g.names[0]) // one thread becomes longer, so that its values are patches
	steps := g.program(24 + rng.IntN(16))
	if seed%3 == 0 {
		c.ring, steps = new(ring), withRekeys(rng, steps)
	}
	return run(ctx, c, steps)
}

// count adds what a life of the store did.
func (t *trace) count(d *opened) {
	m := d.Metrics()
	t.patches, t.older = t.patches+m.Patches, t.older+m.SegmentPatches
}
