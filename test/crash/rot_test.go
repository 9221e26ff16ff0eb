package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/rot"
	"github.com/stele-go/stele/saver"
)

// verdict is what came of damage.
type verdict int

const (
	refused  verdict = iota // Open fails with CorruptionError or VersionError
	named                   // some answers are such an error, the others right
	repaired                // everything right, and OpenReport tells of damage
	unharmed                // everything right, nothing told: nobody needs the bytes
	numVerdicts
)

var verdictNames = [numVerdicts]string{"refused", "named on reading", "repaired and reported", "harmless"}

// judge opens a damaged store and compares it with the model. After a kill it is held
// to the same as after a clean close: the mark that the log leaves beside it knows
// every record that was acknowledged.
func (sh *shape) judge(ctx context.Context, mem *vfs.Mem) (verdict, error) {
	before := mem.Image()
	d, err := config{seed: 5, ring: sh.ring}.open(mem, &clock{})
	if err != nil {
		if !errors.Is(err, saver.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
			return 0, fmt.Errorf("open fails, but not for damage: %w", err)
		}
		return refused, untouched(before, mem.Image())
	}
	defer func() { _ = d.Close() }()
	rep := d.OpenReport()
	got, err := dump(ctx, d)
	switch {
	case err != nil && !errors.Is(err, saver.ErrCorrupt) && !errors.Is(err, fault.ErrVersion):
		return 0, fmt.Errorf("reading fails, but not for damage: %w", err)
	case err != nil:
		return named, errors.Join(sh.each(ctx, d), sh.healed(ctx, d, mem, err))
	case got == sh.dumps[len(sh.dumps)-1] && (rep.IndexRebuilt || rep.DroppedBytes > 0):
		return repaired, nil
	case got == sh.dumps[len(sh.dumps)-1]:
		return unharmed, nil
	}
	return 0, fmt.Errorf("wrong, and nothing said: %s; report %+v", difference(got, sh.dumps[len(sh.dumps)-1]), rep)
}

