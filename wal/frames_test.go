package wal

import (
	"bytes"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stele-go/stele/base"
)

// The frames of a batch are built while the one before it is synced, and built anew
// where they turn out to lie elsewhere. In all cases the records are where they are
// said to be, and the log reads back.
func TestFramesBesideASync(t *testing.T) {
	for name, tc := range map[string]struct {
		sizes []int // of the records behind
		ahead int   // how many of them are framed during the sync
		file  int   // where they go
	}{
		"small":        {[]int{10, 20, 30}, 3, 1},
		"large":        {[]int{10, largeRecord / 64, 30}, 3, 1},
		"does not fit": {[]int{10, 20, MinFileSize - 200}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var behind []*Record
				var want [][]byte
				for i, n := range tc.sizes {
					want = append(want, payload(10+i, n))
					behind = append(behind, record(want[i][:n/2], want[i][n/2:]))
				}
				a := inTheAir(t, behind...)
				if n := a.l.c.batch.framed.n; n != tc.ahead {
					t.Errorf("%d records have their frames during the sync, want %d", n, tc.ahead)
				}
				if w := a.writes(); w != 1 {
					t.Errorf("%d batches were written", w)
				}
				a.h.set(nil)
				a.gate <- nil
				for range 2 {
					if err := <-a.answers[0]; err != nil {
						t.Error(err)
					}
				}
				for range behind {
					if err := <-a.answers[1]; err != nil {
						t.Error(err)
					}
				}
				mustClose(t, a.l)
				got, _, err := readLog(a.w.recoverOptions())
				if err != nil || len(got) != 3+len(want) {
					t.Fatalf("%d records, %v", len(got), err)
				}
				for i, r := range behind {
					if int(r.File) != tc.file || !bytes.Equal(got[3+i], want[i]) {
						t.Errorf("record %d is in file %s, with %d bytes", i, r.File, len(got[3+i]))
					}
					file := readFile(t, a.w.fs, testDir+"/"+base.LogFile.Name(r.File))
					if !bytes.Equal(file[r.Offset:r.Offset+r.Len], want[i]) {
						t.Errorf("record %d is not at offset %d", i, r.Offset)
					}
				}
			})
		})
	}
}

// Frames built for a batch whose sync fails, and the bytes they were made of, are
// forgotten.
func TestFramesBesideAFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := inTheAir(t, record(payload(2, 10)))
		if n := a.l.c.batch.framed.n; n != 1 {
			t.Fatalf("%d records have frames", n)
		}
		a.gate <- syscall.EIO
		for range 2 {
			<-a.answers[0]
		}
		<-a.answers[1]
		synctest.Wait()
		if b := a.l.c.batch; b.framed != (frames{}) || len(a.l.c.pieces) != 0 {
			t.Errorf("left are %+v and %d pieces", b.framed, len(a.l.c.pieces))
		}
		if n := a.writes(); n != 1 {
			t.Errorf("%d batches were written", n)
		}
		_ = a.l.Close() // poisoned
	})
}
