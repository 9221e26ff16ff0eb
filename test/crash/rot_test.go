package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/internal/vfs/rot"
	"github.com/stele-go/stele/saver"
)

// shape is a small store to be damaged, as it lies on disk.
type shape struct {
	name  string
	clean bool // closed in order; else the process was killed
	img   vfs.MemImage
	model full
	dumps []string // of the model, after each call
	acked int      // calls
	older map[string][]byte
	ring  *ring // keys; nil: not encrypted

	patches int64 // values logged as patches
}

// shapes are stores with every kind of file, some closed, some killed.
func shapes() []struct {
	name  string
	clean bool
	steps []step
} {
	g := newGenerator(rand.New(rand.NewPCG(11, 3)))
	g.big = 600
	calls := func(n int) (out []step) {
		for range n {
			out = append(out, g.put())
		}
		return append(out, g.putWrites())
	}
	chat := func(n int) (out []step) { // one thread, whose values are mostly patches
		c := newGenerator(rand.New(rand.NewPCG(12, uint64(n))))
		c.big, c.names = 600, []string{"a"}
		for range n {
			out = append(out, c.put())
		}
		return out
	}
	deletion := func(thread string) step {
		return step{what: "delete", kind: kindDelete, call: func(ctx context.Context, s full) error { return s.DeleteThread(ctx, thread) }}
	}
	return []struct {
		name  string
		clean bool
		steps []step
	}{
		{"log, closed", true, calls(5)},
		{"log, killed", false, calls(5)},
		{"segment, image, log, closed", true, slices.Concat(calls(3), []step{flushStep()}, calls(2), []step{imageStep()}, calls(1))},
		{"segment, image, log, killed", false, slices.Concat(calls(3), []step{flushStep()}, calls(2), []step{imageStep()}, calls(1))},
		{"compacted, with deletions, closed", true, slices.Concat(calls(3), []step{flushStep(), deletion("a")}, calls(2),
			[]step{flushStep(), deletion("b"), compactStep()}, calls(1), []step{deletion("c")}, calls(1))},
		{"patches, closed", true, slices.Concat(chat(6), []step{flushStep()}, chat(7))},
		{"patches, killed", false, slices.Concat(chat(4), []step{imageStep()}, chat(8))},
		{"two logs, killed", false, slices.Concat(calls(2), []step{lifeStep("close")}, calls(2), []step{deletion("a")}, calls(1))},
	}
}

// build makes the store of a shape.
func build(ctx context.Context, clean bool, steps []step) (*shape, error) {
	return buildSealed(ctx, nil, clean, steps)
}

// buildSealed is build with keys.
func buildSealed(ctx context.Context, keys *ring, clean bool, steps []step) (*shape, error) {
	mem, clk := vfs.NewMem(vfs.MemOptions{}), &clock{}
	sh := &shape{ring: keys, clean: clean, model: newModel(clk), older: map[string][]byte{}}
	d, err := config{seed: 9, ring: sh.ring}.open(mem, clk)
	if err != nil {
		return nil, err
	}
	note := func() error {
		text, err := dump(ctx, sh.model)
		sh.dumps = append(sh.dumps, text)
		return err
	}
	if err := note(); err != nil {
		return nil, err
	}
	for i, s := range steps {
		switch {
		case s.work != nil:
			err = s.work(ctx, d)
		case s.life != "":
			sh.patches += d.Metrics().Patches
			if err = d.Close(); err == nil {
				d, err = config{seed: 9 + uint64(i), ring: sh.ring}.open(mem, clk)
			}
		default:
			sh.acked++
			clk.set(sh.acked)
			if got, want := s.call(ctx, d), s.call(ctx, sh.model); class(got) != class(want) {
				err = fmt.Errorf("disk answers %v, model %v", got, want)
			}
			err = errors.Join(err, note())
		}
		if err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", i, s.what, err)
		}
		if i == 2*len(steps)/3 {
			for name, f := range mem.Image().Files {
				sh.older[name] = contents(f)
			}
		}
	}
	if !clean {
		sh.img = mem.Image()
	}
	sh.patches += d.Metrics().Patches
	if err := d.Close(); err != nil {
		return nil, err
	}
	if clean {
		sh.img = mem.Image()
	}
	return sh, nil
}

