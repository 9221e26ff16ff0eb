package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/saver"
)

// faultProgram is one fixed program with everything a store does in it.
func faultProgram() []step {
	g := newGenerator(rand.New(rand.NewPCG(7, 7)))
	var steps []step
	add := func(s ...step) { steps = append(steps, s...) }
	add(g.put(), g.put(), g.putWrites(), g.put(), imageStep(), g.put(), flushStep(), g.put(), g.putWrites())
	g.big = 50_000
	for range 3 {
		s := g.put()
		add(s)
	}
	add(g.copyThread(), g.deletion(), imageStep(), g.put(), lifeStep("close"), g.put(), flushStep(), g.put(), g.deletion())
	add(partStep(), g.put(), compactStep(), g.put(), g.items(), g.eraseSeveral(), g.putWrites(), imageStep(), lifeStep("kill"), g.put(), g.put(), lifeStep("close"), g.put())
	return steps
}

// faultRun is one run of the program with something failing.
type faultRun struct {
	ctx   context.Context
	rule  faultfs.Rule
	inj   *faultfs.Injector
	inner *crashfs.FS
	fs    *faultfs.FS
	gate  *gate
	disk  *opened
	clk   *clock
	ring  *ring // keys; nil: not encrypted

	model    *answers
	own      asked
	acked    history // the calls that were answered
	dump     string  // of the model after them
	maybe    int     // the call that met the fault and may have been kept; 0: none
	withDump string  // of the model, had that call been kept
	n        int     // calls so far
	errs     []error
	poisoned bool
	lives    []life
	begin    int            // the step the run begins with
	at       int            // the step under way
	refuses  []faultfs.Rule // those under which no file can be opened, also to be read
}

// life is where a life of the program begins, after a Close.
type life struct {
	step  int // the Close
	disk  vfs.MemImage
	ops   map[faultfs.Op]int
	acked history
	dump  string
	n     int
}

// skip takes up the program at the life that the fault is in. What comes before is
// as in the run without a fault.
func (r *faultRun) skip(lives []life) {
	for _, l := range slices.Backward(lives) {
		if l.ops[r.rule.Op] >= r.rule.N {
			continue
		}
		rule := r.rule
		rule.N -= l.ops[rule.Op]
		r.inj = faultfs.NewInjector(rule)
		r.inner = crashfs.NewFrom(vfs.NewMemFrom(l.disk, vfs.MemOptions{}))
		r.fs = faultfs.New(r.inner, r.inj)
		r.begin, r.acked, r.dump, r.n = l.step+1, l.acked, l.dump, l.n
		return
	}
}

// noFault is the rule of a run in which nothing fails.
var noFault = faultfs.Rule{N: 1 << 30}

func newFaultRun(rule faultfs.Rule, a *answers) *faultRun {
	r := &faultRun{ctx: context.Background(), rule: rule, inj: faultfs.NewInjector(rule), inner: crashfs.New(), clk: &clock{}, model: a}
	r.fs = faultfs.New(r.inner, r.inj)
	return r
}

func (r *faultRun) open() error {
	r.gate = &gate{FS: r.fs}
	d, err := config{seed: 1, ring: r.ring}.open(r.gate, r.clk)
	if err == nil {
		r.disk = d
		return nil
	}
	r.errs = append(r.errs, err)
	if !strings.Contains(err.Error(), "injected fault") {
		return fmt.Errorf("open fails for another reason: %w", err)
	}
	// The machine is well again: the store must open, and be as it was.
	r.inj.Set()
	r.refuses = nil
	r.gate = &gate{FS: r.fs}
	if r.disk, err = (config{seed: 2, ring: r.ring}).open(r.gate, r.clk); err != nil {
		return fmt.Errorf("open after a failed open: %w", err)
	}
	return nil
}

// says is what the model says after some calls.
func (r *faultRun) says(h history) answer {
	a, err := r.model.after(r.ctx, &r.own, h)
	if err != nil {
		panic(err) // a model has no disk to fail
	}
	return a
}

func (r *faultRun) step(s step) error {
	switch {
	case s.call != nil:
		return r.call(s)
	case s.work != nil:
		if err := s.work(r.ctx, r.disk.Saver); err != nil {
			return r.failed(err)
		}
		return nil
	case s.life == "kill":
		r.gate.dead = true
		r.inner.Kill()
		_ = r.disk.Close()
	default:
		if err := r.disk.Close(); err != nil {
			r.errs = append(r.errs, err)
		}
		r.lives = append(r.lives, life{step: r.at, disk: r.inner.Mem().Image(), ops: r.inj.Ops(), acked: r.acked, dump: r.dump, n: r.n})
	}
	r.poisoned = false
	if err := r.open(); err != nil {
		return err
	}
	return r.settle()
}

