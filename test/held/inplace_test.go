package held

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// load is writers and readers of threads of their own, under which somebody changes files.
type load struct {
	w       world
	fs      vfs.FS
	rnd     *rand.Rand
	d       *disk.Saver
	acked   [4]atomic.Int64 // by thread: checkpoints 1 to n are stored
	late    [4]atomic.Int64 // by thread: checkpoints above n were begun after the damage; -1 before it
	refused [4]error
	mode    disk.SyncMode
}

func newLoad(t *testing.T, w world, rnd *rand.Rand) *load {
	l := &load{w: w, fs: w.sim().FS, rnd: rnd}
	if l.fs == nil {
		l.fs = vfs.OS{}
	}
	o := options(true, rnd.IntN(3))
	l.mode = o.Sync
	d, err := disk.Open(w.path("store"), o.In(w.sim()))
	fatal(t, err)
	l.d = d
	return l
}

var inplaceValues = &writer{small: true}

func loadThread(i int) string { return fmt.Sprintf("t%d", i) }

// valueOf is the value of checkpoint n of a thread. No two are alike.
func valueOf(thread, n int) string { return inplaceValues.value(n<<3 | thread) }

// write puts up to n checkpoints more into a thread.
func (l *load) write(thread, n int, damaged *atomic.Bool) error {
	for range n {
		next := int(l.acked[thread].Load()) + 1
		if damaged.Load() {
			l.late[thread].CompareAndSwap(-1, int64(next-1))
		}
		if err := putOne(l.d, loadThread(thread), next, valueOf(thread, next)); err != nil {
			return err
		}
		l.acked[thread].Store(int64(next))
	}
	return nil
}

var errOther = errors.New("it has another value")

// read checks that a checkpoint has its value. It may be damaged, but nothing else.
func read(d *disk.Saver, thread, n int) error {
	tup, err := d.GetTuple(ctx, saver.Config{ThreadID: loadThread(thread), CheckpointID: id(n)})
	if err != nil {
		return err
	}
	if tup == nil {
		return errors.New("it is not there")
	}
	var got string
	if err := tup.Checkpoint.Values["c"].Decode(&got); err != nil {
		return err
	}
	if got != valueOf(thread, n) {
		return errOther
	}
	return nil
}

// kinds of the files of a store, by what their names match.
var kinds = []string{"*.log", "*.log", "*.log", "MANIFEST-*", "DURABLE", "*.seg", "*.img", "LOCK"}

