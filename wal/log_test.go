package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

func TestCommitCloseRecover(t *testing.T) {
	for _, mode := range []Mode{SyncAlways, SyncInterval, SyncNever} {
		for _, inline := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/inline=%v", mode, inline), func(t *testing.T) {
				w := newWorld(vfs.NewMem(vfs.MemOptions{}))
				l := w.open(t, func(o *Options) { o.Mode, o.Inline = mode, inline })
				if names, _ := w.fs.List(w.dir); len(names) != 0 {
					t.Fatalf("New made %v; the first commit makes the first file", names)
				}
				const count = 500
				for i := 1; i <= count; i++ {
					mustCommit(t, l, i, 400)
				}
				if got := l.LastLSN(); got != count {
					t.Fatalf("LastLSN %d", got)
				}
				if mode == SyncAlways && l.DurableLSN() != count {
					t.Fatalf("DurableLSN %d in mode always", l.DurableLSN())
				}
				if err := l.Sync(context.Background()); err != nil {
					t.Fatal(err)
				}
				if got := l.DurableLSN(); got != count {
					t.Fatalf("DurableLSN %d after Sync", got)
				}
				mustClose(t, l)
				if err := commit(l, nil); !errors.Is(err, fault.ErrClosed) {
					t.Fatalf("commit after close: %v", err)
				}
				got, r, err := readLog(w.recoverOptions())
				if err != nil {
					t.Fatal(err)
				}
				checkPayloads(t, got, count, 400)
				if !r.Clean || r.Torn.Bytes != 0 || r.Unpromised.Records != 0 || len(r.Strays) != 0 {
					t.Fatalf("after a clean close: %+v", r)
				}
				if len(r.Files) < 3 {
					t.Fatalf("%d files; rotation did not happen", len(r.Files))
				}
				listed := w.recoverOptions()
				listed.Files = nil
				got2, r2, err := readLog(listed)
				if err != nil {
					t.Fatal(err)
				}
				checkPayloads(t, got2, count, 400)
				if r2.End != r.End {
					t.Fatalf("without a manifest the log ends at %+v, with it at %+v", r2.End, r.End)
				}
			})
		}
	}
}

// The places that Apply reports hold the payloads.
func TestPlaces(t *testing.T) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t)
	var recs []*Record
	want := [][]byte{payload(1, 10), payload(2, 0), payload(3, 3<<20), payload(4, 100), payload(5, 70<<10)}
	for _, b := range want {
		// Several parts, so that large records mix joined and direct pieces.
		r := record(b[:len(b)/3], b[len(b)/3:len(b)/3], b[len(b)/3:])
		if err := l.Commit(context.Background(), r); err != nil {
			t.Fatal(err)
		}
		recs = append(recs, r)
	}
	mustClose(t, l)
	var seen []Entry
	_, err := Recover(w.recoverOptions(), func(e Entry) error {
		e.Payload = bytes.Clone(e.Payload)
		seen = append(seen, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range recs {
		file := readFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(r.File)))
		if !bytes.Equal(file[r.Offset:][:r.Len], want[i]) {
			t.Fatalf("record %d is not at %s:%d", i, r.File, r.Offset)
		}
		e := seen[i]
		if e.LSN != r.LSN || e.File != r.File || e.Offset != r.Offset || !bytes.Equal(e.Payload, want[i]) {
			t.Fatalf("record %d: visited at %d, %s:%d", i, e.LSN, e.File, e.Offset)
		}
	}
}

func TestConcurrentCommits(t *testing.T) {
	for _, mode := range []Mode{SyncAlways, SyncNever} {
		w := newWorld(vfs.NewMem(vfs.MemOptions{}))
		l := w.open(t, func(o *Options) { o.Mode, o.Inline = mode, false })
		var wg sync.WaitGroup
		const writers, each = 16, 60
		for g := range writers {
			wg.Go(func() {
				for i := range each {
					r := record([]byte(fmt.Sprintf("%d/%d", g, i)))
					if err := l.Commit(context.Background(), r); err != nil {
						t.Errorf("commit: %v", err)
					}
					if mode == SyncAlways && l.DurableLSN() < r.LSN {
						t.Errorf("commit of %d returned while %d is durable", r.LSN, l.DurableLSN())
					}
				}
			})
		}
		for range 5 {
			if err := l.Rotate(context.Background()); err != nil {
				t.Error(err)
			}
			if err := l.Sync(context.Background()); err != nil {
				t.Error(err)
			}
		}
		wg.Wait()
		mustClose(t, l)
		got, _, err := readLog(w.recoverOptions())
		if err != nil {
			t.Fatal(err)
		}
		next := map[string]int{}
		for _, b := range got {
			writer, n, _ := bytes.Cut(b, []byte("/"))
			if want := fmt.Sprint(next[string(writer)]); want != string(n) {
				t.Fatalf("writer %s: record %s where %s was due", writer, n, want)
			}
			next[string(writer)]++
		}
		if len(got) != writers*each {
			t.Fatalf("%d records", len(got))
		}
		for i, lsn := range w.applied {
			if lsn != base.LSN(i+1) {
				t.Fatalf("Apply saw LSN %d at place %d", lsn, i+1)
			}
		}
	}
}

