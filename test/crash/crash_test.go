package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/snapshot"
)

// hunter explores the crash states of traces and counts the distinct ones.
// Several goroutines may, each its own traces.
type hunter struct {
	ctx context.Context

	mu      sync.Mutex
	seen    map[uint64]bool
	counts  [numKinds]int
	total   int
	rebuilt int   // states also opened without their images
	patches int64 // values the programs logged as patches
	grouped int   // checkpoints that they stored at once
	older   int64 // and wrote to segments as patches

	finished int // states whose unfinished erasures were finished

	oracle oracle
}

func newHunter() *hunter {
	return &hunter{ctx: context.Background(), seen: map[uint64]bool{}}
}

// fresh reports whether a state was not met before, and counts it.
func (h *hunter) fresh(tr *trace, s crashfs.State, k kind) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen[s.Fingerprint()] {
		return false
	}
	h.seen[s.Fingerprint()] = true
	h.counts[k]++
	h.total++
	tr.looked++
	return true
}

// found is how many states there were.
func (h *hunter) found() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total
}

// lacks reports whether there is a kind of which no state was found.
func (h *hunter) lacks() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.counts[:], 0)
}

func (h *hunter) table() string {
	var b strings.Builder
	for k, n := range h.counts {
		fmt.Fprintf(&b, "%s %d, ", kindNames[k], n)
	}
	return b.String()
}

// explore looks at crash states of a trace, about as many as asked for, kinds in
// turn.
func (h *hunter) explore(tr *trace, states int) error {
	h.mu.Lock()
	h.patches, h.older, h.grouped = h.patches+tr.patches, h.older+tr.older, h.grouped+tr.grouped
	h.mu.Unlock()
	rng := rand.New(rand.NewPCG(tr.seed, 0xe4))
	cuts := map[kind][]int{}
	for _, cut := range rng.Perm(tr.fs.Len() + 1) {
		k := tr.kindOf(cut)
		cuts[k] = append(cuts[k], cut)
	}
	for left := true; left && tr.looked < states; {
		left = false
		for k := range numKinds {
			if len(cuts[k]) == 0 {
				continue
			}
			left = true
			cut := cuts[k][0]
			cuts[k] = cuts[k][1:]
			if err := h.cut(tr, cut, rng); err != nil {
				return fmt.Errorf("%w\n%v", err, tr)
			}
		}
	}
	return nil
}

// statesPerCut bounds the states that are looked at of one cut.
const statesPerCut = 6

func (h *hunter) cut(tr *trace, cut int, rng *rand.Rand) error {
	o := crashfs.Options{Seed: rng.Uint64(), Random: 3, MaxTorn: 2, MaxSingle: 4, Adversarial: rng.IntN(2) == 0}
	lo, hi := tr.bounds(cut)
	var chosen []crashfs.State
	n := 0
	for s := range tr.fs.States(cut, o) {
		// The first is "all dropped", the likeliest to lose something.
		if n++; len(chosen) < statesPerCut {
			chosen = append(chosen, s)
		} else if i := rng.IntN(n); i > 0 && i < statesPerCut {
			chosen[i] = s
		}
	}
	for _, s := range chosen {
		if !h.fresh(tr, s, tr.kindOf(cut)) {
			continue
		}
		c := check{h: h, tr: tr, rng: rng}
		if err := c.state(s, lo, hi, true); err != nil {
			return fmt.Errorf("%w\ncalls: %v\n%v", err, tr.standings(cut), s)
		}
	}
	return nil
}

// check looks at one disk.
type check struct {
	h    *hunter
	tr   *trace
	rng  *rand.Rand
	lost bool // images were taken away: rebuilding the index is right
}

