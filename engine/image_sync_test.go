package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// An image that the manifest names may not be ahead of the log, in any mode: else a
// loss of power leaves an index of records that are nowhere, and Open refuses the
// store.
func TestImageWaitsForTheLog(t *testing.T) {
	for _, publish := range map[string]func(e *Engine) error{
		"image": func(e *Engine) error { return e.WriteImage(t.Context()) },
		"flush": func(e *Engine) error { return e.Flush(t.Context()) },
	} {
		fs := crashfs.New()
		o := quietOptions(fs)
		o.Sync = wal.SyncNever
		e := mustOpen(t, o)
		mustAll(t, putOne(e, "a", "k", "1"), publish(e))
		mustAll(t, putOne(e, "a", "k", "2"), putOne(e, "b", "k", "3"), publish(e))
		states := 0
		for s := range fs.States(fs.Len(), crashfs.Options{Seed: 1, Random: 4}) {
			after := mustOpen(t, quietOptions(s.FS()))
			wantValue(t, after, "a", "k", "2")
			wantValue(t, after, "b", "k", "3")
			mustAll(t, after.Close())
			states++
		}
		if states == 0 {
			t.Fatal("no crash state")
		}
		mustAll(t, e.Close())
	}
}

// The mark is one file, and the store it is of is told by its id: beside the manifest
// of another store it says nothing.
func TestMarkOfAnotherStore(t *testing.T) {
	stores := [2]*vfs.Mem{vfs.NewMem(vfs.MemOptions{}), vfs.NewMem(vfs.MemOptions{})}
	for i, mem := range stores {
		e := mustOpen(t, quietOptions(mem))
		for range 3 * (i + 1) {
			mustAll(t, putOne(e, "a", "k", "1"))
		}
		mustAll(t, e.Close())
	}
	putBytes(t, stores[0], wal.MarkName, []byte(filesOf(t, stores[1])[wal.MarkName]))
	e := mustOpen(t, quietOptions(stores[0]))
	wantValue(t, e, "a", "k", "1")
	mustAll(t, putOne(e, "a", "k", "2"), e.Close())
	m, err := wal.ReadMark(stores[0], "store")
	if err != nil || m.LSN != 4 {
		t.Fatalf("mark %+v, %v: not taken over", m, err)
	}
}

// A log that ends before the image, or before a clean close, is damaged, though
// nothing is left of the mark, nor of the images themselves.
func TestManifestMissesTheEndOfTheLog(t *testing.T) {
	for _, clean := range []bool{true, false} {
		mem := vfs.NewMem(vfs.MemOptions{})
		e := mustOpen(t, quietOptions(mem))
		mustAll(t, putOne(e, "a", "k", "1"), putOne(e, "a", "k", "2"))
		end := e.log.Position()
		mustAll(t, putOne(e, "a", "k", "3"))
		if !clean {
			mustAll(t, e.WriteImage(t.Context()))
			mem = vfs.NewMemFrom(mem.Image(), vfs.MemOptions{})
		}
		mustAll(t, e.Close())
		name := base.LogFile.Name(end.File)
		putBytes(t, mem, name, []byte(filesOf(t, mem)[name][:end.Offset]))
		mustAll(t, mem.Remove("store/"+wal.MarkName))
		for n := range filesOf(t, mem) {
			if strings.HasSuffix(n, ".img") {
				mustAll(t, mem.Remove("store/"+n))
			}
		}
		if _, err := Open("store", quietOptions(mem)); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("clean %v: %v", clean, err)
		}
	}
}

// An older copy of the manifest names an older log. The file behind it is refused,
// and stays, though no mark tells of it.
func TestOlderManifestKeepsTheLog(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	e := mustOpen(t, quietOptions(mem))
	mustAll(t, putOne(e, "a", "k", "1"))
	older := ""
	for i := 0; e.log.Metrics().Rotations < 2; i++ {
		if older == "" && e.log.Metrics().Rotations == 1 {
			older = filesOf(t, mem)[snapshot.ManifestName(1)]
		}
		mustAll(t, putOne(e, "a", "k", strings.Repeat("x", 9000)))
	}
	killed := vfs.NewMemFrom(mem.Image(), vfs.MemOptions{})
	mustAll(t, e.Close())
	putBytes(t, killed, snapshot.ManifestName(1), []byte(older))
	before := filesOf(t, killed)
	for _, mark := range []bool{true, false} {
		if !mark {
			mustAll(t, killed.Remove("store/"+wal.MarkName))
		}
		if _, err := Open("store", quietOptions(killed)); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("with a mark %v: %v", mark, err)
		}
		for n := range before {
			if _, ok := filesOf(t, killed)[n]; !ok && n != wal.MarkName {
				t.Fatalf("with a mark %v: %s was removed", mark, n)
			}
		}
	}
}
