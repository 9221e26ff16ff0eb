package engine

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/wal"
)

// tempFS fails the first so many times that the copy of the end of the log is created.
type tempFS struct {
	vfs.FS
	fail atomic.Int32
}

func (f *tempFS) Create(name string) (vfs.File, error) {
	if strings.HasSuffix(name, ".log.tmp") && f.fail.Add(-1) >= 0 {
		return nil, fmt.Errorf("create %s: %w", name, syscall.ENOSPC)
	}
	return f.FS.Create(name)
}

// killedUnpromised is the disk of a killed store with n records that nothing promises.
func killedUnpromised(t *testing.T, n int) *crashfs.FS {
	t.Helper()
	fs := crashfs.New()
	o := quietOptions(fs)
	o.Sync = wal.SyncNever
	e := mustOpen(t, o)
	for i := range n {
		mustAll(t, putOne(e, fmt.Sprint("thread ", i%7), fmt.Sprint("k", i), fmt.Sprint("value ", i)))
	}
	fs.Kill()
	_ = e.Close() // of the process that was killed
	return fs
}

// TestCopyAfterSweep: a copy of the end of the log for which there is no room beside the
// last records is made after the leftovers are swept; if not even then, Open fails and
// the next one finds all.
func TestCopyAfterSweep(t *testing.T) {
	for _, inline := range []bool{true, false} {
		for fails := range int32(3) {
			fs := &tempFS{FS: killedUnpromised(t, 40)}
			fs.fail.Store(fails)
			stale(t, fs.FS)
			o := quietOptions(fs)
			o.Inline = inline
			e, err := Open("store", o)
			if fails == 2 {
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("no room at all: %v", err)
				}
				e, err = Open("store", o)
			}
			mustAll(t, err)
			if e.Report().Rewritten != 40 || len(e.Report().UnknownFiles) != 0 {
				t.Fatalf("inline %v, %d failures: %+v", inline, fails, e.Report())
			}
			for i := range 40 {
				wantValue(t, e, fmt.Sprint("thread ", i%7), fmt.Sprint("k", i), fmt.Sprint("value ", i))
			}
			mustAll(t, e.Close())
			names, err := fs.List("store")
			mustAll(t, err)
			if i := slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, ".log.tmp") }); i >= 0 {
				t.Fatalf("left behind: %s", names[i])
			}
		}
	}
}

// stale leaves a copy that another Open made and did not live to name.
func stale(t *testing.T, fs vfs.FS) {
	t.Helper()
	names, err := fs.List("store")
	mustAll(t, err)
	for _, n := range names {
		if _, ok := base.LogFile.Parse(n); ok {
			f, err := fs.Create(filepath.Join("store", n+".tmp"))
			mustAll(t, err)
			_, err = f.WriteAt([]byte("stale"), 0)
			mustAll(t, err, f.Close())
		}
	}
}

