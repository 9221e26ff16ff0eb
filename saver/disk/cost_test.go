package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// TestChatLogsWhatChanged: of a chat whose list grows by two messages a step, with the
// pending writes that make them, the log takes at most 1.3 times the bytes that are new,
// records, names, ids, checksums and padding included, whatever the length of the list,
// and also if every checkpoint has the same long metadata.
func TestChatLogsWhatChanged(t *testing.T) {
	about := strings.Repeat("what the run is about, ", 200)
	for _, sizes := range []struct {
		message, steps int
		about          string
	}{{900, 200, ""}, {2000, 60, ""}, {900, 60, about}} {
		s := openFor(t, "store", disk.Options{ManualWork: true}, disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true})
		v := &victim{markers: map[string][]byte{}}
		chat := &chatText{rng: rand.New(rand.NewPCG(3, 4))}
		before, changed, handed := s.Inside().Engine.Metrics().Log.Bytes, 0, 0
		for n := 1; n <= sizes.steps; n++ {
			had := len(chat.text)
			list := chat.grow(2 * sizes.message / 6)
			v.put(t, s, "chat", n, saver.Metadata{"source": "loop", "step": n, "about": sizes.about}, list)
			changed, handed = changed+len(list)-had, handed+len(list)
			for i, m := range [][]byte{list[had : had+sizes.message], list[had+sizes.message:]} {
				w := saver.Write{Channel: "ch0", Value: saver.ValueTyped(serde.Typed{Kind: "bytes", Data: m})}
				must(t, s.PutWrites(t.Context(), saver.Config{ThreadID: "chat", CheckpointID: fmt.Sprintf("%04d", n)}, []saver.Write{w}, fmt.Sprint("task-", i), ""))
				changed += len(m)
			}
		}
		logged := int(s.Inside().Engine.Metrics().Log.Bytes - before)
		t.Logf("%d steps: %d bytes handed over, %d new, %d logged: %.3f times as many", sizes.steps, handed, changed, logged, float64(logged)/float64(changed))
		if 10*logged > 13*changed {
			t.Errorf("%d bytes of log for %d new ones", logged, changed)
		}
		must(t, s.Close())
	}
}

// TestBudgetBelowOneValue: a memory budget that holds no value, or none at all, costs
// patches and speed, never an answer; one that contradicts the caches given is refused
// before there is a store.
func TestBudgetBelowOneValue(t *testing.T) {
	for _, budget := range []int64{1, 100, 8 << 10, -1} {
		mem := vfs.NewMem(vfs.MemOptions{})
		o := disk.Options{ManualWork: true, MemoryBudget: budget}
		s := openFor(t, "store", o, disk.Simulation{FS: mem, Inline: true})
		v := &victim{markers: map[string][]byte{}}
		chat := &chatText{rng: rand.New(rand.NewPCG(3, 4))}
		want := map[int][]byte{}
		for n := 1; n <= 20; n++ {
			want[n] = chat.grow(5000)
			v.put(t, s, "chat", n, nil, want[n])
			if n == 10 {
				must(t, s.Flush(t.Context()))
			}
		}
		must(t, s.Compact(t.Context()))
		for n, text := range want {
			tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "chat", CheckpointID: fmt.Sprintf("%04d", n)})
			must(t, err)
			typed, err := tup.Checkpoint.Values["ch0"].Typed()
			if must(t, err); !bytes.Equal(typed.Data, text) {
				t.Errorf("budget %d: checkpoint %d reads %d bytes, not %d", budget, n, len(typed.Data), len(text))
			}
		}
		if kept := s.Stats().VersionBytes; kept > max(budget, 0) {
			t.Errorf("budget %d: %d bytes of last values are kept", budget, kept)
		}
		must(t, s.Close())
	}
	mem := vfs.NewMem(vfs.MemOptions{})
	for _, o := range []disk.Options{{MemoryBudget: 1000, CacheBytes: 1001}, {MemoryBudget: 1000, CacheBytes: 600, VersionBytes: 600}} {
		if s, err := disk.Open("store", o.In(disk.Simulation{FS: mem})); err == nil {
			t.Errorf("a budget of %d holds caches of %d", o.MemoryBudget, o.CacheBytes+o.VersionBytes)
			must(t, s.Close())
		}
		if names, err := mem.List("store"); err == nil && len(names) > 0 {
			t.Errorf("a refused Open left %v", names)
		}
	}
}

