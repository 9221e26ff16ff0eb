package ops

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// queueBytes bounds the queue of the log.
const (
	queueBytes = 64 << 20
)

// Writers that outrun the device wait: the log's queue takes so many bytes and no
// more, whoever waits costs nothing but the call, can be called back, and nothing
// that was acknowledged is lost.
func TestWritersWaitForTheDevice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, g, _ := open(t, disk.Options{VersionBytes: -1, ManualWork: true}, 0)
		mustPut(t, d, "first", 1, saver.ValueOf("x"))
		g.close()
		const writers, size = 200, 1 << 20
		value := saver.ValueTyped(serde.Typed{Kind: "bytes", Data: []byte(strings.Repeat("x", size))}) // shared: what grows is stele's
		before := heap()
		patient, cancel := context.WithCancel(ctx)
		errs := make(chan error, writers)
		for i := range writers {
			go func() {
				cp := saver.Checkpoint{V: 4, ID: "c", Versions: map[string]saver.Version{"m": saver.IntVersion(1)}, Values: map[string]saver.Value{"m": value}}
				_, err := d.Put(patient, saver.Config{ThreadID: fmt.Sprintf("t%d", i)}, cp, nil, cp.Versions)
				errs <- err
			}()
		}
		synctest.Wait() // until everybody waits
		m := d.Metrics().Log
		if m.QueueBytes > queueBytes || m.QueueDepth > queueBytes/size || m.QueueDepth < queueBytes/size/2 {
			t.Errorf("%d records of %d bytes are queued", m.QueueDepth, m.QueueBytes)
		}
		if grown := int64(heap()) - int64(before); grown > 2*queueBytes {
			t.Errorf("%d writers of %d bytes hold %d bytes of memory", writers, size, grown)
		}
		cancel()
		synctest.Wait()
		g.open()
		stored := 0
		for range writers {
			switch err := <-errs; {
			case err == nil, errors.Is(err, saver.ErrOutcomeUnknown): // it was being written
				stored++
			case !errors.Is(err, context.Canceled):
				t.Error(err)
			}
		}
		synctest.Wait()
		if st := d.Stats(); st.Threads != stored+1 || stored == 0 || stored == writers {
			t.Errorf("%d threads, %d of %d calls were stored or may be", st.Threads, stored, writers)
		}
		mustClose(t, d)
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// zerosAhead makes the log long enough that the zeros ahead of it suffice for what the
// test writes then: it stops when the preallocator has just written some. Else the
// preallocator would wait at the gate beside a commit: one of them holds the lock of the
// file's syncs, the other waits for it, and synctest.Wait never returns while a goroutine
// waits for a lock.
func zerosAhead(t *testing.T, d *disk.Saver) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{})
	var before int64
	for n := 1; n <= 512; n++ {
		noise := make([]byte, 16<<10)
		_, _ = random.Read(noise)
		mustPut(t, d, fmt.Sprintf("long%d", n), 1, saver.ValueTyped(serde.Typed{Kind: "bytes", Data: noise}))
		synctest.Wait()
		zeros := d.Metrics().Log.Preallocated
		if zeros > before && zeros >= 1<<20 {
			return
		}
		before = zeros
	}
	t.Fatalf("%d bytes of zeros were written ahead", before)
}

// A run that saves in the background is held back when the device stands still: it
// is so many saves ahead and no more.
func TestRunsWaitForTheDevice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, g, _ := open(t, disk.Options{ManualWork: true}, 0)
		zerosAhead(t, d)
		const steps = 1000
		ran := 0
		app, err := graph.New(graph.Key("n", channel.Reduce(channel.Add[int]))).
			Node("loop", func(context.Context, any) (any, error) {
				if ran++; ran == 10 {
					g.close()
				}
				return map[string]any{"n": 1}, nil
			}).
			Edge(graph.Start, "loop").
			Conditional("loop", "more", func(_ context.Context, state any) (any, error) {
				if state.(map[string]any)["n"].(int) < steps {
					return "loop", nil
				}
				return graph.End, nil
			}, "loop", graph.End).
			Compile(graph.Options{Saver: d})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := app.Invoke(ctx, pregel.Thread("t"), map[string]any{"n": 0}, pregel.RunOptions{Durability: pregel.Async, RecursionLimit: 2 * steps})
			done <- err
		}()
		synctest.Wait()
		const ahead = 64 // saves that may wait; a superstep makes one or two
		if ran < 10 || ran > 10+ahead+5 {
			t.Errorf("the run is at superstep %d; the device stands still since the 10th", ran)
		}
		g.open()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if ran != steps {
			t.Errorf("%d supersteps ran, not %d", ran, steps)
		}
		mustClose(t, d)
	})
}
