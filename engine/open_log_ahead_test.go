package engine

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/wal"
)

// fakeLog is a log of n records of a put each, with a value and a key of so many bytes,
// that ends with err. Its payloads are overwritten after each visit.
func fakeLog(n, key int, err error) func(func(wal.Entry) error, func(wal.Recovery) error) (wal.Recovery, error) {
	return func(add func(wal.Entry) error, ended func(wal.Recovery) error) (wal.Recovery, error) {
		rec := wal.Recovery{LastLSN: base.LSN(n)}
		for i := range n {
			head := appendRecordHeader(nil, &logRecord{time: int64(i), ops: []recordOp{{kind: opPut, id: fmt.Sprint("thread ", i), key: strings.Repeat("k", key),
				slots: []recordSlot{{name: "s", encoding: slotInline, len: 5, sum: uint64(i)}, {name: "r", encoding: slotRef, lsn: 1, ord: 2}}}}})
			payload := append(head, "value"...)
			if aerr := add(wal.Entry{LSN: base.LSN(i + 1), File: 7, Offset: int64(100 * i), Payload: payload}); aerr != nil {
				return rec, aerr
			}
			for j := range payload {
				payload[j] = 0xff
			}
		}
		if err == nil {
			err = ended(rec)
		}
		return rec, err
	}
}

// check compares the next records of a log of fakeLog; n is how many there were.
func check(t *testing.T, b *recordBatch, n, key int) int {
	t.Helper()
	if len(b.ops) != len(b.records) || len(b.values) != len(b.records) {
		t.Fatalf("%d records, %d operations, %d values", len(b.records), len(b.ops), len(b.values))
	}
	for i, r := range b.records {
		lsn := base.LSN(n + i + 1)
		o := b.ops[i]
		want := index.Entry{Key: strings.Repeat("k", key), LSN: lsn, Slots: index.PackSlots([]index.Slot{{Name: "s", Ref: index.Ref{LSN: lsn}}, {Name: "r", Ref: index.Ref{LSN: 1, Ord: 2}}})}
		if r.err != nil || r.lsn != lsn || r.time != int64(n+i) || r.ops != 1 || o.values != 1 || o.id != fmt.Sprint("thread ", n+i) || fmt.Sprint(*o.entry) != fmt.Sprint(want) {
			t.Fatalf("record %d: %+v, %+v", lsn, r, o)
		}
		if v := b.values[i]; v.Ref != want.Slots.At(0).Ref || v.Loc.File != 7 || v.Loc.Off <= uint64(r.offset) || v.Loc.Sum != uint64(n+i) {
			t.Fatalf("value of record %d: %+v", lsn, v)
		}
	}
	return n + len(b.records)
}

// TestReadsAhead: all records come, in order, though the reader uses its memory again; the
// end is told once, after the last of them; damage comes after the records before it.
func TestReadsAhead(t *testing.T) {
	damage := errors.New("damage")
	for _, c := range []struct {
		n, key int
		err    error
	}{{0, 1, nil}, {1, 1, nil}, {5000, 10, nil}, {3000, 1000, nil}, {40, aheadBytes, nil}, {700, 10, damage}} {
		var ended []wal.Recovery
		l := readLog(fakeLog(c.n, c.key, c.err), func(r wal.Recovery) error { ended = append(ended, r); return nil })
		n := 0
		rec, err := l.replayAll(func(b *recordBatch) error { n = check(t, b, n, c.key); return nil })
		if err != c.err || n != c.n || rec.LastLSN != base.LSN(c.n) {
			t.Fatalf("%d of %d records of %d bytes, up to %d, %v", n, c.n, c.key, rec.LastLSN, err)
		}
		if len(ended) != 1 && c.err == nil || c.err != nil && ended != nil {
			t.Fatalf("told %d times that the log ended, %v", len(ended), err)
		}
	}
}

// TestReplayFails: the error of a replay, or of who is told of the end, is that of the
// whole; nothing is replayed after it, and no goroutine stays behind. Nor does a panic
// leave one.
func TestReplayFails(t *testing.T) {
	enough := errors.New("enough")
	for _, panics := range []bool{false, true} {
		for fail := 1; fail < 12; fail++ {
			l, n := readLog(fakeLog(20_000, 100, nil), nil), 0
			var got any
			func() {
				defer func() {
					if p := recover(); p != nil {
						got = p
					}
				}()
				_, got = l.replayAll(func(*recordBatch) error {
					if n++; n < fail {
						return nil
					}
					if panics {
						panic(enough)
					}
					return enough
				})
			}()
			if _, more := <-l.full; got != enough || n != fail || more {
				t.Fatalf("batch %d of %d: %v, more: %t", n, fail, got, more)
			}
		}
	}
	l := readLog(fakeLog(100, 1, nil), func(wal.Recovery) error { return enough })
	if _, err := l.replayAll(func(*recordBatch) error { return nil }); err != enough {
		t.Fatal(err)
	}
}

// TestReadingStops: a log that is not going to be replayed is read no further, and nobody
// is told of its end, even if it was found.
func TestReadingStops(t *testing.T) {
	for _, n := range []int{0, 3, 1 << 30} {
		l := readLog(fakeLog(n, 100, nil), func(wal.Recovery) error { t.Error("told of the end"); return nil })
		l.stop()
		if _, more := <-l.full; more {
			t.Errorf("%d records: there is more", n)
		}
	}
}

