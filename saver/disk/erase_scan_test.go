package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine/enginetest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// scanned is everything a store's directory holds, as it is and decoded.
type scanned map[string][]byte

func scanStore(t *testing.T, fsys vfs.FS, dir string, keys disk.KeyProvider) scanned {
	t.Helper()
	return enginetest.Scan(t, fsys, dir, keys)
}

// with names the places that hold a marker.
func (s scanned) with(marker []byte) []string {
	var places []string
	for name, b := range s {
		if bytes.Contains(b, marker) {
			places = append(places, name)
		}
	}
	slices.Sort(places)
	return places
}

// victim is a store with a thread to erase, and what only that thread has.
type victim struct {
	id      string
	keys    disk.KeyProvider // of the store; nil without encryption
	markers map[string][]byte
	rng     *rand.Rand
	grown   []byte // see grow
	half    string
}

func (v *victim) random(name string) []byte {
	b := make([]byte, 3000)
	for i := range b {
		b[i] = byte(v.rng.Uint32())
	}
	v.markers[name] = b[1000:1032]
	return b
}

func (v *victim) text(name string) []byte {
	m := "SECRET-" + name + "-OF-THE-VICTIM"
	v.markers[name] = []byte(m)
	return []byte(strings.Repeat("It was a dark and stormy night. ", 60) + m + strings.Repeat(" The rain fell in torrents.", 60))
}

func (v *victim) put(t *testing.T, s *disk.Saver, thread string, n int, md saver.Metadata, data ...[]byte) {
	t.Helper()
	cfg := saver.Config{ThreadID: thread}
	if n > 1 {
		cfg.CheckpointID = fmt.Sprintf("%04d", n-1)
	}
	cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("%04d", n), Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}}
	for i, b := range data {
		channel := fmt.Sprintf("ch%d", i)
		cp.Versions[channel] = saver.IntVersion(int64(n))
		cp.Values[channel] = saver.ValueTyped(serde.Typed{Kind: "bytes", Data: b})
	}
	if _, err := s.Put(t.Context(), cfg, cp, md, cp.Versions); err != nil {
		t.Fatal(err)
	}
}

// grow puts checkpoints from n on, whose first channel grows by more than a patch leaves
// unpacked, and by markers half of which are the base's and half the patch's. The other
// marker is packed away: its two parts are repeated from before.
func (v *victim) grow(t *testing.T, s *disk.Saver, when string, n int) {
	t.Helper()
	filler := strings.Repeat(" The tide was out,", 200)
	for i := range 3 {
		name := fmt.Sprintf("%d-%s", i, when)
		half := fmt.Sprintf("SECRET-%s-FIRST-HALF", name)
		v.markers["first half "+name], v.markers["second half "+name] = []byte(half), []byte("SECOND-"+half)
		v.markers["packed "+name] = []byte("SECRET-PACKED-MARKER-" + name + "-OF-THE-VICTIM")
		v.grown = slices.Concat(v.grown, []byte(v.half),
			[]byte("SECRET-PACKED-MARKER-"+filler+name+"-OF-THE-VICTIM"+filler), v.markers["packed "+name], []byte(half))
		v.half = "SECOND-" + half
		v.put(t, s, v.id, n+i, nil, nil, nil, nil, v.grown)
	}
	v.grown = append(v.grown, v.half...)
	v.half = ""
	v.put(t, s, v.id, n+3, nil, nil, nil, nil, v.grown)
}

const shared = "SHARED-WITH-THE-COPY"

