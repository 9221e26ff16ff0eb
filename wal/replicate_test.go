package wal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// replica keeps what a log replicates, and fails the test if that has a gap.
type replica struct {
	t       *testing.T
	mu      sync.Mutex
	records [][]byte
}

func (r *replica) take(first base.LSN, records [][]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int(first) != len(r.records)+1 {
		r.t.Errorf("records from %d on behind %d records", first, len(r.records))
	}
	r.records = append(r.records, records...)
	return nil
}

func (r *replica) end() base.LSN {
	r.mu.Lock()
	defer r.mu.Unlock()
	return base.LSN(len(r.records))
}

// Whatever the mode, and whether callers defer, rotate, sync, or commit together, the replica has the
// records of the log, and in SyncAlways it has a batch before anybody sees it.
func TestReplicateIsTheLog(t *testing.T) {
	for _, mode := range []Mode{SyncAlways, SyncInterval, SyncNever} {
		for _, inline := range []bool{true, false} {
			seed := rand.Uint64()
			t.Run(fmt.Sprintf("%s/inline=%t/%d", mode, inline, seed), func(t *testing.T) {
				w, r := newWorld(vfs.NewMem(vfs.MemOptions{})), &replica{t: t}
				l := w.open(t, func(o *Options) {
					o.Mode, o.Inline, o.Replicate, o.Interval = mode, inline, r.take, time.Millisecond
					o.Apply = func(records []*Record) {
						b := batch{records: records}
						if last := records[len(records)-1].LSN; mode == SyncAlways && !b.deferred() && r.end() < last {
							t.Errorf("record %d is applied, the replica has %d", last, r.end())
						}
					}
				})
				var callers sync.WaitGroup
				for c := range 4 {
					callers.Go(func() {
						rnd := rand.New(rand.NewPCG(seed, uint64(c)))
						for i := range 40 {
							size := 1 + rnd.IntN(3000)
							if rnd.IntN(20) == 0 {
								size = largeRecord + rnd.IntN(1000)
							}
							rec := record(payload(i, size))
							rec.Deferred = rnd.IntN(3) == 0
							err := l.Commit(t.Context(), rec)
							if err == nil && rnd.IntN(15) == 0 {
								err = l.Rotate(t.Context())
							}
							if err == nil && rnd.IntN(10) == 0 {
								if err = l.Sync(t.Context()); err == nil && r.end() < rec.LSN {
									t.Errorf("record %d is not replicated after a Sync", rec.LSN)
								}
							}
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
				callers.Wait()
				mustClose(t, l)
				got, _, err := readLog(w.recoverOptions())
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != 160 || len(r.records) != 160 {
					t.Fatalf("the log has %d records, the replica %d", len(got), len(r.records))
				}
				for i := range got {
					if !bytes.Equal(got[i], r.records[i]) {
						t.Fatalf("record %d differs", i+1)
					}
				}
			})
		}
	}
}

// After a failure nothing is applied, acknowledged or replicated any more.
func TestReplicateFails(t *testing.T) {
	w, cause := newWorld(vfs.NewMem(vfs.MemOptions{})), errors.New("fenced")
	calls := 0
	l := w.open(t, func(o *Options) {
		o.Replicate = func(first base.LSN, _ [][]byte) error {
			if calls++; first == 2 {
				return cause
			}
			return nil
		}
	})
	mustCommit(t, l, 1, 10)
	for _, err := range []error{commit(l, payload(2, 10)), commit(l, payload(3, 10)), l.Sync(t.Context()), l.Close()} {
		if !errors.Is(err, fault.ErrPoisoned) || !errors.Is(err, cause) {
			t.Fatal(err)
		}
	}
	if len(w.applied) != 1 || w.aborted != 1 || calls != 2 {
		t.Fatalf("%d records applied, %d refused, %d calls", len(w.applied), w.aborted, calls)
	}
	// It is durable here, which the owner has to settle.
	got, _, err := readLog(w.recoverOptions())
	if err != nil || len(got) != 2 {
		t.Fatalf("%d records, %v", len(got), err)
	}
}

// Records that found no space are not replicated; their numbers are those of the next ones.
func TestReplicateWithoutSpace(t *testing.T) {
	w, h := hooked(t)
	r := &replica{t: t}
	l := w.open(t, func(o *Options) { o.Replicate = r.take })
	mustCommit(t, l, 1, 10)
	h.set(onlyOnce(failOn("write", &shortWrite{5, syscall.ENOSPC})))
	if err := commit(l, payload(9, 10)); !errors.Is(err, fault.ErrDiskFull) {
		t.Fatal(err)
	}
	h.set(nil)
	mustCommit(t, l, 2, 10)
	w.closesWith(t, l, 2, 10)
	checkPayloads(t, r.records, 2, 10)
}

// While the replica does not answer a caller can leave, what comes next waits, nobody sees what is not
// replicated, and Sync settles it.
func TestReplicateIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r, answer := newWorld(vfs.NewMem(vfs.MemOptions{})), &replica{t: t}, make(chan struct{})
		l := w.open(t, func(o *Options) {
			o.Inline = false
			o.Replicate = func(first base.LSN, records [][]byte) error {
				<-answer
				return r.take(first, records)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for i := 1; i <= 2; i++ {
			err := l.Commit(ctx, record(payload(i, 10)))
			if unknown := errors.Is(err, fault.ErrOutcomeUnknown); !errors.Is(err, context.DeadlineExceeded) || unknown != (i == 1) {
				t.Fatalf("commit %d: %v", i, err)
			}
		}
		if err := l.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if len(w.applied) != 0 || l.LastLSN() != 0 {
			t.Fatal("a record was applied that is not replicated")
		}
		close(answer)
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(w.applied) != 1 || r.end() != 1 {
			t.Fatalf("%d records applied, %d replicated", len(w.applied), r.end())
		}
		w.closesWith(t, l, 1, 10)
	})
}

// Deferred records that an idle log synced are replicated when Sync returns.
func TestReplicateOfAnIdleLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, r := newWorld(vfs.NewMem(vfs.MemOptions{})), &replica{t: t}
		l := w.open(t, func(o *Options) {
			o.Inline, o.IdleMark = false, 0
			o.Replicate = func(first base.LSN, records [][]byte) error {
				time.Sleep(time.Minute)
				return r.take(first, records)
			}
		})
		commitDeferred(t, l, 1)
		time.Sleep(time.Second)
		synctest.Wait()
		if l.DurableLSN() != 1 || r.end() != 0 {
			t.Fatalf("durable up to %d, %d replicated", l.DurableLSN(), r.end())
		}
		if err := l.Sync(t.Context()); err != nil || r.end() != 1 {
			t.Fatalf("%v, %d replicated", err, r.end())
		}
		mustClose(t, l)
	})
}

// A Sync that finds everything durable waits for who is replicating it.
func TestReplicateBeforeABarrier(t *testing.T) {
	w, r, begun, answer := newWorld(vfs.NewMem(vfs.MemOptions{})), &replica{t: t}, make(chan struct{}), make(chan struct{})
	l := w.open(t, func(o *Options) {
		o.Inline, o.Mode, o.Interval = false, SyncInterval, time.Hour
		o.Replicate = func(first base.LSN, records [][]byte) error {
			close(begun)
			<-answer
			return r.take(first, records)
		}
	})
	mustCommit(t, l, 1, 10)
	var calls sync.WaitGroup
	calls.Go(func() {
		if err := l.Rotate(t.Context()); err != nil {
			t.Error(err)
		}
	})
	<-begun
	calls.Go(func() {
		if err := l.Sync(t.Context()); err != nil || r.end() != 1 {
			t.Errorf("%v, %d replicated", err, r.end())
		}
	})
	close(answer)
	calls.Wait()
	w.closesWith(t, l, 1, 10)
}