// verdict is what came of damage.
type verdict int

const (
	refused  verdict = iota // Open fails with CorruptionError or VersionError
	named                   // some answers are such an error, the others right
	repaired                // everything right, and OpenReport tells of damage
	unharmed                // everything right, nothing told: nobody needs the bytes
	cut                     // unclean end: an earlier state, and OpenReport tells of the cut
	lostEnd                 // unclean end: an earlier state, untold: the promise went with what it was for
	numVerdicts
)

var verdictNames = [numVerdicts]string{"refused", "named on reading", "repaired and reported", "harmless", "cut and reported", "lost with their promise"}

// judge opens a damaged store and compares it with the model. mayShorten: the
// damage is large enough to take away records together with the later one that
// promises them, which after a kill looks like a log that was never longer.
func (sh *shape) judge(ctx context.Context, mem *vfs.Mem, mayShorten bool) (verdict, error) {
	before := mem.Image()
	d, err := config{seed: 5, ring: sh.ring}.open(mem, &clock{})
	if err != nil {
		if !errors.Is(err, saver.ErrCorrupt) && !errors.Is(err, saver.ErrVersion) {
			return 0, fmt.Errorf("open fails, but not for damage: %w", err)
		}
		return refused, untouched(before, mem.Image())
	}
	defer func() { _ = d.Close() }()
	rep := d.OpenReport()
	got, err := dump(ctx, d)
	switch {
	case err != nil && !errors.Is(err, saver.ErrCorrupt) && !errors.Is(err, saver.ErrVersion):
		return 0, fmt.Errorf("reading fails, but not for damage: %w", err)
	case err != nil:
		return named, errors.Join(sh.each(ctx, d), sh.healed(ctx, d, mem, err))
	case got == sh.dumps[len(sh.dumps)-1] && (rep.IndexRebuilt || rep.DroppedBytes > 0):
		return repaired, nil
	case got == sh.dumps[len(sh.dumps)-1]:
		return unharmed, nil
	case sh.clean:
		return 0, fmt.Errorf("wrong after a clean close: %s; report %+v", difference(got, sh.dumps[len(sh.dumps)-1]), rep)
	}
	k := slices.Index(sh.dumps, got)
	lost := 0
	for i := max(k, 0) + 1; i < len(sh.dumps); i++ {
		if sh.dumps[i] != sh.dumps[i-1] { // not a call that changed nothing
			lost++
		}
	}
	switch {
	case k < 0:
		return 0, fmt.Errorf("no state it ever was in: %s", difference(got, sh.dumps[len(sh.dumps)-1]))
	case mayShorten && rep.DroppedBytes == 0:
		return lostEnd, nil
	case rep.DroppedBytes == 0:
		return 0, fmt.Errorf("back to %d of %d calls, unreported", k, sh.acked)
	case lost > 1 && !mayShorten:
		// All but the last call are promised by the frame of a later one.
		return 0, fmt.Errorf("back to %d of %d calls, though promised", k, sh.acked)
	}
	return cut, nil
}

// healed: damage to the saved index, which is derived, is gone after closing and
// opening the store.
func (sh *shape) healed(ctx context.Context, d *saver.Disk, mem *vfs.Mem, cause error) error {
	var damage *saver.CorruptionError
	if !errors.As(cause, &damage) || filepath.Ext(damage.File) != ".img" {
		return nil
	}
	if err := d.Close(); err != nil {
		return fmt.Errorf("close with a damaged image: %w", err)
	}
	d, err := config{seed: 6, ring: sh.ring}.open(mem, &clock{})
	if err != nil {
		return fmt.Errorf("open after damage to an image: %w", err)
	}
	defer func() { _ = d.Close() }()
	got, err := dump(ctx, d)
	if want := sh.dumps[len(sh.dumps)-1]; err == nil && got != want {
		err = errors.New(difference(got, want))
	}
	if err != nil {
		return fmt.Errorf("damage to an image stays: %w", err)
	}
	return nil
}