// settle finds out whether the call that met the fault was kept.
func (r *faultRun) settle() error {
	got, err := dump(r.ctx, r.disk)
	if err != nil {
		if strings.Contains(err.Error(), "injected fault") {
			r.errs = append(r.errs, err)
			got, err = dump(r.ctx, r.disk)
		}
		if err != nil {
			return fmt.Errorf("read after the fault: %w", err)
		}
	}
	switch {
	case got == r.dump:
	case r.maybe > 0 && got == r.withDump:
		r.acked, r.dump = r.acked.with(r.maybe), got
	default:
		return fmt.Errorf("after the fault: %s", difference(got, r.dump))
	}
	r.maybe = 0
	return nil
}

func (r *faultRun) call(s step) error {
	r.n++
	r.model.number(r.n, call{what: s.what, do: s.call})
	r.clk.set(r.n)
	got, next := s.call(r.ctx, r.disk), r.acked.with(r.n)
	if got == nil || !strings.Contains(got.Error(), "injected fault") {
		want := r.says(next)
		switch {
		case class(got) != want.class:
			return fmt.Errorf("%s: disk answers %w, model %s", s.what, got, want.class)
		case r.poisoned && want.dump != r.dump:
			return fmt.Errorf("%s succeeds on a poisoned store", s.what)
		}
		r.acked, r.dump = next, want.dump
		return nil
	}
	if errors.Is(got, saver.ErrEraseUnfinished) { // the thread is deleted all the same
		r.acked, r.dump = next, r.says(next).dump
		r.poisoned = errors.Is(got, fault.ErrPoisoned)
		return r.failed(got)
	}
	if errors.Is(got, fault.ErrPoisoned) && !r.poisoned {
		r.poisoned, r.maybe, r.withDump = true, r.n, r.says(next).dump
	}
	return r.failed(got)
}

// failed checks an error that the fault caused: it is named, and reads go on,
// showing what was acknowledged.
func (r *faultRun) failed(err error) error {
	r.errs = append(r.errs, err)
	if r.inj.Count() == 0 {
		return fmt.Errorf("fails without a fault: %w", err)
	}
	if !strings.Contains(err.Error(), "injected fault") {
		return fmt.Errorf("does not name the fault: %w", err)
	}
	if h := r.disk.Health(); errors.Is(err, fault.ErrPoisoned) && (h.Status != metrics.StatusFailed ||
		!slices.ContainsFunc(h.Problems, func(p metrics.Problem) bool { return p.Kind == metrics.TroublePoisoned })) {
		return fmt.Errorf("health is %v, %+v, after %w", h.Status, h.Problems, err)
	}
	if slices.Contains(refusals, r.rule.Err) && errors.Is(err, fault.ErrPoisoned) {
		return fmt.Errorf("poisoned by what changed nothing: %w", err)
	}
	if len(r.errs) > 3 {
		return nil // looked at often enough; the end is looked at again
	}
	if r.refuses != nil {
		r.inj.Set()
		defer func() { r.inj.Set(r.refuses...) }()
	}
	got, derr := dump(r.ctx, r.disk)
	if derr != nil && strings.Contains(derr.Error(), "injected fault") {
		got, derr = dump(r.ctx, r.disk)
	}
	if derr != nil {
		return fmt.Errorf("reads do not go on after %w: %w", err, derr)
	}
	if got != r.dump {
		return fmt.Errorf("after %w: %s", err, difference(got, r.dump))
	}
	return nil
}

// end closes the store, lets what failed syncs lost go, and looks at it again;
// and at what a power failure at the end would leave.
func (r *faultRun) end() error {
	cut := r.inner.Len()
	if err := r.disk.Close(); err != nil {
		r.errs = append(r.errs, err)
	}
	r.inj.Set()
	for _, at := range []int{cut, r.inner.Len()} {
		for s := range r.inner.States(at, crashfs.Options{MaxTorn: -1, MaxSingle: 1}) {
			if err := r.reopened(s.FS()); err != nil {
				return fmt.Errorf("power failure after the fault: %w\n%v", err, s)
			}
			break // the first is "all dropped"
		}
	}
	if _, err := r.fs.DropLost(); err != nil {
		return err
	}
	if err := r.reopened(crashfs.NewFrom(r.inner.Mem())); err != nil {
		return fmt.Errorf("reopened: %w", err)
	}
	return nil
}

