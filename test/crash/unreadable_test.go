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
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/wal"
)

// unreadable is a store of which the device cannot read one block, or cannot open one file.
type unreadable struct {
	sh   *shape
	file string // its name within the store
	mem  *vfs.Mem
	fs   *faultfs.FS
}

// derived reports whether the file can be made from others, or vouches for them alone.
func (u *unreadable) derived() bool {
	return filepath.Ext(u.file) == ".img" || u.file == wal.MarkName
}

// eachUnreadable makes every block of every file of every shape unreadable, and every file.
func eachUnreadable(t *testing.T, try func(u *unreadable) error) {
	t.Helper()
	const block = 4 << 10
	total := 0
	for _, s := range shapes() {
		sh, err := build(context.Background(), s.clean, s.steps, 0)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		for _, path := range slices.Sorted(maps.Keys(sh.img.Files)) {
			name := filepath.Base(path)
			bad := func(what string, rules ...faultfs.Rule) {
				u := &unreadable{sh: sh, file: name, mem: vfs.NewMemFrom(sh.img, vfs.MemOptions{})}
				u.fs = faultfs.New(u.mem, faultfs.NewInjector(rules...))
				if err := try(u); err != nil {
					t.Fatalf("store %q: %s of %s: %v", s.name, what, name, err)
				}
				total++
			}
			if name == "LOCK" {
				continue
			}
			for off := int64(0); off < sh.img.Files[path].Size(); off += block {
				bad(fmt.Sprint("block at ", off), faultfs.Rule{Op: faultfs.OpReadAt, PathGlob: path, From: off, To: off + block, Sticky: true})
			}
			bad("the open", faultfs.Rule{Op: faultfs.OpOpen, PathGlob: path, Sticky: true}, faultfs.Rule{Op: faultfs.OpOpenReadWrite, PathGlob: path, Sticky: true})
		}
	}
	t.Logf("%d blocks and files", total)
}

// A block that cannot be read, or a file that cannot be opened, is no reason to refuse a store, where the store can make it again. Of
// other files it is the error of the device, at Open or from the calls that need it.
func TestOpenPastUnreadableBlocks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	eachUnreadable(t, func(u *unreadable) error {
		before := u.mem.Image()
		d, err := config{seed: 5}.open(u.fs, &clock{})
		if err != nil {
			if u.derived() || !errors.Is(err, syscall.EIO) {
				return fmt.Errorf("open: %w", err)
			}
			return untouched(before, u.mem.Image())
		}
		defer func() { _ = d.Close() }()
		got, err := dump(ctx, d)
		switch want := u.sh.dumps[len(u.sh.dumps)-1]; {
		case err == nil && got != want:
			return errors.New("wrong, and nothing said: " + difference(got, want))
		case err != nil && !errors.Is(err, syscall.EIO):
			return fmt.Errorf("read: %w", err)
		case err != nil && u.derived(): // an image is read page by page; the next Open knows better
			return (&shape{ring: u.sh.ring, dumps: u.sh.dumps}).healed(ctx, d, u.mem, err)
		}
		return nil
	})
}

// Whoever mends a store goes past the block: Verify names it, and Salvage saves what does not
// need it and lists what does.
func TestMendPastUnreadableBlocks(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	eachUnreadable(t, func(u *unreadable) error {
		reads := u.fs.Injector().Count()
		ver, err := admin.Verify(ctx, dir, admin.VerifyOptions{Access: access(u.fs)})
		if err != nil {
			return fmt.Errorf("verify: %w", err)
		}
		named := slices.ContainsFunc(ver.Damage, func(f admin.Finding) bool {
			return f.File == u.file && strings.Contains(f.Detail, "the device cannot read it")
		})
		if met := u.fs.Injector().Count() > reads; met != named {
			return fmt.Errorf("verify met the block: %v, and names it: %v; %+v", met, named, ver.Damage)
		}
		if u.derived() && u.sh.clean && slices.ContainsFunc(ver.Damage, func(f admin.Finding) bool { return f.File != u.file }) {
			return fmt.Errorf("the file is derived, and there is other damage: %+v", ver.Damage)
		}
		if _, err := admin.Describe(dir, access(u.fs)); err != nil { // Compact begins with it
			return fmt.Errorf("describe: %w", err)
		}
		rep, err := admin.Salvage(ctx, dir, salvageDir, admin.SalvageOptions{Access: access(u.fs)})
		if err != nil {
			return fmt.Errorf("salvage: %w", err)
		}
		d, err := disk.Open(salvageDir, disk.Options{ManualWork: true, CacheBytes: -1, Simulation: disk.Simulation{FS: u.mem, Rand: source(3), Inline: true}})
		if err != nil {
			return fmt.Errorf("open what was saved: %w", err)
		}
		got, err := compareSalvaged(ctx, u.sh, rep, d)
		if err = errors.Join(err, d.Close()); err != nil {
			return err
		}
		if u.derived() && u.sh.clean && got.listed+got.skipped+got.extra > 0 {
			return fmt.Errorf("the file is derived, and %+v", got)
		}
		return nil
	})
}