// state opens the store on a disk that a crash left, and holds it to the
// promises: the first lo calls are there, at most hi, all or nothing each. With
// deeper it goes on: crashes of the recovery, more calls, crashes after those,
// close and open.
func (c *check) state(s crashfs.State, lo, hi int, deeper bool) error {
	fsys, clk := s.FS(), &clock{}
	d, err := c.tr.open(fsys, clk)
	if err != nil {
		return fmt.Errorf("open after the crash: %w", err)
	}
	defer func() { _ = d.Close() }() // a second Close does nothing
	opened := fsys.Len()
	ks, err := c.opened(d, fsys, lo, hi)
	if err != nil || !deeper {
		return err
	}
	if err := c.erasures(d, lo, hi, c.tr.dumps[ks[0]]); err != nil {
		return deleted.broken("%w", err)
	}
	if c.rng.IntN(4) == 0 {
		if err := c.withoutImages(s, lo, hi); err != nil {
			return fmt.Errorf("without the images: %w", err)
		}
	}
	more := c.rng.IntN(3) == 0
	if more {
		if ks, err = c.goOn(d, fsys, clk, ks); err != nil {
			return fmt.Errorf("after the crash: %w", err)
		}
	}
	if c.rng.IntN(3) == 0 && !more {
		if err := c.again(fsys, opened, lo, hi, ks[0]); err != nil {
			return fmt.Errorf("second crash: %w", err)
		}
	}
	if err := d.Close(); err != nil {
		return fmt.Errorf("close after the crash: %w", err)
	}
	if more {
		return nil
	}
	return c.idempotent(fsys, ks[0], hi)
}

// opened checks what an open store shows.
func (c *check) opened(d *opened, fsys *crashfs.FS, lo, hi int) ([]int, error) {
	got, err := dump(c.h.ctx, d)
	if err != nil {
		return nil, moment.broken("%w", err)
	}
	ks, err := c.tr.judge(&c.h.oracle, got, lo, hi)
	if err != nil {
		return nil, err
	}
	if err := c.sane(d.OpenReport(), fsys); err != nil {
		return nil, damageNamed.broken("%w", err)
	}
	c.h.oracle.held(damageNamed)
	return ks, nil
}

// sane checks the report of an Open after a crash: a crash damages nothing, and
// leaves nothing behind.
func (c *check) sane(r metrics.OpenReport, fsys *crashfs.FS) error {
	switch {
	case r.IndexRebuilt && !c.lost:
		return fmt.Errorf("the crash cost the index: %s", r.RebuildReason)
	case len(r.Damage)+len(r.UnknownFiles) > 0:
		return fmt.Errorf("report after a crash: damage %v, unknown files %v", r.Damage, r.UnknownFiles)
	case (r.DroppedBytes > 0) != (r.DroppedFile != ""), r.DroppedBytes < 0:
		return fmt.Errorf("report: dropped %d bytes of %q", r.DroppedBytes, r.DroppedFile)
	case r.CleanClose && r.DroppedBytes > 0:
		return fmt.Errorf("report: closed in order, yet %d bytes dropped of %s", r.DroppedBytes, r.DroppedFile)
	}
	left, err := orphans(fsys, c.tr.ring)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("orphans after the open: %v", left)
	}
	return nil
}

// idempotent opens the closed store once more.
func (c *check) idempotent(fsys *crashfs.FS, k, hi int) error {
	d, err := c.tr.open(fsys, &clock{})
	if err != nil {
		return fmt.Errorf("open, close, open: %w", err)
	}
	defer func() { _ = d.Close() }()
	if _, err := c.opened(d, fsys, k, hi); err != nil {
		return fmt.Errorf("open, close, open: %w", err)
	}
	r := d.OpenReport()
	if !r.CleanClose || r.Rewritten > 0 || r.Replayed > 0 || len(r.RemovedFiles) > 0 {
		return fmt.Errorf("open, close, open: report %+v", r)
	}
	return d.Close()
}