func (r *faultRun) reopened(fsys *crashfs.FS) error {
	d, err := config{seed: 3, ring: r.ring}.open(fsys, r.clk)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	got, err := dump(r.ctx, d)
	if err != nil {
		return err
	}
	if got != r.dump && (r.maybe == 0 || got != r.withDump) {
		return fmt.Errorf("not what was acknowledged: %s", difference(got, r.dump))
	}
	left, err := orphans(fsys, r.ring)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("orphans: %v", left)
	}
	return err
}

func (r *faultRun) run(steps []step) error {
	if err := r.open(); err != nil {
		return err
	}
	dropped := r.rule.N%2 == 0 // else at the end
	if r.begin > 0 {
		if err := r.settle(); err != nil {
			return err
		}
		steps = steps[r.begin:]
	}
	for i, s := range steps {
		r.at = r.begin + i
		if err := r.step(s); err != nil {
			_ = r.disk.Close()
			return fmt.Errorf("step %d, %s: %w", r.at, s.what, err)
		}
		if r.inj.Count() > 0 && !dropped {
			// Memory is short: what a failed sync marked clean is read from the
			// disk from here on.
			dropped = true
			if _, err := r.fs.DropLost(); err != nil {
				return err
			}
		}
	}
	return r.end()
}

// variants are the ways in which an operation of a kind can fail.
func variants(op faultfs.Op) []faultfs.Rule {
	rules := []faultfs.Rule{{Err: syscall.EIO}}
	switch op {
	case faultfs.OpWriteAt:
		rules = append(rules, faultfs.Rule{Err: syscall.ENOSPC}, faultfs.Rule{Err: syscall.ENOSPC, Short: true},
			faultfs.Rule{Err: syscall.EIO, Short: true}, faultfs.Rule{Err: syscall.EIO, After: true}, faultfs.Rule{Err: syscall.EINTR, Short: true})
	case faultfs.OpReadAt:
		rules = append(rules, faultfs.Rule{Err: syscall.EIO, Short: true}, faultfs.Rule{Err: syscall.EINTR})
	case faultfs.OpCreate, faultfs.OpRename, faultfs.OpTruncate:
		rules = append(rules, faultfs.Rule{Err: syscall.ENOSPC}, faultfs.Rule{Err: syscall.EIO, After: true})
	case faultfs.OpSync, faultfs.OpSyncData:
		rules = append(rules, faultfs.Rule{Err: syscall.EIO, LoseData: true}, faultfs.Rule{Err: syscall.ENOSPC, LoseData: true},
			faultfs.Rule{Err: syscall.EIO, After: true})
	case faultfs.OpSyncDir, faultfs.OpRemove:
		rules = append(rules, faultfs.Rule{Err: syscall.EIO, After: true})
	}
	if slices.Contains(opening, op) {
		rules = append(rules, faultfs.Rule{Err: errRefusal})
	}
	return rules
}

// rules are the faults to inject one at a time, given how many operations of each
// kind there are: EIO into every operation that changes something, every sync that
// loses what it was to write, EIO into about four times most of the others, and of the
// other ways about most for each kind and way.
func rules(ops map[faultfs.Op]int, most int, rng *rand.Rand) []faultfs.Rule {
	var out []faultfs.Rule
	for _, op := range faultfs.Kinds() {
		for i, rule := range variants(op) {
			stride := max(1, ops[op]/most)
			switch {
			case race.Enabled:
			case i == 0 && !op.IsWrite():
				stride = max(1, ops[op]/(4*most))
			case i == 0, rule.LoseData && rule.Err == syscall.EIO:
				stride = 1
			}
			for n := 1 + rng.IntN(stride); n <= ops[op]; n += stride {
				rule := rule
				rule.Op, rule.N = op, n
				if rule.Err == errRefusal {
					rule.Err = refusals[n%len(refusals)]
				}
				out = append(out, rule)
			}
		}
	}
	return out
}

// faultCounts is what came of the faults.
type faultCounts struct {
	mu                       sync.Mutex
	runs, reported, harmless int
	harmlessKinds            map[string]int
	sites                    map[string]bool
}

func (c *faultCounts) add(rule faultfs.Rule, r *faultRun) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	c.sites[fmt.Sprint(rule.Op, rule.N)] = true
	if len(r.errs) > 0 {
		c.reported++
		return
	}
	c.harmless++
	c.harmlessKinds[rule.Op.String()]++
}