// healed: damage to the saved index, which is derived, is gone after closing and
// opening the store.
func (sh *shape) healed(ctx context.Context, d *opened, mem *vfs.Mem, cause error) error {
	var damage *fault.CorruptionError
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
func (sh *shape) each(ctx context.Context, d *opened) error {
	for tup, err := range sh.model.List(ctx, saver.Query{}) {
		if err != nil {
			return err
		}
		want, err := one(tup)
		if err != nil {
			return err
		}
		damaged := func(err error) bool { return errors.Is(err, saver.ErrCorrupt) || errors.Is(err, fault.ErrVersion) }
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
	// check, if set, judges a damaged store in place of shape.judge.
	check func(what string, mem *vfs.Mem)
}

func (r *rotten) try(what string, damage func(mem *vfs.Mem) (bool, error)) {
	r.t.Helper()
	mem := vfs.NewMemFrom(r.sh.img, vfs.MemOptions{})
	changed, err := damage(mem)
	if err != nil {
		r.t.Fatalf("%s: %s: %v", r.sh.name, what, err)
	}
	if !changed {
		return
	}
	if r.check != nil {
		r.check(what, mem)
		r.total++
		return
	}
	v, err := r.sh.judge(r.ctx, mem)
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
		r.try(fmt.Sprintf("zero sector %d of %s", sector, base), func(mem *vfs.Mem) (bool, error) {
			return rot.ZeroSector(mem, name, sector)
		})
		if other := r.rng.Int64N(rot.Sectors(size)); other != sector {
			r.try(fmt.Sprintf("copy sector %d to %d of %s", other, sector, base), func(mem *vfs.Mem) (bool, error) {
				return rot.CopySector(mem, name, other, sector)
			})
		}
	}
	r.strangers(name, f.Size(), isLog)
	r.moved(name, contents(f))
	stride := max(1, size/int64(max(1, r.most/4)))
	for n := r.rng.Int64N(stride); n < size; n += stride {
		r.try(fmt.Sprintf("cut %s to %d bytes", base, n), func(mem *vfs.Mem) (bool, error) { return rot.Truncate(mem, name, n) })
	}
	r.try("empty "+base, func(mem *vfs.Mem) (bool, error) { return rot.Truncate(mem, name, 0) })
	r.try("lose "+base, func(mem *vfs.Mem) (bool, error) { return true, mem.Remove(name) })
	if old, ok := r.sh.older[name]; ok {
		r.try("put an older copy of "+base, func(mem *vfs.Mem) (bool, error) { return true, overwrite(mem, name, old) })
	}
	for _, other := range slices.Sorted(maps.Keys(r.sh.img.Files)) {
		g := r.sh.img.Files[other]
		if other != name && filepath.Ext(other) == filepath.Ext(name) {
			r.try(fmt.Sprintf("put %s in place of %s", filepath.Base(other), base), func(mem *vfs.Mem) (bool, error) {
				return true, overwrite(mem, name, contents(g))
			})
		}
	}
}

// strangers puts bytes into a file that are valid elsewhere: its own sectors in
// another order, sectors of other files, and the file of this name of another
// store.
func (r *rotten) strangers(name string, size int64, isLog bool) {
	base := filepath.Base(name)
	for range min(rot.Sectors(size), int64(r.most/8)) {
		a, b := r.rng.Int64N(rot.Sectors(size)), r.rng.Int64N(rot.Sectors(size))
		if a == b {
			continue
		}
		r.try(fmt.Sprintf("swap sectors %d and %d of %s", a, b, base), func(mem *vfs.Mem) (bool, error) {
			return rot.SwapSectors(mem, name, a, b)
		})
	}
	sector := func(other string, g file) {
		const n = 512
		from, to := r.rng.Int64N(rot.Sectors(g.Size())), r.rng.Int64N(rot.Sectors(size))
		data := contents(g)[from*n:]
		data = data[:min(n, len(data))]
		r.try(fmt.Sprintf("put sector %d of %s at %d of %s", from, other, to, base), func(mem *vfs.Mem) (bool, error) {
			return overwriteAt(mem, name, data, to*n)
		})
	}
	for other, g := range r.sh.img.Files {
		if other != name && g.Size() > 0 {
			sector(filepath.Base(other), g)
		}
	}
	if isLog {
		r.doubly(name, size)
	}
	if r.sh.alien == nil {
		return
	}
	if g, ok := r.sh.alien.Files[name]; ok && g.Size() > 0 {
		sector("another store's "+base, g)
		r.try("put another store's "+base, func(mem *vfs.Mem) (bool, error) { return true, overwrite(mem, name, contents(g)) })
	}
}

// moved takes bytes out of a file, or puts bytes in a second time: what follows moves.
func (r *rotten) moved(name string, data []byte) {
	used := int64(len(bytes.TrimRight(data, "\x00")))
	for range max(2, r.most/8) {
		at := r.rng.Int64N(max(1, used))
		n := min(int64(len(data))-at, []int64{1, 8, 64, 8 * (1 + r.rng.Int64N(64)), 512}[r.rng.IntN(5)])
		if r.rng.IntN(2) == 0 { // as frames lie
			at &^= 7
		}
		base := filepath.Base(name)
		r.try(fmt.Sprintf("take %d bytes out of %s at %d", n, base, at), func(mem *vfs.Mem) (bool, error) {
			return true, overwrite(mem, name, slices.Concat(data[:at], data[at+n:]))
		})
		r.try(fmt.Sprintf("double %d bytes of %s at %d", n, base, at), func(mem *vfs.Mem) (bool, error) {
			return true, overwrite(mem, name, slices.Concat(data[:at+n], data[at:]))
		})
	}
}

// doubly cuts a log short whose end nobody else vouches for: the saved index is
// lost as well. After a clean close the manifest knows the last record.
func (r *rotten) doubly(name string, size int64) {
	for range r.most / 4 {
		n := 64 + r.rng.Int64N(max(1, size-64))
		r.try(fmt.Sprintf("lose the images, and cut %s to %d bytes", filepath.Base(name), n), func(mem *vfs.Mem) (bool, error) {
			for other := range r.sh.img.Files {
				if filepath.Ext(other) == ".img" {
					if err := mem.Remove(other); err != nil {
						return false, err
					}
				}
			}
			return rot.Truncate(mem, name, n)
		})
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
				r.try(fmt.Sprintf("flip bit %d of byte %d of %s", bit, off, filepath.Base(name)), func(mem *vfs.Mem) (bool, error) {
					return true, rot.FlipBit(mem, name, int64(off), bit)
				})
			}
		}
	}
	pick(used, r.most)
	pick(zero, r.most/4)
}

// file is a file of an image.
type file interface {
	Size() int64
	ReadAt(p []byte, off int64) (int, error)
}

// contents are the bytes of a file of an image.
func contents(f file) []byte {
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

// overwriteAt writes inside a file, and reports whether that changed it.
func overwriteAt(mem *vfs.Mem, name string, data []byte, off int64) (bool, error) {
	f, err := mem.OpenReadWrite(name)
	if err != nil {
		return false, err
	}
	size, err := f.Size()
	data = data[:min(int64(len(data)), max(0, size-off))]
	was := make([]byte, len(data))
	if err == nil {
		_, err = f.ReadAt(was, off)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if err == nil {
		_, err = f.WriteAt(data, off)
	}
	return !bytes.Equal(was, data), errors.Join(err, f.Close())
}

// TestRot damages small stores of every shape. After a clean close every answer is
// right or an error that names the damage; after a kill as well.
//
// ROT_BYTES sets how many bytes of each file are flipped (a large number: all),
// ROT_BITS how many bits of each.
func TestRot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	seed := seedFrom(t, "ROT_SEED")
	defer func() {
		if t.Failed() {
			t.Logf("repeat with ROT_SEED=%d go test ./test/crash -run '^TestRot$'", seed)
		}
	}()
	counts := map[bool]*[numVerdicts]int{true: {}, false: {}}
	total, patches := 0, int64(0)
	var last *vfs.MemImage
	for i, s := range shapes() {
		sh, err := build(ctx, s.clean, s.steps, uint64(i))
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		sh.name, sh.alien = s.name, last
		last = &sh.img
		r := &rotten{t: t, ctx: ctx, sh: sh, rng: rand.New(rand.NewPCG(seed, 2)), counts: counts,
			most: envInt(t, "ROT_BYTES", defaultRot), bits: envInt(t, "ROT_BITS", 1)}
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