// TestAheadIsBounded: the reader is no further ahead than it says, whatever the size of the
// records, and who is to be told of the end hears of it when the replay has begun.
func TestAheadIsBounded(t *testing.T) {
	for _, key := range []int{0, 100, 30 << 10} {
		const most = (aheadBatches + 1) * aheadBytes
		n := 2 * most / (key + 100)
		var ended atomic.Bool
		l := readLog(fakeLog(n, key, nil), func(wal.Recovery) error { ended.Store(true); return nil })
		replayed, early := 0, 0
		_, err := l.replayAll(func(b *recordBatch) error {
			if replayed += len(b.records); early == 0 {
				time.Sleep(20 * time.Millisecond) // in which all could be read
				if early++; ended.Load() {
					t.Errorf("keys of %d bytes: all %d records were read beside the first batch", key, n)
				}
			}
			return nil
		})
		if err != nil || replayed != n || !ended.Load() {
			t.Fatalf("keys of %d bytes: %d of %d records, %v", key, replayed, n, err)
		}
	}
	var ended atomic.Bool
	l := readLog(fakeLog(3, 1, nil), func(wal.Recovery) error { ended.Store(true); return nil })
	time.Sleep(5 * time.Millisecond)
	if ended.Load() {
		t.Error("told of the end before anything is replayed")
	}
	if _, err := l.replayAll(func(*recordBatch) error { return nil }); err != nil || !ended.Load() {
		t.Errorf("told of the end: %t, %v", ended.Load(), err)
	}
}

// TestImagesFailBesideLog: where the images turn out to be damaged, what was read of the
// log meanwhile is let go, and read again from where the segments end.
func TestImagesFailBesideLog(t *testing.T) {
	for _, many := range []bool{false, true} {
		mem := vfs.NewMem(vfs.MemOptions{})
		o := Options{FS: mem, ManualWork: true, Sync: wal.SyncNever}
		e := mustOpen(t, o)
		mustAll(t, putOne(e, "t", "k", "in a segment"), e.Flush(t.Context()), putOne(e, "u", "k", "in an image"), e.WriteImage(t.Context()))
		n := 5
		if many {
			n = 12_000 // more than is read ahead
		}
		for i := range n {
			mustAll(t, putOne(e, fmt.Sprint("v", i%50), "k", fmt.Sprint(i)))
		}
		killed := vfs.NewMemFrom(mem.Image(), vfs.MemOptions{})
		mustAll(t, e.Close())
		spoil(t, killed, ".img")
		o.FS = killed
		e = mustOpen(t, o)
		if rep := e.Report(); !rep.IndexRebuilt || rep.Replayed != n+1 {
			t.Errorf("%d records: %+v", n, rep)
		}
		wantValue(t, e, "t", "k", "in a segment")
		wantValue(t, e, "u", "k", "in an image")
		for i := n - min(n, 50); i < n; i++ {
			wantValue(t, e, fmt.Sprint("v", i%50), "k", fmt.Sprint(i))
		}
		mustAll(t, e.Close())
	}
}

// panicFS panics when an image is opened.
type panicFS struct{ vfs.FS }

func (f panicFS) Open(name string) (vfs.File, error) {
	if strings.HasSuffix(name, ".img") {
		panic("enough")
	}
	return f.FS.Open(name)
}

// TestPanicBesideLog: a panic while the images are loaded reaches the caller, and the
// goroutine that reads the log has ended.
func TestPanicBesideLog(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	e := mustOpen(t, Options{FS: mem, ManualWork: true})
	mustAll(t, putOne(e, "t", "k", "v"), e.WriteImage(t.Context()), putOne(e, "t", "l", "v"))
	killed := vfs.NewMemFrom(mem.Image(), vfs.MemOptions{})
	mustAll(t, e.Close())
	func() {
		defer func() {
			if p := recover(); p != "enough" {
				t.Errorf("panic: %v", p)
			}
		}()
		_, err := Open("store", Options{FS: panicFS{killed}, ManualWork: true})
		t.Errorf("opened: %v", err)
	}()
	if stacks := stays("engine.readLog."); stacks != "" {
		t.Errorf("a goroutine stays behind:\n%s", stacks)
	}
}

// stays returns all stacks if a goroutine is in a function and does not end.
func stays(function string) string {
	buf := make([]byte, 1<<20)
	for range 1000 { // one that has done its work may still have to return
		stacks := string(buf[:runtime.Stack(buf, true)])
		if !strings.Contains(stacks, function) {
			return ""
		}
		time.Sleep(time.Millisecond)
	}
	return string(buf[:runtime.Stack(buf, true)])
}

// A patch is made of a value before it, and not of one so far back that no place says so.
func TestPatchesAreMadeOfEarlierValues(t *testing.T) {
	for _, c := range []struct {
		name string
		base index.Ref
	}{{"itself", index.Ref{LSN: 1 << 33}}, {"a later one", index.Ref{LSN: 1 << 40}}, {"one too far back", index.Ref{LSN: 1}}} {
		s := recordSlot{encoding: slotPatch, base: c.base}
		if _, _, err := slotLoc(&s, &wal.Entry{LSN: 1 << 33, File: 1}); err == nil {
			t.Errorf("a patch against %s is accepted", c.name)
		}
	}
}
