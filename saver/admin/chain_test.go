package admin

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// chatStore is a store of chats whose versions are patches against each other, one a
// copy that went its own way, and what each channel of each checkpoint holds.
func chatStore(t *testing.T, a Access, compacted bool) (want map[string][]byte) {
	t.Helper()
	ctx, rng := t.Context(), rand.New(rand.NewPCG(4, 5))
	d, err := disk.Open("store", disk.Options{ManualWork: true, LogFileSize: 64 << 10, Simulation: *a.sim()})
	fatal(t, err)
	want = map[string][]byte{}
	text := func(n int) (b []byte) {
		for range n {
			b = append(b, "agent graph state route query tools model write "[6*rng.IntN(8):][:6]...)
		}
		return b
	}
	state := map[string][]byte{}
	put := func(thread string, n int) {
		state[thread+" messages"] = append(slices.Clip(state[thread+" messages"]), text(30)...)
		state[thread+" scratch"] = text(10)
		cfg := saver.Config{ThreadID: thread}
		if n > 1 {
			cfg.CheckpointID = fmt.Sprintf("%04d", n-1)
		}
		id := fmt.Sprintf("%04d", n)
		cp := saver.Checkpoint{V: 4, ID: id, TS: "t", Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}}
		for _, ch := range []string{"messages", "scratch"} {
			cp.Versions[ch] = saver.IntVersion(int64(n))
			cp.Values[ch] = saver.ValueTyped(serde.Typed{Kind: "bytes", Data: state[thread+" "+ch]})
			want[thread+" "+id+" "+ch] = state[thread+" "+ch]
		}
		_, err := d.Put(ctx, cfg, cp, saver.Metadata{"step": n}, cp.Versions)
		fatal(t, err)
	}
	for n := 1; n <= 24; n++ {
		put("chat", n)
		put("other", n)
		if n == 12 {
			fatal(t, d.CopyThread(ctx, "chat", "copy"))
			for k, v := range maps.Clone(want) {
				if rest, ok := strings.CutPrefix(k, "chat "); ok {
					want["copy "+rest] = v
				}
			}
			state["copy messages"] = state["chat messages"]
		}
		if n > 12 && n < 18 {
			put("copy", n)
		}
	}
	if compacted {
		fatal(t, d.Compact(ctx))
	}
	fatal(t, d.Close())
	return want
}

func fatal(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unreadable are the values of want that a store opened past its damage does not give;
// a wrong one is fatal.
func unreadable(t *testing.T, a Access, dir string, want map[string][]byte) map[string]bool {
	t.Helper()
	d, err := a.Open(dir, true)
	fatal(t, err)
	defer func() { fatal(t, d.Close()) }()
	out := map[string]bool{}
	for key, data := range want {
		part := strings.Split(key, " ")
		tup, err := d.GetTuple(context.Background(), saver.Config{ThreadID: part[0], CheckpointID: part[1]})
		if err != nil {
			out[key] = true
			continue
		}
		typed, err := tup.Checkpoint.Values[part[2]].Typed()
		if err != nil {
			out[key] = true
		} else if !bytes.Equal(typed.Data, data) {
			t.Fatalf("%s reads a wrong value", key)
		}
	}
	return out
}

// named are the values that a report says are lost.
func named(want map[string][]byte, checkpoints []LostCheckpoint, values []LostValue) map[string]bool {
	out := map[string]bool{}
	for _, l := range checkpoints {
		for key := range want {
			if strings.HasPrefix(key, l.Thread+" "+l.Checkpoint+" ") {
				out[key] = true
			}
		}
	}
	for _, l := range values {
		out[l.Thread+" "+l.Checkpoint+" "+l.Channel] = true
	}
	return out
}

// TestDamageNamesEveryVersion: whatever byte of a log or segment is damaged, Verify and
// Salvage name every version that cannot be read any more, of every thread that shares
// the chain, and no other; where an unknown number of checkpoints is hidden they name
// the threads. What they do not name, the salvaged store has. STELE_CHAIN_FLIPS scales
// it.
func TestDamageNamesEveryVersion(t *testing.T) {
	flips, seed := fromEnv(t, "STELE_CHAIN_FLIPS", 5), fromEnv(t, "STELE_CHAIN_SEED", rand.Uint64()>>1)
	t.Logf("repeat with STELE_CHAIN_SEED=%d STELE_CHAIN_FLIPS=%d", seed, flips)
	for _, compacted := range []bool{false, true} {
		t.Run(map[bool]string{false: "log", true: "compacted"}[compacted], func(t *testing.T) {
			mem := vfs.NewMem(vfs.MemOptions{})
			a := Access{Options: disk.Options{Simulation: disk.Simulation{FS: mem, Inline: true, PatchMin: 48, PatchRun: 4}}}
			want := chatStore(t, a, compacted)
			img, rng := mem.Image(), rand.New(rand.NewPCG(seed, 1))
			files := dataFiles(t, mem)
			costly, hidden := 0, 0
			n := uint64(0)
			for ; n < flips || costly == 0 && n < 20*flips; n++ { // few may all hit what is damaged alone
				file := files[rng.IntN(len(files))]
				a.sim().FS = vfs.NewMemFrom(img, vfs.MemOptions{})
				at := flipByte(t, a.sim().FS, file, rng)
				lost, hid := damaged(t, a, want, fmt.Sprintf("%s:%d", file, at))
				if lost > 2 {
					costly++
				}
				if hid {
					hidden++
				}
			}
			t.Logf("%d flips: %d cost more than two versions, %d hid checkpoints", n, costly, hidden)
			if costly == 0 {
				t.Error("no flip cost a chain: nothing is tested")
			}
		})
	}
}

// fromEnv is a number from the environment, or def.
func fromEnv(t *testing.T, name string, def uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return def
	}
	n, err := strconv.ParseUint(s, 10, 64)
	fatal(t, err)
	return n
}