// TestFaults fails every operation of a fixed program, one in each run, and a sample
// of them in other ways than by EIO. Each fault is reported by a call,
// or does no harm: in both cases the reopened store holds what was acknowledged,
// also after a power failure.
//
// FAULTS_PER_KIND sets the size of the samples; with a large number every operation
// fails in every way.
func TestFaults(t *testing.T) {
	steps := faultProgram()
	model := newAnswers()
	dry := newFaultRun(noFault, model)
	if err := dry.run(steps); err != nil {
		t.Fatalf("without a fault: %v\n%s", err, list(steps))
	}
	seed, most := seedFrom(t, "FAULT_SEED"), envInt(t, "FAULTS_PER_KIND", defaultFaults)
	c := faultCounts{harmlessKinds: map[string]int{}, sites: map[string]bool{}}
	err := parallel(rules(dry.inj.Ops(), most, rand.New(rand.NewPCG(seed, 1))), func(rule faultfs.Rule) error {
		r := newFaultRun(rule, model)
		r.skip(dry.lives)
		err := r.run(steps)
		if err != nil {
			return fmt.Errorf("%+v, %v: %w\nreported: %w", rule, r.inj.Last(), err, errors.Join(r.errs...))
		}
		if r.inj.Count() > 0 {
			c.add(rule, r)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("repeat with FAULT_SEED=%d FAULTS_PER_KIND=%d go test ./test/crash -run '^TestFaults$'\n%v\n%s", seed, most, err, list(steps))
	}
	t.Logf("harmless: %v", c.harmlessKinds)
	line := fmt.Sprintf("faults: %d runs at %d sites, %d reported, %d harmless, 0 swallowed", c.runs, len(c.sites), c.reported, c.harmless)
	fmt.Println(line)
	t.Log(line)
}

// TestDiskFull lets the device be full for a while, beginning at every write in
// turn: calls are refused with ErrDiskFull, reads go on, and when there is room
// again writes go on without a reopening.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	steps := slices.DeleteFunc(faultProgram(), func(s step) bool { return s.life != "" })
	model := newAnswers()
	dry := newFaultRun(noFault, model)
	if err := dry.run(steps); err != nil {
		t.Fatal(err)
	}
	refused, resumed := 0, 0
	stride := 1
	if race.Enabled {
		stride = 8
	}
	for n := 1; n <= dry.inj.Ops()[faultfs.OpWriteAt]+dry.inj.Ops()[faultfs.OpCreate]; n += stride {
		// The log and what flush, image and compaction make; the manifest writes
		// into room it has.
		r := newFaultRun(noFault, model)
		r.inj.Set()
		if err := r.open(); err != nil {
			t.Fatal(err)
		}
		r.inj.Set(full4(n)...)
		fullFor := 0
		for i, s := range steps {
			if err := r.step(s); err != nil {
				t.Fatalf("full from the %d-th write on: step %d, %s: %v", n, i, s.what, err)
			}
			if len(r.errs) == 0 {
				continue
			}
			if fullFor++; fullFor == 3 {
				r.inj.Set() // somebody made room
			}
		}
		for _, err := range r.errs {
			if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, fault.ErrPoisoned) {
				t.Fatalf("full from the %d-th write on: %v", n, err)
			}
		}
		if r.poisoned {
			t.Fatalf("full from the %d-th write on: poisoned", n)
		}
		if len(r.errs) > 0 {
			refused++
		}
		r.inj.Set()
		before := len(r.acked)
		if err := r.step(step{what: "resume", call: func(ctx context.Context, s full) error {
			return s.PutWrites(ctx, saver.Config{ThreadID: "resumed", CheckpointID: "1"}, []saver.Write{{Channel: "c", Value: saver.ValueOf("v")}}, "t", "")
		}}); err != nil {
			t.Fatal(err)
		}
		if len(r.acked) == before+1 {
			resumed++
		} else {
			t.Fatalf("full from the %d-th write on: writes do not go on: %v", n, r.errs[len(r.errs)-1])
		}
		if err := r.end(); err != nil {
			t.Fatalf("full from the %d-th write on: %v", n, err)
		}
	}
	line := fmt.Sprintf("disk full: %d runs, %d with refusals, %d resumed", resumed, refused, resumed)
	fmt.Println(line)
	t.Log(line)
}

// full4 are the rules of a full device from the n-th write of a growing file on.
func full4(n int) []faultfs.Rule {
	var rules []faultfs.Rule
	for _, op := range []faultfs.Op{faultfs.OpWriteAt, faultfs.OpCreate} {
		for _, glob := range []string{"*.log", "*.seg", "*.img", "MANIFEST-*.tmp"} {
			rules = append(rules, faultfs.Rule{Op: op, PathGlob: filepath.Base(glob), N: n, Sticky: true, Err: syscall.ENOSPC})
		}
	}
	return rules
}