// TestListingBesideRetention: a listing shows its moment to the end, values and all,
// while what it lists is pruned, retained, expires, is flushed and compacted away.
func TestListingBesideRetention(t *testing.T) {
	clk := &testClock{}
	clk.add(1e6 * 3600e9)
	s := openFor(t, t.TempDir(), disk.Options{ManualWork: true, CacheBytes: -1, Clock: clk.now}, disk.Simulation{PatchMin: 64, PatchRun: 4})
	v := &victim{markers: map[string][]byte{}}
	const n = 40
	want := map[string][]byte{}
	chat := &chatText{rng: rand.New(rand.NewPCG(3, 4))}
	for i := 1; i <= n; i++ {
		want[fmt.Sprintf("%04d", i)] = chat.grow(100)
		v.put(t, s, "chat", i, nil, chat.grow(0))
		if i == n/2 {
			must(t, s.Flush(t.Context()))
		}
	}
	left := n
	for tup, err := range s.List(t.Context(), saver.Query{ThreadID: "chat"}) {
		must(t, err)
		switch left--; left {
		case 35:
			_, err = s.Retain(t.Context(), saver.RetentionPolicy{KeepLast: 20}, false)
		case 30:
			_, perr := s.Prune(t.Context(), []string{"chat"}, saver.KeepLatest)
			err = errors.Join(perr, s.Compact(t.Context()))
		case 20:
			err = s.SetTTL(t.Context(), "chat", 1000)
			clk.add(1e9)
			rep, serr := s.Sweep(t.Context())
			if err = errors.Join(err, serr, s.Compact(t.Context())); rep.Expired != 1 {
				t.Errorf("%d threads expired", rep.Expired)
			}
		}
		must(t, err)
		typed, err := tup.Checkpoint.Values["ch0"].Typed()
		if must(t, err); !bytes.Equal(typed.Data, want[tup.Config.CheckpointID]) {
			t.Fatalf("checkpoint %s reads %d bytes", tup.Config.CheckpointID, len(typed.Data))
		}
	}
	if left != 0 {
		t.Errorf("the listing ended %d early", left)
	}
	if _, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "chat"}); !errors.Is(err, saver.ErrNotFound) {
		t.Errorf("after the listing: %v", err)
	}
}

// TestManyQuestions: a task that asks is stored at the same cost, however many questions wait beside it.
// An answer to one of many stores the others once more, so it would cost as much as their square.
func TestManyQuestions(t *testing.T) {
	s := openFor(t, "store", disk.Options{ManualWork: true}, disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true})
	v := &victim{markers: map[string][]byte{}}
	v.put(t, s, "t", 1, nil, []byte("x"))
	asked := 0
	ask := func() {
		asked++
		w := saver.Write{Channel: saver.ChannelInterrupt, Value: saver.ValueTyped(serde.Typed{Kind: "bytes", Data: []byte("fine?")})}
		must(t, s.PutWrites(t.Context(), saver.Config{ThreadID: "t", CheckpointID: "0001"}, []saver.Write{w}, fmt.Sprint("task-", asked), ""))
	}
	few := testing.AllocsPerRun(50, ask)
	for asked < 3000 {
		ask()
	}
	if many := testing.AllocsPerRun(50, ask); many > 2*few+100 {
		t.Errorf("a question beside 3000 takes %.0f allocations, the first ones %.0f", many, few)
	}
	for info, err := range s.Threads(t.Context(), saver.ThreadQuery{}) {
		if must(t, err); info.Status != saver.StatusWaiting {
			t.Errorf("the thread is %q", info.Status)
		}
	}
	must(t, s.Close())
}