// untouched: a store that is refused is left as it was, its lock file aside.
func untouched(before, after vfs.MemImage) error {
	for name, f := range before.Files {
		if filepath.Base(name) == "LOCK" {
			continue
		}
		g := after.Files[name]
		if g == nil || g.Sum() != f.Sum() || g.Size() != f.Size() {
			return fmt.Errorf("Open refused the store, and changed %s", name)
		}
	}
	return nil
}

// each asks for every checkpoint by its id: right, or named as damaged, but never
// gone. The others may be asked for as well: they stay deleted.
func (sh *shape) each(ctx context.Context, d *saver.Disk) error {
	for tup, err := range sh.model.List(ctx, saver.Query{}) {
		if err != nil {
			return err
		}
		want, err := one(tup)
		if err != nil {
			return err
		}
		damaged := func(err error) bool { return errors.Is(err, saver.ErrCorrupt) || errors.Is(err, saver.ErrVersion) }
		gotTup, err := d.GetTuple(ctx, tup.Config)
		if damaged(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get %+v: %w", tup.Config, err)
		}
		got, err := one(gotTup)
		if damaged(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %+v: %w", tup.Config, err)
		}
		if got != want {
			return fmt.Errorf("wrong value: %s", difference(got, want))
		}
	}
	for _, thread := range []string{"a", "b", "c"} {
		_, want := sh.model.GetTuple(ctx, saver.Config{ThreadID: thread})
		_, got := d.GetTuple(ctx, saver.Config{ThreadID: thread})
		if errors.Is(want, saver.ErrNotFound) && got == nil {
			return fmt.Errorf("thread %s is back", thread)
		}
	}
	return nil
}

func one(tup *saver.Tuple) (string, error) {
	var d dumper
	err := d.tuple(tup)
	return d.b.String(), err
}

// rotten damages one shape in many ways and counts what comes of it.
type rotten struct {
	t      *testing.T
	ctx    context.Context
	sh     *shape
	rng    *rand.Rand
	counts map[bool]*[numVerdicts]int // by clean
	total  int
	most   int // bytes flipped of one file
	bits   int
}

func (r *rotten) try(what string, mayShorten bool, damage func(mem *vfs.Mem) (bool, error)) {
	r.t.Helper()
	mem := vfs.NewMemFrom(r.sh.img, vfs.MemOptions{})
	changed, err := damage(mem)
	if err != nil {
		r.t.Fatalf("%s: %s: %v", r.sh.name, what, err)
	}
	if !changed {
		return
	}
	v, err := r.sh.judge(r.ctx, mem, mayShorten)
	if err != nil {
		r.t.Fatalf("store %q: %s: %v", r.sh.name, what, err)
	}
	r.counts[r.sh.clean][v]++
	r.total++
}

// file damages one file in every way.
func (r *rotten) file(name string) {
	f := r.sh.img.Files[name]
	size, base := f.Size(), filepath.Base(name)
	isLog := strings.HasSuffix(base, ".log")
	r.flips(name, contents(f))
	for sector := range rot.Sectors(size) {
		r.try(fmt.Sprintf("zero sector %d of %s", sector, base), isLog, func(mem *vfs.Mem) (bool, error) {
			return rot.ZeroSector(mem, name, sector)
		})
		if other := r.rng.Int64N(rot.Sectors(size)); other != sector {
			r.try(fmt.Sprintf("copy sector %d to %d of %s", other, sector, base), isLog, func(mem *vfs.Mem) (bool, error) {
				return rot.CopySector(mem, name, other, sector)
			})
		}
	}
	stride := max(1, size/int64(r.most/4))
	for n := r.rng.Int64N(stride); n < size; n += stride {
		r.try(fmt.Sprintf("cut %s to %d bytes", base, n), isLog, func(mem *vfs.Mem) (bool, error) { return rot.Truncate(mem, name, n) })
	}
	r.try("empty "+base, isLog, func(mem *vfs.Mem) (bool, error) { return rot.Truncate(mem, name, 0) })
	r.try("lose "+base, false, func(mem *vfs.Mem) (bool, error) { return true, mem.Remove(name) })
	if old, ok := r.sh.older[name]; ok {
		r.try("put an older copy of "+base, true, func(mem *vfs.Mem) (bool, error) { return true, overwrite(mem, name, old) })
	}
	for _, other := range slices.Sorted(maps.Keys(r.sh.img.Files)) {
		g := r.sh.img.Files[other]
		if other != name && filepath.Ext(other) == filepath.Ext(name) {
			r.try(fmt.Sprintf("put %s in place of %s", filepath.Base(other), base), false, func(mem *vfs.Mem) (bool, error) {
				return true, overwrite(mem, name, contents(g))
			})
		}
	}
}