// TestCrashAfterCopyWithoutRoom: an Open that finds no room closes the manifest, and the
// next one goes on with it as it is. Whenever that dies, nothing is lost, and no file of
// its own is a stranger to the one after it.
func TestCrashAfterCopyWithoutRoom(t *testing.T) {
	disk := killedUnpromised(t, 5)
	fs := &tempFS{FS: disk}
	fs.fail.Store(2)
	if _, err := Open("store", quietOptions(fs)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	from := disk.Len()
	mustAll(t, mustOpen(t, quietOptions(disk)).Close())
	states := 0
	for n := from; n <= disk.Len(); n++ {
		for s := range disk.States(n, crashfs.Options{Seed: 1, Random: 4}) {
			states++
			e, err := Open("store", quietOptions(s.FS()))
			if err != nil {
				t.Fatalf("after operation %d: %v", n, err)
			}
			if left := e.Report().UnknownFiles; len(left) > 0 {
				t.Fatalf("after operation %d: strangers: %v", n, left)
			}
			mustAll(t, e.Close())
		}
	}
	t.Logf("%d crash states", states)
}

// slowFull is a disk that takes a moment to say that a copy of the end of the log does
// not fit: what is written meanwhile does not fit either.
type slowFull struct{ vfs.FS }

type slowFullFile struct{ vfs.File }

func (f slowFull) Create(name string) (vfs.File, error) {
	file, err := f.FS.Create(name)
	if err == nil && strings.HasSuffix(name, ".log.tmp") {
		return slowFullFile{file}, nil
	}
	if strings.Contains(name, "MANIFEST") {
		time.Sleep(time.Millisecond)
	}
	return file, err
}

func (f slowFullFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	if err != nil {
		time.Sleep(3 * time.Millisecond)
	}
	return n, err
}

// TestRoomForManifest: a disk on which there is room for the manifest alone, until
// leftovers are swept, opens, whether the copy of the end of the log is made before the
// manifest or beside it.
func TestRoomForManifest(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	o := quietOptions(mem)
	o.Sync = wal.SyncNever
	e := mustOpen(t, o)
	for i := range 40 {
		mustAll(t, putOne(e, fmt.Sprint("thread ", i%7), fmt.Sprint("k", i), strings.Repeat("value", 200)))
	}
	killed := mem.Image()
	mustAll(t, e.Close())
	opened := 0
	for n := range 2 * 39 {
		room, inline := int64(12+n/2*3)<<10, n%2 == 0
		mem := vfs.NewMemFrom(killed, vfs.MemOptions{})
		f, err := mem.Create("store/000002.seg") // a compaction did not come to its end
		mustAll(t, err)
		_, err = f.WriteAt(make([]byte, 1<<20), 0)
		mustAll(t, err, f.Close())
		used := int64(0)
		for _, b := range filesOf(t, mem) {
			used += int64(len(b))
		}
		mem.SetCapacity(used + room)
		o := quietOptions(slowFull{mem})
		o.Inline = inline
		e, err := Open("store", o)
		if err != nil {
			t.Fatalf("room for %d bytes, inline %t: %v", room, inline, err)
		}
		if e.Report().Replayed != 40 || len(e.Report().RemovedFiles) == 0 {
			t.Fatalf("room for %d bytes, inline %t: %+v", room, inline, e.Report())
		}
		for i := range 40 {
			wantValue(t, e, fmt.Sprint("thread ", i%7), fmt.Sprint("k", i), strings.Repeat("value", 200))
		}
		mustAll(t, e.Close())
		opened++
	}
	t.Logf("%d stores opened", opened)
}

// TestNoCopyOfRefusedLog: a log whose records cannot be replayed leaves the directory
// as it was, though its end may have been copied by then.
func TestNoCopyOfRefusedLog(t *testing.T) {
	for round := range 30 { // whether the copy or the refusal comes first is not said
		inline := round == 0
		mem := vfs.NewMem(vfs.MemOptions{})
		o := quietOptions(mem)
		o.Sync = wal.SyncNever
		e := mustOpen(t, o)
		for i := range 40 {
			mustAll(t, putOne(e, fmt.Sprint("thread ", i), "k", "value"))
		}
		// A record of a format to come, as a newer version writes it.
		newer := &Tx{e: e}
		mustAll(t, e.log.Commit(t.Context(), &wal.Record{Size: 20, User: newer, Prepare: func(base.LSN) ([][]byte, error) {
			e.unpublished.add(newer)
			return [][]byte{{recordFormat + 1}, make([]byte, 19)}, nil
		}}))
		copied := vfs.NewMem(vfs.MemOptions{})
		mustAll(t, copied.MkdirAll("store"))
		names, err := mem.List("store")
		mustAll(t, err)
		for _, n := range names {
			if n != LockName && !strings.HasSuffix(n, ".tmp") && n != wal.MarkName {
				copyFile(t, mem, copied, n)
			}
		}
		mustAll(t, e.Close())
		before := filesOf(t, copied)
		fs := &tempFS{FS: copied}
		o.FS, o.Inline = fs, inline
		if _, err := Open("store", o); !errors.Is(err, fault.ErrVersion) {
			t.Fatalf("inline %v: %v", inline, err)
		}
		if made := -fs.fail.Load(); made > 1 || inline && made > 0 {
			t.Fatalf("inline %v: %d copies", inline, made)
		}
		after := filesOf(t, copied)
		delete(after, LockName)
		if !maps.Equal(after, before) {
			t.Fatalf("inline %v: %v, was %v", inline, fileSizes(after), fileSizes(before))
		}
	}
}

// copyFile copies a file as it is.
func copyFile(t *testing.T, from, to vfs.FS, name string) {
	t.Helper()
	out, err := to.Create(filepath.Join("store", name))
	mustAll(t, err)
	_, err = out.WriteAt(fileBytes(t, from, name), 0)
	mustAll(t, err, out.Close())
}
