package held

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

var ctx = context.Background()

// childVariable makes the test binary a process that makes a store, or changes its
// directory under one: see child.
const childVariable = "STELE_HELD_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childVariable); job != "" {
		n, err := child(strings.Split(job, "|"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(n)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child does a job and returns how many checkpoints it put.
func child(job []string) (int, error) {
	switch job[0] {
	case "fill": // a store at a path
		return otherCount, fill(job[1], disk.Simulation{})
	case "chdir": // begin in one directory, go on in another
		small := job[3] == "small"
		if err := os.Chdir(job[1]); err != nil {
			return 0, err
		}
		d, err := disk.Open("store", options(small, 0))
		if err != nil {
			return 0, err
		}
		w := &writer{d: d, small: small}
		if err := w.put(before); err != nil {
			return 0, err
		}
		if err := os.Chdir(job[2]); err != nil {
			return 0, err
		}
		err = w.put(w.after())
		if h := d.Health(); err == nil && moved(h) {
			err = fmt.Errorf("health: %+v", h)
		}
		return w.n, errors.Join(err, d.Close())
	}
	return 0, fmt.Errorf("unknown job %q", job)
}

// inChild has another process do a job.
func inChild(t *testing.T, job ...string) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join(job, "|"), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", job, err, out)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(out)))
	fatal(t, err)
	return n
}

const (
	before     = 5  // checkpoints before something happens to the directory
	otherCount = 40 // checkpoints of the other store
)

// options are those of the store under test: with small log files it rotates, flushes,
// saves its index and compacts all the time.
func options(small bool, round int) disk.Options {
	o := disk.Options{Sync: []disk.SyncMode{disk.SyncNever, disk.SyncAlways, disk.SyncInterval}[round%3]}
	if small {
		o.LogFileSize, o.FlushBytes, o.ImageBytes, o.CompactFanout, o.CompactRate = 64<<10, 192<<10, 48<<10, 2, -1
	}
	return o
}

// writer puts checkpoint after checkpoint into one thread.
type writer struct {
	d     *disk.Saver
	small bool
	n     int // acknowledged
}

// after is how many checkpoints take a log over its next rotation, and more.
func (w *writer) after() int {
	if w.small {
		return 400
	}
	return 1400 // of 50,000 bytes; a log file has 64 MiB
}

func (w *writer) value(n int) string {
	size := 2000
	if !w.small {
		size = 50_000
	}
	b := make([]byte, 0, size+8)
	for i := uint64(n); len(b) < size; i++ { // no two alike, so that none is a patch
		b = binary.LittleEndian.AppendUint64(b, ((i*0x9e3779b97f4a7c15)^uint64(n)<<32)&0x7f7f7f7f7f7f7f7f)
	}
	return string(b)
}

// put puts n checkpoints more.
func (w *writer) put(n int) error {
	for range n {
		if err := putOne(w.d, "t", w.n+1, w.value(w.n+1)); err != nil {
			return err
		}
		w.n++
	}
	return nil
}

func putOne(d *disk.Saver, thread string, n int, value string) error {
	cfg := saver.Config{ThreadID: thread}
	if n > 1 {
		cfg.CheckpointID = id(n - 1)
	}
	versions := map[string]saver.Version{"c": saver.IntVersion(int64(n))}
	cp := saver.Checkpoint{V: 4, ID: id(n), TS: "t", Versions: versions, Values: map[string]saver.Value{"c": saver.ValueOf(value)}}
	_, err := d.Put(ctx, cfg, cp, saver.Metadata{"step": n}, versions)
	return err
}

func id(n int) string { return fmt.Sprintf("%08d", n) }

// check opens the store in dir and compares everything in it with what was acknowledged.
func (w *writer) check(t *testing.T, dir string, sim disk.Simulation) {
	t.Helper()
	access := admin.Access{Options: disk.Options{Simulation: sim}}
	rep, err := admin.Verify(ctx, dir, admin.VerifyOptions{Access: access})
	fatal(t, err)
	if !rep.Clean() || rep.Checkpoints != w.n {
		t.Fatalf("%s: %d of %d checkpoints, damage %v", dir, rep.Checkpoints, w.n, rep.Damage)
	}
	d, err := disk.Open(dir, disk.Options{Simulation: sim})
	fatal(t, err)
	for n := 1; n <= w.n; n += max(1, w.n/50) {
		tup, err := d.GetTuple(ctx, saver.Config{ThreadID: "t", CheckpointID: id(n)})
		fatal(t, err)
		var got string
		fatal(t, tup.Checkpoint.Values["c"].Decode(&got))
		if got != w.value(n) {
			t.Fatalf("checkpoint %d has another value", n)
		}
	}
	fatal(t, d.Close())
}

// fill makes the other store.
func fill(dir string, sim disk.Simulation) error {
	o := options(true, 0)
	o.ManualWork = true
	d, err := disk.Open(dir, o.In(sim))
	if err != nil {
		return err
	}
	w := &writer{d: d, small: true}
	return errors.Join(w.put(otherCount), d.Close())
}

// world is a disk and another process.
type world interface {
	sim() disk.Simulation
	path(name string) string
	rename(from, to string)
	remove(dir string)
	fill(dir string) // by somebody else
}

// onDisk is a directory of a real file system.
type onDisk struct {
	t    *testing.T
	root string
}

func (onDisk) sim() disk.Simulation      { return disk.Simulation{} }
func (o onDisk) path(name string) string { return filepath.Join(o.root, name) }
func (o onDisk) rename(from, to string)  { fatal(o.t, os.Rename(o.path(from), o.path(to))) }
func (o onDisk) fill(dir string)         { inChild(o.t, "fill", o.path(dir)) }
func (o onDisk) remove(dir string) {
	for range 100 { // the writer may make a file in it meanwhile
		if os.RemoveAll(o.path(dir)) == nil {
			return
		}
	}
	o.t.Fatalf("%s cannot be removed", dir)
}

// inMemory has no processes and no working directory.
type inMemory struct {
	t   *testing.T
	mem *vfs.Mem
}

func (m inMemory) sim() disk.Simulation   { return disk.Simulation{FS: m.mem} }
func (inMemory) path(name string) string  { return name }
func (m inMemory) rename(from, to string) { fatal(m.t, m.mem.RenameDir(from, to)) }
func (m inMemory) remove(dir string)      { fatal(m.t, m.mem.RemoveAll(dir)) }
func (m inMemory) fill(dir string)        { fatal(m.t, fill(dir, m.sim())) }

// contents are the checksums of the files in a directory.
func contents(t *testing.T, w world, dir string) map[string]uint64 {
	t.Helper()
	fsys := w.sim().FS
	if fsys == nil {
		fsys = vfs.OS{}
	}
	names, err := fsys.List(w.path(dir))
	fatal(t, err)
	out := map[string]uint64{}
	for _, n := range names {
		f, err := fsys.Open(filepath.Join(w.path(dir), n))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a writer has renamed or removed it since
		}
		fatal(t, err)
		size, err := f.Size()
		fatal(t, err)
		h := fnv.New64a()
		_, err = io.Copy(h, io.NewSectionReader(f, 0, size))
		fatal(t, errors.Join(err, f.Close()))
		out[n] = h.Sum64()
	}
	return out
}