// TestPatchesAreExplained: dump and log tell of a patch what they tell of any value, and
// what it is made of.
func TestPatchesAreExplained(t *testing.T) {
	a := Access{Options: disk.Options{Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true, PatchMin: 48, PatchRun: 4}}}
	chatStore(t, a, false)
	patches := 0
	for e, err := range Dump(t.Context(), "store/"+dataFiles(t, a.sim().FS)[0], a) {
		fatal(t, err)
		for _, l := range e.Lines {
			if strings.HasSuffix(l.Text, ": ") {
				t.Errorf("nothing is said of %q", l.Text)
			}
			if strings.Contains(l.Text, ": patch, ") && strings.Contains(l.Text, ", made of ") {
				patches++
			}
		}
	}
	if patches < 20 {
		t.Errorf("%d patches are explained", patches)
	}
	for e, err := range Log(t.Context(), "store", a, LogQuery{}) {
		fatal(t, err)
		for _, op := range e.Ops {
			if op.Op == "put" && op.Stored < 3 {
				t.Errorf("record %d stores %d values: %+v", e.LSN, op.Stored, op)
			}
		}
	}
}

func dataFiles(t *testing.T, fsys vfs.FS) (out []string) {
	t.Helper()
	names, err := fsys.List("store")
	fatal(t, err)
	for _, n := range names {
		if strings.HasSuffix(n, ".log") || strings.HasSuffix(n, ".seg") {
			out = append(out, n)
		}
	}
	return out
}

func flipByte(t *testing.T, fsys vfs.FS, name string, rng *rand.Rand) int64 {
	t.Helper()
	f, err := fsys.OpenReadWrite("store/" + name)
	fatal(t, err)
	size, err := f.Size()
	fatal(t, err)
	at := rng.Int64N(size)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	fatal(t, err)
	b[0] ^= 1 << rng.IntN(8)
	_, err = f.WriteAt(b[:], at)
	fatal(t, err)
	fatal(t, f.Close())
	return at
}

// damaged holds the reports of a damaged store against what can be read of it. It
// returns how many values are lost, and whether checkpoints are hidden.
func damaged(t *testing.T, a Access, want map[string][]byte, where string) (lost int, hidden bool) {
	t.Helper()
	is := unreadable(t, a, "store", want)
	rep, err := Verify(t.Context(), "store", VerifyOptions{Access: a})
	fatal(t, err)
	if rep.Clean() {
		t.Fatalf("%s: verify finds nothing", where)
	}
	said := named(want, rep.LostCheckpoints, rep.LostValues)
	sv, err := Salvage(t.Context(), "store", "saved", SalvageOptions{Access: a})
	fatal(t, err)
	saved := named(want, sv.LostCheckpoints, sv.LostValues)
	if d := cmp.Diff(said, saved); d != "" {
		t.Fatalf("%s: verify names other versions than salvage (-verify +salvage):\n%s", where, d)
	}
	hiding := map[string]bool{}
	for _, f := range rep.Damage {
		if len(f.Threads) > 0 && (f.Kind == "segment directory" || f.Kind == "directory") {
			hidden = true
			for _, th := range f.Threads {
				hiding[th] = true
			}
		}
	}
	for key := range is {
		if thread, _, _ := strings.Cut(key, " "); !said[key] && !hiding[thread] {
			t.Errorf("%s: %s cannot be read, and verify does not name it: %+v", where, key, rep.Damage)
		}
	}
	for key := range said {
		if !is[key] {
			t.Errorf("%s: verify names %s, which can be read", where, key)
		}
	}
	if len(rep.LostValues)+len(rep.LostCheckpoints) > 0 && sv.Complete() {
		t.Errorf("%s: salvage says it saved everything", where)
	}
	for key := range unreadable(t, a, "saved", want) {
		if !is[key] {
			t.Errorf("%s: %s can be read, and is not in the salvaged store", where, key)
		}
	}
	return len(is), hidden
}