// flips flips bits: of every byte that is not zero, as far as the budget goes, and
// of some that are.
func (r *rotten) flips(name string, data []byte) {
	var used, zero []int
	for i, b := range data {
		if b != 0 {
			used = append(used, i)
		} else {
			zero = append(zero, i)
		}
	}
	pick := func(list []int, most int) {
		r.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, off := range list[:min(len(list), most)] {
			for b := range r.bits {
				bit := b
				if r.bits == 1 {
					bit = r.rng.IntN(8)
				}
				r.try(fmt.Sprintf("flip bit %d of byte %d of %s", bit, off, filepath.Base(name)), false, func(mem *vfs.Mem) (bool, error) {
					return true, rot.FlipBit(mem, name, int64(off), bit)
				})
			}
		}
	}
	pick(used, r.most)
	pick(zero, r.most/4)
}

// contents are the bytes of a file of an image.
func contents(f interface {
	Size() int64
	ReadAt(p []byte, off int64) (int, error)
}) []byte {
	b := make([]byte, f.Size())
	if n, _ := f.ReadAt(b, 0); n != len(b) { // in memory: there is no other error
		panic("short read")
	}
	return b
}

func overwrite(mem *vfs.Mem, name string, data []byte) error {
	f, err := mem.OpenReadWrite(name)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(data, 0)
	}
	return errors.Join(err, f.Close())
}

// TestRot damages small stores of every shape. After a clean close every answer is
// right or an error that names the damage; after a kill the end of the log may
// also be cut, which OpenReport tells.
//
// ROT_BYTES sets how many bytes of each file are flipped (a large number: all),
// ROT_BITS how many bits of each.
func TestRot(t *testing.T) {
	ctx := context.Background()
	seed := seedFrom(t, "ROT_SEED")
	defer func() {
		if t.Failed() {
			t.Logf("repeat with ROT_SEED=%d go test ./test/crash -run '^TestRot$'", seed)
		}
	}()
	counts := map[bool]*[numVerdicts]int{true: {}, false: {}}
	total, patches := 0, int64(0)
	for _, s := range shapes() {
		sh, err := build(ctx, s.clean, s.steps)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		sh.name = s.name
		r := &rotten{t: t, ctx: ctx, sh: sh, rng: rand.New(rand.NewPCG(seed, 2)), counts: counts,
			most: envInt(t, "ROT_BYTES", 120), bits: envInt(t, "ROT_BITS", 1)}
		for _, name := range slices.Sorted(maps.Keys(sh.img.Files)) {
			if filepath.Base(name) != "LOCK" {
				r.file(name)
			}
		}
		total += r.total
		patches += sh.patches
	}
	for clean, what := range map[bool]string{true: "after a clean close", false: "after a kill"} {
		line := fmt.Sprintf("rot %s:", what)
		for v, n := range counts[clean] {
			line += fmt.Sprintf(" %s %d,", verdictNames[v], n)
		}
		fmt.Println(line, "0 wrong")
		t.Log(line)
	}
	t.Logf("%d damages, to stores with %d patches", total, patches)
	if patches == 0 {
		t.Error("no store had a patch to be damaged")
	}
}
