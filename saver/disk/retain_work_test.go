package disk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
)

func init() { index.Visited = new(atomic.Int64) }

// retainedThread is a store with one thread, of checkpoints with pending writes, of which a
// hundred have a run in common.
type retainedThread struct {
	*Saver
	t    *testing.T
	head saver.Config
	puts int
}

func newRetainedThread(t *testing.T, n int) *retainedThread {
	t.Helper()
	s, err := Open("store", Options{ManualWork: true, Simulation: Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &retainedThread{Saver: s, t: t, head: saver.Config{ThreadID: "t"}}
	for range n {
		r.put()
	}
	return r
}

// put puts the next checkpoint, and a write against it.
func (r *retainedThread) put() {
	r.t.Helper()
	r.head = r.child(r.head, fmt.Sprintf("%08d", r.puts), saver.ValueOf(r.puts))
	r.puts++
}

// child puts a checkpoint with a value of the channel "c", or without one, and a write to it.
func (r *retainedThread) child(of saver.Config, id string, v saver.Value) saver.Config {
	r.t.Helper()
	versions := map[string]saver.Version{"c": saver.IntVersion(int64(r.puts + 1))}
	cp := saver.Checkpoint{V: 4, ID: id, Versions: versions, Values: map[string]saver.Value{}}
	if !v.IsZero() {
		cp.Values["c"] = v
	}
	at, err := r.Put(context.Background(), of, cp, saver.Metadata{"run_id": fmt.Sprint("run-", r.puts/100)}, versions)
	if err == nil {
		err = r.PutWrites(context.Background(), at, []saver.Write{{Channel: "c", Value: saver.ValueOf("w" + id)}}, "task", "")
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return at
}

// TestRetainIsLinear: Retain comes across four times as many items to remove four times as many
// checkpoints of a thread, alone and beside somebody who puts meanwhile. What it leaves of the
// lists of runs is what the checkpoints that stayed have.
func TestRetainIsLinear(t *testing.T) {
	t.Parallel()
	const n = 4000
	for name, beside := range map[string]bool{"alone": false, "beside a writer": true} {
		t.Run(name, func(t *testing.T) {
			var work [2]int64
			for i, n := range []int{n, 4 * n} {
				r := newRetainedThread(t, n)
				pause := func() {}
				if beside {
					pause = r.put
				}
				before := index.Visited.Load()
				rep, err := r.retain(t.Context(), saver.RetentionPolicy{KeepLast: 150}, false, pause)
				work[i] = index.Visited.Load() - before
				if err != nil || rep.Checkpoints != n-150 || rep.Writes != n-150 {
					t.Fatalf("%d checkpoints: %+v, %v", n, rep, err)
				}
				for _, run := range []int{0, n/100 - 3, n/100 - 2, n/100 - 1} {
					list, err := r.e.Partition(fmt.Sprint("rrun-", run))
					if err != nil {
						t.Fatal(err)
					}
					if has := list != nil; has != (run >= n/100-2) {
						t.Errorf("the list of run %d of %d is there: %t", run, n/100, has)
					}
				}
			}
			t.Logf("%d and %d items", work[0], work[1])
			if most := work[0] * 9 / 2; work[1] > most {
				t.Errorf("%d items for four times as many checkpoints, %d for those: more than 4.5 times", work[1], work[0])
			}
		})
	}
}

// TestRetainKeepsWhatBecameNeeded: what is put between two commits of Retain keeps what it
// needs, in whichever later commit that was to go.
func TestRetainKeepsWhatBecameNeeded(t *testing.T) {
	const n = 4 * retainBatch
	for _, at := range []int{n - 2*retainBatch + 100, n - 3*retainBatch, 50} {
		r := newRetainedThread(t, n)
		parent := saver.Config{ThreadID: "t", CheckpointID: fmt.Sprintf("%08d", at)}
		paused := 0
		_, err := r.retain(t.Context(), saver.RetentionPolicy{KeepLast: 1}, false, func() {
			if paused++; paused == 1 {
				r.head = r.child(parent, "a fork", saver.Value{})
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.GetTuple(t.Context(), parent); err != nil {
			t.Errorf("checkpoint %d, which a new one needs: %v", at, err)
		}
		h, err := r.DeltaChannelHistory(t.Context(), r.head, []string{"c"})
		if err != nil || h["c"].Seed.IsZero() || len(h["c"].Writes) != 1 {
			t.Errorf("what the new one reads from checkpoint %d: %+v, %v", at, h["c"], err)
		}
		if _, err := r.GetTuple(t.Context(), saver.Config{ThreadID: "t", CheckpointID: fmt.Sprintf("%08d", at-1)}); !errors.Is(err, saver.ErrNotFound) {
			t.Errorf("checkpoint %d, which nothing needs: %v", at-1, err)
		}
	}
}
