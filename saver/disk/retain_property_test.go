package disk_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// retained is a store with random histories, for TestRetainDoesWhatItSays.
type retained struct {
	s   *disk.Saver
	rng *rand.Rand
	now time.Time
}

// chat puts a thread: forks, two namespaces, values that are patches, a delta channel
// that is mostly without a value, pending writes, and timestamps over ten days.
func (r *retained) chat(t *rapid.T, thread string) {
	n := rapid.IntRange(1, 14).Draw(t, "checkpoints of "+thread)
	last := map[string][]string{}
	list := []byte(thread)
	for i := range n {
		ns := []string{"", "", "", "sub"}[r.rng.IntN(4)]
		cfg := saver.Config{ThreadID: thread, Namespace: ns}
		if ids := last[ns]; len(ids) > 0 {
			cfg.CheckpointID = ids[len(ids)-1]
			if r.rng.IntN(5) == 0 {
				cfg.CheckpointID = ids[r.rng.IntN(len(ids))]
			}
		}
		for range 100 + r.rng.IntN(900) {
			list = append(list, byte(r.rng.Uint32()))
		}
		v := saver.IntVersion(int64(i + 1))
		cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("%s%04d", []string{"", "b"}[r.rng.IntN(2)], i),
			TS:       r.now.Add(-time.Duration(n-i) * 17 * time.Hour).Format(time.RFC3339Nano),
			Versions: map[string]saver.Version{"list": v, "delta": v}, Values: map[string]saver.Value{}}
		cp.Values["list"] = saver.ValueTyped(serde.Typed{Kind: "bytes", Data: slices.Clone(list)})
		if r.rng.IntN(4) == 0 {
			cp.Values["delta"] = saver.ValueOf("seed " + cp.ID)
		}
		_, err := r.s.Put(t.Context(), cfg, cp, saver.Metadata{"step": i}, cp.Versions)
		fine(t, err)
		last[ns] = append(last[ns], cp.ID)
		if r.rng.IntN(3) > 0 {
			at := saver.Config{ThreadID: thread, Namespace: ns, CheckpointID: cp.ID}
			fine(t, r.s.PutWrites(t.Context(), at, []saver.Write{{Channel: "delta", Value: saver.ValueOf("write " + cp.ID)}}, "task", ""))
		}
	}
}

func fine(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shown is what each checkpoint reads: values, pending writes, and its delta channel's
// history. head tells which are the newest of their namespace.
func (r *retained) shown(t *rapid.T) (all map[string]string, heads []string) {
	all = map[string]string{}
	ctx, seen := context.Background(), map[string]bool{}
	for _, thread := range []string{"a", "b", "copy"} {
		for tup, err := range r.s.List(ctx, saver.Query{ThreadID: thread}) {
			fine(t, err)
			key := fmt.Sprintf("%s/%s/%s", thread, tup.Config.Namespace, tup.Config.CheckpointID)
			if place := thread + "/" + tup.Config.Namespace; !seen[place] {
				seen[place], heads = true, append(heads, key)
			}
			typed, err := tup.Checkpoint.Values["list"].Typed()
			fine(t, err)
			text := fmt.Sprintf("%x", typed.Data)
			for _, w := range tup.PendingWrites {
				v, err := w.Value.Any()
				fine(t, err)
				text += fmt.Sprint(" ", w.Channel, v)
			}
			if tup.Checkpoint.Values["delta"].IsZero() {
				text += r.history(t, tup.Config)
			}
			all[key] = text
		}
	}
	return all, heads
}

func (r *retained) history(t *rapid.T, cfg saver.Config) (text string) {
	h, err := r.s.DeltaChannelHistory(t.Context(), cfg, []string{"delta"})
	fine(t, err)
	for _, w := range h["delta"].Writes {
		v, err := w.Value.Any()
		fine(t, err)
		text += fmt.Sprint(" ", v)
	}
	if text != "" && !h["delta"].Seed.IsZero() {
		v, err := h["delta"].Seed.Any()
		fine(t, err)
		text += fmt.Sprint(" from ", v)
	}
	return text
}

// policy draws one with any of its rules.
func (r *retained) policy(t *rapid.T) saver.RetentionPolicy {
	p := saver.RetentionPolicy{CutAnyway: rapid.Bool().Draw(t, "cut anyway")}
	for p.KeepLast == 0 && p.MaxAge == 0 && p.ThreadBytes == 0 && p.StoreBytes == 0 {
		p.KeepLast = rapid.SampledFrom([]int{0, 0, 1, 3, math.MaxInt}).Draw(t, "keep last")
		p.MaxAge = rapid.SampledFrom([]time.Duration{0, 0, 1, 50 * time.Hour, 1<<63 - 2}).Draw(t, "max age")
		p.ThreadBytes = rapid.SampledFrom([]int64{0, 0, 1, 2000, 6000, 1<<63 - 1}).Draw(t, "thread bytes")
		p.StoreBytes = rapid.SampledFrom([]int64{0, 0, 1, 5000, 20000, 1<<63 - 1}).Draw(t, "store bytes")
	}
	if rapid.IntRange(0, 3).Draw(t, "some threads") == 0 {
		p.ThreadIDs = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "copy", "nobody"}), 0, 3).Draw(t, "threads")
	}
	return p
}