// pick is a file of a kind, the newest of them as a rule; "" if there is none.
func (l *load) pick(t *testing.T, kind string) string {
	names, err := l.fs.List(l.w.path("store"))
	fatal(t, err)
	var found []string
	for _, n := range names {
		if ok, _ := filepath.Match(kind, n); ok {
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 0:
		return ""
	case l.rnd.IntN(2) == 0:
		return filepath.Join(l.w.path("store"), found[l.rnd.IntN(len(found))])
	}
	return filepath.Join(l.w.path("store"), found[len(found)-1])
}

// damages are what somebody does to a file under its writer. old is what the file held a
// while ago.
var damages = map[string]func(f vfs.File, size int64, old []byte, rnd *rand.Rand) error{
	"empty": func(f vfs.File, _ int64, _ []byte, _ *rand.Rand) error { return f.Truncate(0) },
	"cut":   func(f vfs.File, size int64, _ []byte, rnd *rand.Rand) error { return f.Truncate(rnd.Int64N(size + 1)) },
	"cut a little": func(f vfs.File, size int64, _ []byte, rnd *rand.Rand) error {
		return f.Truncate(max(0, size-1-rnd.Int64N(100)))
	},
	"extend": func(f vfs.File, size int64, _ []byte, rnd *rand.Rand) error {
		return f.Truncate(size + 1 + rnd.Int64N(1<<20))
	},
	"append": func(f vfs.File, size int64, old []byte, _ *rand.Rand) error {
		_, err := f.WriteAt(old, size)
		return err
	},
	"restore": func(f vfs.File, _ int64, old []byte, _ *rand.Rand) error { // as cp does
		if err := f.Truncate(0); err != nil {
			return err
		}
		_, err := f.WriteAt(old, 0)
		return err
	},
	"overwrite": func(f vfs.File, _ int64, old []byte, _ *rand.Rand) error { // as rsync --inplace
		_, err := f.WriteAt(old, 0)
		return err
	},
	"garbage": func(f vfs.File, size int64, _ []byte, rnd *rand.Rand) error {
		b := make([]byte, 1+rnd.IntN(5000))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		_, err := f.WriteAt(b, rnd.Int64N(size+1))
		return err
	},
	"zeros": func(f vfs.File, size int64, _ []byte, rnd *rand.Rand) error {
		_, err := f.WriteAt(make([]byte, 1+rnd.IntN(20_000)), rnd.Int64N(size+1))
		return err
	},
}

var damageNames = []string{"empty", "empty", "cut", "cut", "cut a little", "extend", "append", "restore", "overwrite", "garbage", "zeros"}

// damage changes a file in place, and reports false if it is gone meanwhile.
func (l *load) damage(name, how string, old []byte) (bool, error) {
	f, err := l.fs.OpenReadWrite(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	size, err := f.Size()
	if err == nil {
		err = damages[how](f, size, old, l.rnd)
	}
	return true, errors.Join(err, f.Close())
}

func (l *load) content(name string) []byte {
	f, err := l.fs.Open(name)
	if err != nil {
		return nil
	}
	size, err := f.Size()
	b := make([]byte, size)
	n, rerr := f.ReadAt(b, 0)
	if rerr != nil && !errors.Is(rerr, io.EOF) {
		err = rerr
	}
	if errors.Join(err, f.Close()) != nil {
		return nil
	}
	return b[:n]
}

// TestChangedInPlace: somebody cuts, extends or overwrites a file of a store in place, under
// its writers. No read then gives anything but the value or ErrCorrupt. What was
// acknowledged is there after the next Open, or is named as damaged, by Open or by the
// read; what was begun after the damage and acknowledged is there.
func TestChangedInPlace(t *testing.T) {
	count := 10
	if n, err := strconv.Atoi(os.Getenv("INPLACE_ROUNDS")); err == nil {
		count = n
	}
	seed := rand.Uint64()
	if s, err := strconv.ParseUint(os.Getenv("INPLACE_SEED"), 10, 64); err == nil {
		seed, count = s, 1
	}
	said := map[string]int{}
	for range count {
		what := changedInPlace(t, seed)
		if t.Failed() {
			t.Fatalf("repeat with INPLACE_SEED=%d go test ./test/held -run '^TestChangedInPlace$'", seed)
		}
		said[what]++
		seed++
	}
	t.Logf("%v", said)
}

func changedInPlace(t *testing.T, seed uint64) string {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var w world = inMemory{t, vfs.NewMem(vfs.MemOptions{})}
	if rnd.IntN(2) == 0 {
		w = onDisk{t, t.TempDir()}
	}
	l := newLoad(t, w, rnd)
	for i := range l.late {
		l.late[i].Store(-1)
	}
	var damaged, stop atomic.Bool
	for i := range l.acked {
		fatal(t, l.write(i, 1+rnd.IntN(60), &damaged))
	}
	if rnd.IntN(4) == 0 {
		fatal(t, l.d.Flush(ctx))
	}
	kind, how := kinds[rnd.IntN(len(kinds))], damageNames[rnd.IntN(len(damageNames))]
	at := int64(rnd.IntN(100))
	if rnd.IntN(4) == 0 {
		at = 0 // while nobody writes
	}
	name := l.pick(t, kind)
	old := l.content(name)

	var writers, readers sync.WaitGroup
	for i := range l.acked {
		readers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for !stop.Load() {
				n := 1 + r.IntN(int(l.acked[i].Load()))
				if err := read(l.d, i, n); err != nil && !errors.Is(err, saver.ErrCorrupt) {
					t.Errorf("reading checkpoint %d of thread %d: %v", n, i, err)
					return
				}
			}
		})
	}
	before := l.total()
	damage := func() string {
		was := name
		if _, err := l.fs.Open(name); err != nil || rnd.IntN(2) == 0 {
			name = l.pick(t, kind)
		}
		if name == "" {
			return ""
		}
		if name != was {
			old = l.content(name)
		}
		ok, err := l.damage(name, how, old)
		if err != nil {
			t.Errorf("%s %s: %v", how, name, err)
		}
		if !ok {
			return ""
		}
		damaged.Store(true)
		return filepath.Base(name)
	}
	victim := ""
	if at == 0 {
		victim = damage()
	}
	for i := range l.acked {
		writers.Go(func() { l.refused[i] = l.write(i, 60, &damaged) })
	}
	if at > 0 {
		for l.total() < before+at {
			if _, err := l.fs.FreeSpace(l.w.path("store")); err != nil {
				t.Error(err)
			}
		}
		victim = damage()
	}
	writers.Wait()
	sync := l.d.Sync(ctx)
	if sync == nil && damaged.Load() && strings.HasSuffix(victim, ".log") && rnd.IntN(2) == 0 {
		_ = l.d.Compact(ctx)
	}
	stop.Store(true)
	readers.Wait()
	for i, err := range l.refused {
		if err != nil && !errors.Is(err, fault.ErrPoisoned) && !errors.Is(err, saver.ErrCorrupt) {
			t.Errorf("thread %d was refused with %v", i, err)
		}
	}
	closed := l.d.Close()
	what := fmt.Sprintf("%s of %s: ", how, kind)
	if t.Failed() {
		t.Logf("%s%s mode %v sync %v, close %v", what, victim, l.mode, sync, closed)
		return what
	}
	out := l.check(t)
	if t.Failed() {
		t.Logf("%s%s mode %v sync %v, close %v, refused %v, open %s", what, victim, l.mode, sync, closed, l.refused, out)
	}
	return what + out
}