// One bad sector in a segment of many threads costs one of them.
func TestOneUnreadableBlockCostsOneThread(t *testing.T) {
	t.Parallel()
	const threads = 57
	ctx, mem := t.Context(), vfs.NewMem(vfs.MemOptions{})
	d, err := disk.Open(dir, disk.Options{ManualWork: true, Simulation: disk.Simulation{FS: mem, Rand: source(4), Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	text := rand.New(rand.NewPCG(5, 6))
	for n := range threads {
		value := make([]byte, 20<<10)
		for i := range value {
			value[i] = byte(text.Uint32())
		}
		cp := saver.Checkpoint{V: 4, ID: "1", Versions: map[string]saver.Version{"c": saver.IntVersion(1)}, Values: map[string]saver.Value{"c": saver.ValueOf(value)}}
		if _, err := d.Put(ctx, saver.Config{ThreadID: fmt.Sprint("thread-", n)}, cp, nil, cp.Versions); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(d.Flush(ctx), d.Close()); err != nil {
		t.Fatal(err)
	}
	rule := faultfs.Rule{Op: faultfs.OpReadAt, PathGlob: filepath.Join(dir, "*.seg"), From: 500 << 10, To: 500<<10 + 1, Sticky: true}
	bad := faultfs.New(mem, faultfs.NewInjector(rule))
	rep, err := admin.Salvage(ctx, dir, salvageDir, admin.SalvageOptions{Access: access(bad)})
	if err != nil {
		t.Fatal(err)
	}
	d, err = disk.Open(salvageDir, disk.Options{ManualWork: true, Simulation: disk.Simulation{FS: mem, Rand: source(3), Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	saved := 0
	for n := range threads {
		tup, err := d.GetTuple(ctx, saver.Config{ThreadID: fmt.Sprint("thread-", n)})
		if err == nil {
			_, err = tup.Checkpoint.Values["c"].Any()
		}
		if err == nil {
			saved++
		}
	}
	if err := d.Close(); err != nil || saved != threads-1 || len(rep.LostCheckpoints)+len(rep.LostValues)+len(rep.LostParts) != 1 {
		t.Errorf("%d of %d threads saved, lost %+v, %v", saved, threads, rep, err)
	}
}

// looks are the operations that change nothing. What a close of a file fails to do is not known.
var looks = []faultfs.Op{faultfs.OpReadAt, faultfs.OpAttached, faultfs.OpSize, faultfs.OpOpen, faultfs.OpOpenReadWrite, faultfs.OpList, faultfs.OpHold,
	faultfs.OpFreeSpace, faultfs.OpInPlace}

// A read that fails once costs the call that needed it at most, and so does a look at a file, its name or
// its directory: what comes after finds the store as sound as it is.
func TestReadThatFailsOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	const puts = 6
	cfg := func(n int) saver.Config { return saver.Config{ThreadID: "t", CheckpointID: fmt.Sprint(n)} }
	words := strings.Repeat("many words of which few are new; ", 40)
	put := func(d *disk.Saver, n int) error {
		cp := saver.Checkpoint{V: 4, ID: fmt.Sprint(n), Versions: map[string]saver.Version{"c": saver.IntVersion(int64(n))}, Values: map[string]saver.Value{"c": saver.ValueOf(words + fmt.Sprint(n))}}
		at := saver.Config{ThreadID: "t"}
		if n > 1 {
			at.CheckpointID = fmt.Sprint(n - 1)
		}
		_, err := d.Put(ctx, at, cp, nil, cp.Versions)
		return err
	}
	get := func(d *disk.Saver, n int) error {
		tup, err := d.GetTuple(ctx, cfg(n))
		if err != nil {
			return err
		}
		v, err := tup.Checkpoint.Values["c"].Any()
		if err == nil && v != words+fmt.Sprint(n) {
			err = fmt.Errorf("checkpoint %d has another value", n)
		}
		return err
	}
	// run makes the store and then works on it. Each call may fail, and is made again.
	run := func(inj *faultfs.Injector, fail func()) (reads map[faultfs.Op]int, err error) {
		fs := faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj)
		d, err := disk.Open(dir, disk.Options{ManualWork: true, MemoryBudget: -1, CompactFanout: 2, Simulation: disk.Simulation{FS: fs, Rand: source(4), Inline: true, PatchMin: 48, PatchRun: 3}})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, d.Close()) }()
		begin := inj.Ops()
		fail()
		again := func(what string, call func() error) {
			first := call()
			if first != nil && !errors.Is(first, syscall.EIO) {
				err = errors.Join(err, fmt.Errorf("%s: %w", what, first))
			}
			if first == nil {
				return
			}
			if second := call(); second != nil {
				err = errors.Join(err, fmt.Errorf("%s fails again after %w: %w", what, first, second))
			}
		}
		for round := range 2 {
			for n := range puts {
				n += 1 + round*puts
				again(fmt.Sprint("put ", n), func() error { return put(d, n) })
				again(fmt.Sprint("get ", n), func() error { return get(d, n) })
			}
			again("get the first", func() error { return get(d, 1) })
			again("write an image", func() error { return d.Inside().Engine.WriteImage(ctx) })
			again("flush", func() error { return d.Flush(ctx) })
			for n := range puts {
				again(fmt.Sprint("get flushed ", n+1), func() error { return get(d, n+1) })
			}
		}
		again("compact", func() error { return d.Compact(ctx) })
		again("put at last", func() error { return put(d, 2*puts+1) })
		again("get compacted", func() error { return get(d, puts) })
		again("health", func() error {
			if h := d.Health(); h.Status != metrics.StatusOK {
				return fmt.Errorf("%v: %w", h.Status, h.Problems[0].Err)
			}
			return nil
		})
		reads = inj.Ops()
		for op, n := range begin {
			reads[op] -= n
		}
		return reads, err
	}
	inj := faultfs.NewInjector()
	reads, err := run(inj, func() {})
	if err != nil || reads[faultfs.OpReadAt] < 20 || reads[faultfs.OpAttached] < 20 {
		t.Fatal(reads, err)
	}
	for _, op := range looks {
		for n := 1; n <= reads[op]; n++ {
			inj := faultfs.NewInjector()
			if _, err := run(inj, func() { inj.Set(faultfs.Rule{Op: op, N: n}) }); err != nil {
				t.Errorf("%v %d of %d: %v", op, n, reads[op], err)
			}
			if inj.Count() != 1 {
				t.Errorf("%v %d of %d did not fail", op, n, reads[op])
			}
		}
	}
	t.Logf("reads and looks: %v", reads)
}

// While the device does not say whether LOCK is still there, what needs to know is refused. That is no lock
// that was lost: when it answers again, the store works as before.
func TestLockThatIsNotSeen(t *testing.T) {
	t.Parallel()
	ctx, inj := t.Context(), faultfs.NewInjector()
	d, err := disk.Open(dir, disk.Options{ManualWork: true, Simulation: disk.Simulation{FS: faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj), Rand: source(4), Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(thread string) error {
		_, err := d.Put(ctx, saver.Config{ThreadID: thread}, saver.Checkpoint{V: 4, ID: "1"}, nil, nil)
		return err
	}
	if err := put("a"); err != nil {
		t.Fatal(err)
	}
	inj.Set(faultfs.Rule{Op: faultfs.OpAttached, PathGlob: filepath.Join(dir, "LOCK"), Sticky: true})
	if err := d.Inside().Engine.WriteImage(ctx); !errors.Is(err, syscall.EIO) || errors.Is(err, fault.ErrLockLost) {
		t.Errorf("an image while LOCK is not seen: %v", err)
	}
	inj.Set()
	if err := errors.Join(d.Inside().Engine.WriteImage(ctx), put("b"), d.Flush(ctx)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if h := d.Health(); h.Status != metrics.StatusOK {
		t.Errorf("health: %+v", h.Problems)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