// TestRetainDoesWhatItSays: a dry run says of any policy, on any histories, what the run
// then removes, and changes nothing; budgets are kept, or the error or the report says
// they are not; what stays reads as before, delta channels included; the newest stays;
// and doing it again removes nothing.
func TestRetainDoesWhatItSays(t *testing.T) {
	var removed, refused, over int
	rapid.Check(t, func(t *rapid.T) {
		r := &retained{rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "salt"), 1)), now: time.Unix(1_800_000_000, 0)}
		var err error
		r.s, err = disk.Open("store", disk.Options{ManualWork: true, Clock: func() time.Time { return r.now }, Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true, PatchMin: 64, PatchRun: 3}})
		fine(t, err)
		defer func() { fine(t, r.s.Close()) }()
		r.chat(t, "a")
		r.chat(t, "b")
		if rapid.Bool().Draw(t, "copy") {
			fine(t, r.s.CopyThread(t.Context(), "a", "copy"))
		}
		switch rapid.IntRange(0, 2).Draw(t, "where") {
		case 1:
			fine(t, r.s.Flush(t.Context()))
		case 2:
			fine(t, r.s.Compact(t.Context()))
		}
		p := r.policy(t)
		before, heads := r.shown(t)
		said, serr := r.s.Retain(t.Context(), p, true)
		if now, _ := r.shown(t); fmt.Sprint(now) != fmt.Sprint(before) {
			t.Fatalf("a dry run of %+v changed something", p)
		}
		did, err := r.s.Retain(t.Context(), p, false)
		after, _ := r.shown(t)
		if fmt.Sprint(did) != fmt.Sprint(said) || fmt.Sprint(err) != fmt.Sprint(serr) {
			t.Fatalf("%+v: a dry run says %+v, %v; the run %+v, %v", p, said, serr, did, err)
		}
		if err != nil {
			if !errors.Is(err, saver.ErrBudget) || p.CutAnyway || len(after) != len(before) {
				t.Fatalf("%+v: %v, %d of %d checkpoints are left", p, err, len(after), len(before))
			}
			refused++
			return
		}
		if len(did.Over) > 0 || did.StoreOver {
			over++
		}
		if p.StoreBytes > 0 && did.Left > p.StoreBytes != did.StoreOver || (len(did.Over) > 0 || did.StoreOver) && !p.CutAnyway {
			t.Fatalf("%+v: %+v", p, did)
		}
		if len(before)-len(after) != did.Checkpoints {
			t.Fatalf("%+v: %d of %d checkpoints are left, and %+v", p, len(after), len(before), did)
		}
		removed += did.Checkpoints
		for key, text := range after {
			if before[key] != text {
				t.Fatalf("%+v: %s reads\n%s\nbefore\n%s", p, key, text, before[key])
			}
		}
		for _, key := range heads {
			if _, ok := after[key]; !ok {
				t.Fatalf("%+v removed %s, the newest of its namespace", p, key)
			}
		}
		if again, err := r.s.Retain(t.Context(), p, false); err != nil || again.Checkpoints > 0 || again.Left != did.Left {
			t.Fatalf("%+v, again: %+v, %v; it left %d", p, again, err, did.Left)
		}
	})
	t.Logf("%d checkpoints removed, %d policies refused, %d over their budget", removed, refused, over)
	if removed == 0 || refused == 0 || over == 0 {
		t.Errorf("%d checkpoints removed, %d policies refused, %d over their budget", removed, refused, over)
	}
}
