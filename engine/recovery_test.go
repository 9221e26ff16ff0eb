package engine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/wal"
)

// meteredFS counts what is read, and looks at each read how much memory is in use.
type meteredFS struct {
	vfs.FS
	read atomic.Int64
	peak atomic.Int64
}

func (m *meteredFS) Open(name string) (vfs.File, error) {
	f, err := m.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return meteredFile{f, m}, nil
}

// look notes the heap; the collector is made to run often, so that it is about what
// is reachable.
func (m *meteredFS) look() {
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	for at := int64(s.HeapAlloc); ; {
		old := m.peak.Load()
		if at <= old || m.peak.CompareAndSwap(old, at) {
			return
		}
	}
}

type meteredFile struct {
	vfs.File
	fs *meteredFS
}

func (f meteredFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.fs.read.Add(int64(n))
	f.fs.look()
	return n, err
}

// killedStore leaves a store as a killed process would: n values of size bytes in a
// log of which nothing was synced, flushed or imaged. It returns the bytes of the log.
func killedStore(t *testing.T, n, size int) (dir string, logBytes int64) {
	t.Helper()
	live := t.TempDir()
	o := Options{ManualWork: true, Sync: wal.SyncNever, LogFileSize: 4 << 20, NoPatches: true, VersionBytes: -1, CacheBytes: -1}
	e, err := Open(live, o)
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.Repeat([]byte("recovery "), size/9+1)[:size]
	for i := range n {
		copy(b, fmt.Sprintf("%08d", i))
		v, err := NewValue(bytes.Clone(b))
		if err != nil {
			t.Fatal(err)
		}
		err = e.Commit(t.Context(), nil, func(tx *Tx) error {
			return tx.Put(residentID(i%50), fmt.Sprintf("c\x00%012d", i), index.FlagHead, []SlotIn{{Name: "v", Tag: "1", Value: &v}})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	names, err := os.ReadDir(live)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".tmp") { // the next log file, being filled
			continue
		}
		b, err := os.ReadFile(filepath.Join(live, n.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, n.Name()), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(n.Name(), ".log") {
			logBytes += int64(len(b))
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, logBytes
}

// TestRecoveryIsBounded opens killed stores of a large log and of one twice as
// large, whose values would not fit the memory allowed. What recovery holds is a
// buffer of the log and an entry for each record, however large; what it reads is in
// proportion to the log.
func TestRecoveryIsBounded(t *testing.T) {
	const (
		valueBytes = 64 << 10
		fixed      = 4 << 20 // buffers of reading and copying
		perRecord  = 1 << 10 // entry, place of its value, offsets
	)
	records := 256
	if n, err := strconv.Atoi(os.Getenv("STELE_RECOVERY_RECORDS")); err == nil && n > 0 {
		records = n
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	var perByte [2]float64
	for i, n := range []int{records, 2 * records} {
		dir, logBytes := killedStore(t, n, valueBytes)
		runtime.GC()
		m := &meteredFS{FS: vfs.OS{}}
		m.look()
		before := m.peak.Load()
		e, err := Open(dir, Options{FS: m, ManualWork: true, LogFileSize: 4 << 20})
		if err != nil {
			t.Fatal(err)
		}
		m.look()
		used, read := m.peak.Load()-before, m.read.Load()
		if e.Report().Replayed != n {
			t.Fatalf("%d records replayed, want %d", e.Report().Replayed, n)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		t.Logf("log of %d bytes: %d records, %d bytes read, %d bytes of heap at most", logBytes, n, read, used)
		if most := int64(fixed + perRecord*n); used > most {
			t.Errorf("recovery of %d records takes %d bytes of memory, want %d at most", n, used, most)
		}
		// A frame across the end of the buffer is read again. The file that the log ends
		// in is read twice, and looked at for what a crash may have left behind the end.
		if most := logBytes*3/2 + 4*(4<<20); read > most {
			t.Errorf("recovery of a log of %d bytes reads %d, want %d at most", logBytes, read, most)
		}
		perByte[i] = float64(read) / float64(logBytes)
	}
	if perByte[1] > perByte[0]*1.05 {
		t.Errorf("twice the log costs %.2f reads of each byte instead of %.2f", perByte[1], perByte[0])
	}
}