// withoutImages opens the disk without the saved index, which is derived: with
// segments and log alone everything is there all the same.
func (c *check) withoutImages(s crashfs.State, lo, hi int) error {
	fsys, clk := s.FS(), &clock{}
	lost, err := removeImages(fsys, c.tr.ring)
	if err != nil || lost == 0 {
		return err
	}
	d, err := c.tr.open(fsys, clk)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	c.h.mu.Lock()
	c.h.rebuilt++
	c.h.mu.Unlock()
	c.lost = true
	defer func() { c.lost = false }()
	got, err := dump(c.h.ctx, d)
	if err != nil {
		return err
	}
	ks, err := c.tr.judge(&c.h.oracle, got, lo, hi)
	if err != nil {
		return deleted.broken("%w", err)
	}
	c.h.oracle.held(deleted)
	if !d.OpenReport().IndexRebuilt {
		return fmt.Errorf("%d images lost, and not reported", lost)
	}
	_, err = c.goOn(d, fsys, clk, ks)
	return err
}

// removeImages removes the images the manifest names, and reports how many.
func removeImages(fsys *crashfs.FS, keys *ring) (int, error) {
	st, _, err := keys.load(fsys)
	if errors.Is(err, snapshot.ErrNoManifest) {
		return 0, nil
	}
	for _, im := range st.Images {
		if err := fsys.Remove(filepath.Join(dir, base.ImageFile.Name(im.Num))); err != nil {
			return 0, err
		}
	}
	return len(st.Images), err
}

// again crashes during the recovery, and at its end. What was shown once must
// not go away: at the end of the recovery, k calls were.
func (c *check) again(fsys *crashfs.FS, opened, lo, hi, k int) error {
	for range 3 {
		cut := c.rng.IntN(opened + 1)
		if c.rng.IntN(3) == 0 {
			cut = opened
		}
		low := lo
		if cut == opened {
			low = k
		}
		if err := c.few(fsys, cut, 2, func(s crashfs.State) error { return c.state(s, low, hi, false) }); err != nil {
			return err
		}
	}
	return nil
}

// few looks at some fresh states of a cut; the first is "all dropped".
func (c *check) few(fsys *crashfs.FS, cut, n int, look func(crashfs.State) error) error {
	o := crashfs.Options{Seed: c.rng.Uint64(), Random: 2, MaxTorn: 1, MaxSingle: 2, Adversarial: c.rng.IntN(2) == 0}
	skip := 0
	for s := range fsys.States(cut, o) {
		if skip--; skip >= 0 || !c.h.fresh(c.tr, s, kindRecovery) {
			continue
		}
		if err := look(s); err != nil {
			return fmt.Errorf("%w\n%v", err, s)
		}
		if n--; n == 0 {
			return nil
		}
		skip = c.rng.IntN(4)
	}
	return nil
}

// goOn makes more calls on the recovered store and on models of the states it may
// be in; of these, those stay that answer alike. Then it crashes once more.
func (c *check) goOn(d *opened, fsys *crashfs.FS, clk *clock, ks []int) ([]int, error) {
	steps := moreSteps(c.rng)
	var answers []string
	now := len(c.tr.calls) + 1000
	for i, s := range steps {
		clk.set(now + i)
		if s.work != nil {
			if err := s.work(c.h.ctx, d.Saver); err != nil {
				return nil, fmt.Errorf("%s: %w", s.what, err)
			}
			continue
		}
		answers = append(answers, class(s.call(c.h.ctx, d)))
	}
	got, err := dump(c.h.ctx, d)
	if err != nil {
		return nil, err
	}
	why := ""
	ks = slices.DeleteFunc(slices.Clone(ks), func(k int) bool {
		reason := c.differs(k, steps, now, answers, got)
		if reason != "" {
			why = reason
		}
		return reason != ""
	})
	if len(ks) == 0 {
		return nil, goesOn.broken("more calls\n%s%s", list(steps), why)
	}
	c.h.oracle.held(goesOn)
	if c.tr.mode != disk.SyncAlways {
		if err := d.Sync(c.h.ctx); err != nil {
			return nil, err
		}
	}
	return ks, c.few(fsys, fsys.Len(), 2, func(s crashfs.State) error { return c.same(s, got) })
}