func (l *load) total() (n int64) {
	for i := range l.acked {
		n += l.acked[i].Load()
	}
	return n
}

// check opens what is left, and what can be saved of it where that is not all. It says how it
// went.
func (l *load) check(t *testing.T) string {
	dir, saved := l.w.path("store"), l.w.path("saved")
	d, err := disk.Open(dir, disk.Options{Simulation: l.w.sim()})
	if err == nil {
		lost := l.missing(d, func(thread, n int, err error) {
			if !errors.Is(err, saver.ErrCorrupt) {
				t.Errorf("checkpoint %d of thread %d was acknowledged: %v", n, thread, err)
			}
		})
		if err := d.Close(); err != nil && (lost == 0 || !errors.Is(err, saver.ErrCorrupt)) {
			t.Errorf("close with %d lost: %v", lost, err)
		}
		if lost == 0 {
			return "whole"
		}
	}
	var c *fault.CorruptionError
	if err != nil && (!errors.As(err, &c) || c.File == "") {
		t.Fatalf("open: %v", err)
	}
	rep, serr := admin.Salvage(ctx, dir, saved, admin.SalvageOptions{Access: admin.Access{Options: disk.Options{Simulation: l.w.sim()}}})
	fatal(t, serr)
	if len(rep.Damage) == 0 {
		t.Errorf("open said %v, salvage found nothing", err)
	}
	if d, serr = disk.Open(saved, disk.Options{Simulation: l.w.sim()}); serr != nil {
		t.Fatalf("what was saved: %v", serr)
	}
	lost := l.missing(d, func(thread, n int, err error) {
		if late := l.late[thread].Load(); late >= 0 && int64(n) > late {
			t.Errorf("checkpoint %d of thread %d was begun after the damage and acknowledged: %v", n, thread, err)
		}
		if errors.Is(err, errOther) {
			t.Errorf("checkpoint %d of thread %d: %v", n, thread, err)
		}
	})
	fatal(t, d.Close())
	switch {
	case err != nil && lost > 0:
		return "refused, saved in part"
	case err != nil:
		return "refused, saved"
	case lost > 0:
		return "named, saved in part"
	}
	return "named, saved"
}

// missing calls each for every acknowledged checkpoint that d does not have, and counts them.
func (l *load) missing(d *disk.Saver, each func(thread, n int, err error)) (lost int) {
	for i := range l.acked {
		for n := 1; n <= int(l.acked[i].Load()); n++ {
			if err := read(d, i, n); err != nil {
				each(i, n, err)
				lost++
			}
		}
	}
	return lost
}