// untouched fails if a byte of the other store changed, or it is not whole.
func untouched(t *testing.T, w world, dir string, want map[string]uint64) {
	t.Helper()
	if got := contents(t, w, dir); !maps.Equal(got, want) {
		t.Fatalf("the other store has changed: %v, was %v", got, want)
	}
	(&writer{small: true, n: otherCount}).check(t, w.path(dir), w.sim())
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// moved reports whether a store says that its path leads elsewhere.
func moved(h metrics.Health) bool {
	return slices.ContainsFunc(h.Problems, func(p metrics.Problem) bool { return p.Kind == metrics.TroubleMoved })
}

func open(t *testing.T, w world, small bool, round int) *writer {
	t.Helper()
	d, err := disk.Open(w.path("store"), options(small, round).In(w.sim()))
	fatal(t, err)
	wr := &writer{d: d, small: small}
	fatal(t, wr.put(before))
	return wr
}

// rounds runs a test on both kinds of disk, with small log files and with those of a
// store as it is by default. HELD_SMALL and HELD_DEFAULT say how often on the real one.
func rounds(t *testing.T, test func(t *testing.T, w world, small bool, round int)) {
	number := func(variable string, def int) int {
		n, err := strconv.Atoi(os.Getenv(variable))
		if err != nil {
			return def
		}
		return n
	}
	run := func(kind string, n int, small bool, w func(t *testing.T) world) {
		t.Run(kind, func(t *testing.T) {
			for i := range n {
				test(t, w(t), small, i)
			}
			t.Logf("%d rounds", n)
		})
	}
	sv := func(t *testing.T) world {
		dir, err := os.MkdirTemp(t.TempDir(), "round")
		fatal(t, err)
		return onDisk{t, dir}
	}
	run("small", number("HELD_SMALL", 3), true, sv)
	run("default", number("HELD_DEFAULT", 1), false, sv)
	run("memory", 3, true, func(t *testing.T) world { return inMemory{t, vfs.NewMem(vfs.MemOptions{})} })
}

// TestRenamed: the directory of a live store is renamed, and another store made in its
// place.
func TestRenamed(t *testing.T) {
	rounds(t, func(t *testing.T, w world, small bool, round int) {
		wr := open(t, w, small, round)
		w.rename("store", "moved")
		w.fill("store")
		other := contents(t, w, "store")
		fatal(t, wr.put(wr.after()))
		fatal(t, wr.d.Sync(ctx))
		if h := wr.d.Health(); !moved(h) || h.Status != metrics.StatusDegraded {
			t.Fatalf("health: %+v", h)
		}
		if small {
			fatal(t, wr.d.Compact(ctx))
		}
		fatal(t, wr.d.Close())
		wr.check(t, w.path("moved"), w.sim())
		untouched(t, w, "store", other)
	})
}

// TestWorkingDirectory: a process opens a store by a relative path and goes elsewhere,
// where another store has that name. In memory, where nobody goes anywhere, the two
// change places.
func TestWorkingDirectory(t *testing.T) {
	rounds(t, func(t *testing.T, w world, small bool, round int) {
		if sv, real := w.(onDisk); real {
			fatal(t, errors.Join(os.Mkdir(w.path("a"), 0o750), os.Mkdir(w.path("b"), 0o750)))
			w.fill("b/store")
			other := contents(t, w, "b/store")
			kind := map[bool]string{true: "small", false: "default"}[small]
			wr := &writer{small: small, n: inChild(sv.t, "chdir", w.path("a"), w.path("b"), kind)}
			wr.check(t, w.path("a/store"), w.sim())
			untouched(t, w, "b/store", other)
			return
		}
		w.fill("other")
		other := contents(t, w, "other")
		wr := open(t, w, small, round)
		w.rename("store", "first")
		w.rename("other", "store")
		fatal(t, wr.put(wr.after()))
		fatal(t, wr.d.Close())
		wr.check(t, w.path("first"), w.sim())
		untouched(t, w, "store", other)
	})
}

// TestRemoved: the directory of a live store is removed while a call after call goes on.
// None that begins after it was is acknowledged, and a store that is made there later is
// untouched.
func TestRemoved(t *testing.T) {
	rounds(t, func(t *testing.T, w world, small bool, round int) {
		wr := open(t, w, small, round)
		var removed atomic.Bool
		done := make(chan error)
		go func() {
			for {
				gone := removed.Load()
				err := wr.put(1)
				if err != nil {
					done <- err
					return
				}
				if gone {
					done <- fmt.Errorf("checkpoint %d was acknowledged after the directory was removed", wr.n)
					return
				}
			}
		}()
		w.remove("store")
		removed.Store(true)
		err := <-done
		if !errors.Is(err, fault.ErrPoisoned) {
			t.Fatal(err)
		}
		w.fill("store")
		other := contents(t, w, "store")
		for range 20 {
			if err := wr.put(1); !errors.Is(err, fault.ErrPoisoned) {
				t.Fatalf("after the removal: %v", err)
			}
		}
		if err := wr.d.Sync(ctx); !errors.Is(err, fault.ErrPoisoned) {
			t.Fatalf("sync: %v", err)
		}
		if h := wr.d.Health(); h.Status != metrics.StatusFailed {
			t.Fatalf("health: %+v", h)
		}
		_ = wr.d.Compact(ctx) // fails, and touches nothing
		if wr.d.Close() == nil {
			t.Fatal("closed in order")
		}
		untouched(t, w, "store", other)
	})
}