// fill makes a store whose victim is in segments, images and log, was deleted once
// before, and has a copy that went its own way.
func fill(t *testing.T, s *disk.Saver) *victim {
	t.Helper()
	v := &victim{id: "thread-of-MRS-VICTIM", markers: map[string][]byte{}, rng: rand.New(rand.NewPCG(7, 7))}
	v.markers["thread id"] = []byte("MRS-VICTIM")
	v.put(t, s, v.id, 1, nil, v.text("EARLIER-LIFE"))
	must(t, s.Flush(t.Context()), s.DeleteThread(t.Context(), v.id))
	v.put(t, s, "bystander", 1, saver.Metadata{"run_id": "run"}, []byte("BYSTANDER"))
	v.put(t, s, v.id, 1, saver.Metadata{"run_id": "run"}, []byte(strings.Repeat("text before ", 100)+shared))
	must(t, s.Flush(t.Context()), s.CopyThread(t.Context(), v.id, "copy"))
	v.grow(t, s, "BEFORE-THE-FLUSH", 2)
	v.put(t, s, v.id, 6, saver.Metadata{"user": string(v.text("METADATA"))}, v.random("NOISE-IN-SEGMENT"), v.text("TEXT-IN-SEGMENT"))
	v.put(t, s, "copy", 2, nil, []byte("the copy's own"))
	// A copy whose own values lie in one line with those that only the victim has.
	must(t, s.CopyThread(t.Context(), v.id, "pruned"))
	v.put(t, s, "pruned", 7, nil, nil, nil, nil, bytes.Replace(v.grown, []byte("SECRET"), []byte("nobody's"), -1))
	must(t, s.Flush(t.Context()))
	_, err := s.Prune(t.Context(), []string{"pruned"}, saver.KeepLatest)
	must(t, err)
	v.grow(t, s, "IN-THE-LOG", 7)
	more := append(v.text("TEXT-IN-SEGMENT"), "a patch"...)
	v.put(t, s, v.id, 11, saver.Metadata{"run_id": "run-of-SECRET-RUN"}, v.random("NOISE-IN-LOG"), more, v.text("TEXT-IN-LOG"))
	v.markers["run id"] = []byte("SECRET-RUN")
	cfg := saver.Config{ThreadID: v.id, CheckpointID: "0011"}
	must(t, s.PutWrites(t.Context(), cfg, []saver.Write{{Channel: "SECRET-CHANNEL", Value: saver.ValueTyped(serde.Typed{Kind: "bytes", Data: v.random("NOISE-IN-WRITE")})}}, "SECRET-TASK", ""))
	v.markers["channel"], v.markers["task"] = []byte("SECRET-CHANNEL"), []byte("SECRET-TASK")
	must(t, s.Inside().Engine.WriteImage(t.Context()))
	return v
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// minMarker is the least length of a marker. A store has thousands of checksums and
// hashes, and a test scans hundreds of stores: three letters stand in one of them by
// chance once in a few dozen runs.
const minMarker = 8

// found are the markers of the victim that a scan finds, and where.
func (v *victim) found(t *testing.T, s scanned) []string {
	t.Helper()
	var out []string
	for name, m := range v.markers {
		if len(m) < minMarker {
			t.Fatalf("the marker %s, %q, is so short that it may be found by chance", name, m)
		}
		if places := s.with(m); len(places) > 0 {
			out = append(out, fmt.Sprintf("%s in %v", name, places))
		}
	}
	slices.Sort(out)
	return out
}

func eraseOptions() disk.Options {
	return disk.Options{ManualWork: true, LogFileSize: 64 << 10}
}

// TestEraseLeavesNothing: what DeleteThread leaves in the files, Erase does not.
func TestEraseLeavesNothing(t *testing.T) {
	keys, err := disk.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{7}, seal.KeySize)})
	must(t, err)
	for _, c := range []struct {
		name  string
		erase bool
		keys  disk.KeyProvider
	}{{"erase", true, nil}, {"delete", false, nil}, {"erase, encrypted", true, keys}, {"delete, encrypted", false, keys}} {
		t.Run(c.name, func(t *testing.T) {
			mem, erase, opts := vfs.NewMem(vfs.MemOptions{WindowsRules: true}), c.erase, eraseOptions()
			opts.Keys = c.keys
			s := openFor(t, "store", opts, disk.Simulation{FS: mem, Inline: true}) // no file is cut beside the scan
			v := fill(t, s)
			v.keys = c.keys
			before := scanStore(t, mem, "store", v.keys)
			if n := len(v.found(t, before)); n != len(v.markers) {
				t.Fatalf("the scan finds %d of %d markers before: %v", n, len(v.markers), v.found(t, before))
			}
			for _, place := range before.with(v.markers["packed 1-IN-THE-LOG"]) {
				if !strings.HasSuffix(place, " decoded") {
					t.Fatalf("what should be packed in a patch is found in %s", place)
				}
			}
			if !erase {
				must(t, s.DeleteThread(t.Context(), v.id))
				if len(v.found(t, scanStore(t, mem, "store", v.keys))) == 0 {
					t.Fatal("a scan finds nothing of a thread that was only deleted: it proves nothing")
				}
				return
			}
			must(t, s.Erase(t.Context(), v.id))
			wantErased(t, mem, s, v)
			must(t, s.Close())
			wantNothing(t, mem, v)
			s = openFor(t, "store", opts, disk.Simulation{FS: mem, Inline: true})
			wantErased(t, mem, s, v)
			must(t, s.Flush(t.Context()), s.Inside().Engine.WriteImage(t.Context()), s.Compact(t.Context()))
			wantErased(t, mem, s, v)
		})
	}
}

func wantNothing(t *testing.T, fsys vfs.FS, v *victim) scanned {
	t.Helper()
	after := scanStore(t, fsys, "store", v.keys)
	if found := v.found(t, after); len(found) > 0 {
		t.Fatalf("still there:\n%s", strings.Join(found, "\n"))
	}
	return after
}

// wantErased checks that nothing of the victim is left, that its id is remembered,
// and that others lost nothing.
func wantErased(t *testing.T, fsys vfs.FS, s *disk.Saver, v *victim) {
	t.Helper()
	after := wantNothing(t, fsys, v)
	if len(after.with([]byte(shared))) == 0 || len(after.with([]byte("BYSTANDER"))) == 0 {
		t.Fatal("the scan does not find what others have")
	}
	if n, err := s.PendingErasures(); n != 0 || err != nil {
		t.Fatalf("%d erasures pending, %v", n, err)
	}
	err := s.PutWrites(t.Context(), saver.Config{ThreadID: v.id, CheckpointID: "0003"}, []saver.Write{{Channel: "c", Value: saver.ValueOf("late")}}, "task", "")
	if !errors.Is(err, saver.ErrThreadDeleted) {
		t.Fatalf("a late write: %v", err)
	}
	for thread, want := range map[string]int{"copy": 2, "pruned": 1, "bystander": 1, v.id: 0} {
		n := 0
		for tup, err := range s.List(t.Context(), saver.Query{ThreadID: thread}) {
			must(t, err)
			for _, value := range tup.Checkpoint.Values {
				_, err := value.Any()
				must(t, err)
			}
			n++
		}
		if n != want {
			t.Fatalf("%d checkpoints of %s, want %d", n, thread, want)
		}
	}
	tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "copy", CheckpointID: "0001"})
	must(t, err)
	if b, err := tup.Checkpoint.Values["ch0"].Any(); err != nil || !strings.Contains(fmt.Sprintf("%s", b), shared) {
		t.Fatalf("the copy reads %.40s, %v", b, err)
	}
}