// An unclean end: unpromised records are rewritten, once, and the log goes on.
func TestReopenAfterDeath(t *testing.T) {
	for _, mode := range []Mode{SyncAlways, SyncNever} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(vfs.NewMem(vfs.MemOptions{}))
			l := w.open(t, func(o *Options) { o.Mode = mode })
			const count = 100
			for i := 1; i <= count; i++ {
				mustCommit(t, l, i, 200)
			}
			halfClose(l)
			l, r, got, err := w.reopen()
			if err != nil {
				t.Fatal(err)
			}
			checkPayloads(t, got, count, 200)
			want := int64(1) // the last batch
			if mode == SyncNever {
				want = count
			}
			if r.Clean || r.Unpromised.Records != want || r.Unpromised.Bytes != want*200 {
				t.Fatalf("%+v", r)
			}
			mustCommit(t, l, count+1, 200)
			halfClose(l)
			for range 3 { // idempotent
				l, r, got, err = w.reopen()
				if err != nil {
					t.Fatal(err)
				}
				checkPayloads(t, got, count+1, 200)
				halfClose(l)
			}
			if !r.Clean || r.Unpromised.Records != 0 {
				t.Fatalf("rewritten records are promised: %+v", r)
			}
			if n := len(w.manifest()); n != 4 {
				t.Fatalf("%d files: %v", n, w.manifest())
			}
		})
	}
}

func TestPrepareRefuses(t *testing.T) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t)
	mustCommit(t, l, 1, 50)
	refused := errors.New("no")
	r := &Record{Prepare: func(lsn base.LSN) ([][]byte, error) {
		if lsn != 2 {
			t.Errorf("prepared for LSN %d", lsn)
		}
		return nil, refused
	}}
	if err := l.Commit(context.Background(), r); err != refused {
		t.Fatalf("got %v", err)
	}
	big := make([]byte, 1<<20)
	r = &Record{Prepare: func(base.LSN) ([][]byte, error) {
		parts := make([][]byte, base.MaxRecord/len(big)+1)
		for i := range parts {
			parts[i] = big
		}
		return parts, nil
	}}
	if err := l.Commit(context.Background(), r); !errors.Is(err, fault.ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if w.aborted != 1 {
		t.Fatalf("%d aborts", w.aborted)
	}
	mustCommit(t, l, 2, 50)
	w.closesWith(t, l, 2, 50)
}

// Files that are open can be neither removed nor renamed on some systems.
func TestWindowsRules(t *testing.T) {
	for _, inline := range []bool{true, false} {
		w := newWorld(vfs.NewMem(vfs.MemOptions{WindowsRules: true}))
		l := w.open(t, func(o *Options) { o.Inline = inline })
		for i := 1; i <= 20; i++ {
			mustCommit(t, l, i, 9000)
		}
		halfClose(l)
		l, r, got, err := w.reopen(func(o *Options) { o.Inline = inline })
		if err != nil || r.Unpromised.Records == 0 {
			t.Fatalf("%+v, %v", r.Unpromised, err)
		}
		checkPayloads(t, got, 20, 9000)
		for i := 21; i <= 40; i++ {
			mustCommit(t, l, i, 9000)
		}
		mustClose(t, l)
		got, r, err = readLog(w.recoverOptions())
		if err != nil || len(r.Strays) != 0 {
			t.Fatalf("strays %v, %v", r.Strays, err)
		}
		checkPayloads(t, got, 40, 9000)
	}
}

// A small log is small on disk, while open and when closed.
func TestFootprint(t *testing.T) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t, func(o *Options) { o.FileSize = 0 })
	size := func() (n int) {
		for name, b := range directory(t, w.fs, w.dir) {
			if name != MarkName {
				n += len(b)
			} else if len(b) != markFileSize {
				t.Fatalf("a mark of %d bytes", len(b))
			}
		}
		return n
	}
	mustCommit(t, l, 1, 100)
	if n := size(); n > 64<<10 {
		t.Fatalf("%d bytes after one commit of 100", n)
	}
	var used int64
	for i := 2; i <= 1000; i++ {
		mustCommit(t, l, i, 1000)
		used = l.Position().Offset
		if n := size(); int64(n) > used+max(minAhead, used)+pageSize {
			t.Fatalf("%d bytes for %d in use", n, used)
		}
	}
	mustClose(t, l)
	if n := size(); int64(n) != used+frameHeaderSize {
		t.Fatalf("%d bytes when closed, %d in use", n, used)
	}
}

// A device that fills up refuses, keeps what it has, and goes on.
func TestFullDevice(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Capacity: 300 << 10})
	w := newWorld(mem)
	l := w.open(t)
	n := 1
	for ; ; n++ {
		if err := commit(l, payload(n, 3000)); err != nil {
			if !errors.Is(err, fault.ErrDiskFull) {
				t.Fatal(err)
			}
			break
		}
	}
	if n < 60 {
		t.Fatalf("only %d records of 3,000 bytes on a device of 300 KiB", n-1)
	}
	mem.SetCapacity(1 << 20)
	for end := n + 50; n <= end; n++ {
		mustCommit(t, l, n, 3000)
	}
	w.closesWith(t, l, n-1, 3000)
}