// differs runs the calls on the model after k calls.
func (c *check) differs(k int, steps []step, now int, answers []string, got string) string {
	m, clk := replayed(c.h.ctx, c.tr.calls, k)
	n := 0
	for i, s := range steps {
		if s.call == nil {
			continue
		}
		clk.set(now + i)
		if want := class(s.call(c.h.ctx, m)); want != answers[n] {
			return fmt.Sprintf("after %d calls, %s: disk answers %s, model %s", k, s.what, answers[n], want)
		}
		n++
	}
	want, err := dump(c.h.ctx, m)
	if err != nil {
		return err.Error()
	}
	if want != got {
		return difference(got, want)
	}
	return ""
}

// same opens a disk that must show exactly this.
func (c *check) same(s crashfs.State, want string) error {
	fsys := s.FS()
	d, err := c.tr.open(fsys, &clock{})
	if err != nil {
		return fmt.Errorf("open after the second crash: %w", err)
	}
	got, err := dump(c.h.ctx, d)
	if err == nil && got != want {
		err = fmt.Errorf("after the second crash: %s", difference(got, want))
	}
	if err == nil {
		err = c.sane(d.OpenReport(), fsys)
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// envInt is a depth from the environment.
func envInt(t *testing.T, name string, def int) int {
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// seedFrom is a seed from the environment, or a fresh one.
func seedFrom(t *testing.T, name string) uint64 {
	s := os.Getenv(name)
	if s == "" {
		return rand.Uint64() >> 1
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestCrashStates runs random programs, lets the power fail after any operation,
// and opens what the disk may look like then.
//
// CRASH_STATES sets how many distinct states are looked at; CRASH_SEED repeats one
// program with as many.
func TestCrashStates(t *testing.T) {
	want := envInt(t, "CRASH_STATES", defaultStates)
	h := newHunter()
	first, once := seedFrom(t, "CRASH_SEED"), os.Getenv("CRASH_SEED") != ""
	per := max(min(want/12, 2000), 100)
	if once {
		per = want
	}
	var next atomic.Uint64
	err := together(func(failed func() bool) error {
		// Few states are those of few programs, which need not have deleted anything.
		for (h.found() < want || h.found() < 4*want && h.lacks()) && !failed() {
			n := next.Add(1) - 1
			if once && n > 0 {
				return nil
			}
			if err := h.program(first+n, per); err != nil {
				return fmt.Errorf("repeat with CRASH_SEED=%d CRASH_STATES=%d go test ./test/crash -run '^TestCrashStates$'\n%w", first+n, per, err)
			}
		}
		return nil
	})
	violations := 0
	if err != nil {
		violations++
		t.Error(err)
	}
	for k, n := range h.counts {
		if n == 0 && !once && violations == 0 {
			t.Errorf("no crash state of kind %s", kindNames[k])
		}
	}
	if (h.patches == 0 || h.older == 0) && !once && want >= 2000 {
		t.Error("no value was logged, or written to a segment, as a patch")
	}
	if h.grouped == 0 && !once && want >= 2000 {
		t.Error("no checkpoints were stored at once")
	}
	line := fmt.Sprintf("crash states: %s%d distinct, %d violations (%d also without the saved index, %d with erasures to finish); %d values were patches in the log, %d in segments",
		h.table(), h.total, violations, h.rebuilt, h.finished, h.patches, h.older)
	fmt.Println(line)
	fmt.Println(&h.oracle)
	t.Log(line)
}

// program explores the program of a seed.
func (h *hunter) program(seed uint64, states int) error {
	tr, err := traceOf(h.ctx, seed)
	if err != nil {
		return fmt.Errorf("%w\n%v", err, tr)
	}
	return h.explore(tr, states)
}
