package crash

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// access reads the stores of these tests.
func access(fsys vfs.FS) admin.Access {
	return admin.Access{Options: disk.Options{CacheBytes: -1, Simulation: disk.Simulation{FS: fsys, Rand: source(77), Inline: true}}}
}

func verifyStore(t *testing.T, fsys vfs.FS) (*admin.VerifyReport, error) {
	t.Helper()
	return admin.Verify(context.Background(), dir, admin.VerifyOptions{Access: access(fsys)})
}

// eachRot damages every file of every shape in every way and hands the result to judge.
func eachRot(t *testing.T, seed uint64, most int, judge func(sh *shape, what string, mem *vfs.Mem)) (total int) {
	t.Helper()
	for i, s := range shapes() {
		if race.Enabled && i%2 == 1 {
			continue // one goroutine does all of it
		}
		sh, err := build(context.Background(), s.clean, s.steps, 0)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		sh.name = s.name
		r := &rotten{t: t, ctx: context.Background(), sh: sh, rng: rand.New(rand.NewPCG(seed, 2)), most: most, bits: envInt(t, "ROT_BITS", 1)}
		r.check = func(what string, mem *vfs.Mem) { judge(sh, what, mem) }
		for _, name := range slices.Sorted(maps.Keys(sh.img.Files)) {
			if filepath.Base(name) != "LOCK" {
				r.file(name)
			}
		}
		total += r.total
	}
	return total
}

// TestVerifyFindsRot: Verify says nothing of sound stores, and something of every
// edit, naming the file. What it says nothing of costs nothing: after a kill, zeros behind
// the log that are cut off. VERIFY_BYTES sets how many bytes of each file are flipped.
func TestVerifyFindsRot(t *testing.T) {
	t.Parallel()
	seed := seedFrom(t, "ROT_SEED")
	defer func() {
		if t.Failed() {
			t.Logf("repeat with ROT_SEED=%d go test ./test/crash -run '^TestVerifyFindsRot$'", seed)
		}
	}()
	damage, notices, harmless := 0, 0, 0
	sound := map[string]*admin.VerifyReport{}
	total := eachRot(t, seed, envInt(t, "VERIFY_BYTES", defaultVerifyBytes), func(sh *shape, what string, mem *vfs.Mem) {
		if sound[sh.name] == nil {
			rep, err := verifyStore(t, vfs.NewMemFrom(sh.img, vfs.MemOptions{}))
			if err != nil || !rep.Clean() || sh.clean && len(rep.Notices) > 0 {
				t.Fatalf("store %q is sound, Verify says %+v, %v", sh.name, rep, err)
			}
			sound[sh.name] = rep
		}
		before := mem.Image()
		if untouched(sh.img, before) == nil {
			return // an older copy, or another file, with the same bytes
		}
		rep, err := verifyStore(t, mem)
		switch {
		case errors.Is(err, fault.ErrVersion):
			damage++
			return
		case err != nil:
			t.Fatalf("store %q: %s: %v", sh.name, what, err)
		}
		if err := untouched(before, mem.Image()); err != nil {
			t.Fatalf("store %q: %s: Verify wrote: %v", sh.name, what, err)
		}
		was := sound[sh.name]
		switch {
		case !rep.Clean():
			damage++
		case !reflect.DeepEqual(rep.Notices, was.Notices):
			notices++
		case what == "lose "+wal.MarkName, what == "put an older copy of "+wal.MarkName:
			harmless++ // an older bound, or none
		case !sh.clean:
			v, err := sh.judge(context.Background(), mem)
			if err != nil || v != unharmed {
				t.Fatalf("store %q: %s: undetected, and %s: %v", sh.name, what, verdictNames[v], err)
			}
			harmless++
		case sh.clean && lostCloseMark(t, sh, before):
			harmless++ // the manifest tells of the close as well: the mark alone vouches for nothing
		default:
			t.Fatalf("store %q: %s: undetected; %+v", sh.name, what, rep)
		}
	})
	t.Logf("verify: %d damages: %d found, %d noticed, %d harmless, 0 undetected", total, damage, notices, harmless)
}

// lostCloseMark says whether the log of a closed store lost its close mark, and nothing
// else, whichever edit took it.
func lostCloseMark(t *testing.T, sh *shape, img vfs.MemImage) bool {
	t.Helper()
	st, _, err := snapshot.Load(vfs.NewMemFrom(sh.img, vfs.MemOptions{}), dir)
	if err != nil || st.Clean == nil {
		t.Fatalf("manifest of a closed store: %+v, %v", st.Clean, err)
	}
	for name, f := range sh.img.Files {
		if filepath.Base(name) == base.LogFile.Name(st.Clean.LogNum) && img.Files[name] != nil {
			rest, kept := bytes.CutPrefix(contents(img.Files[name]), contents(f)[:st.Clean.LogEnd])
			return kept && len(bytes.Trim(rest, "\x00")) == 0 // zeros of the mark may be left
		}
	}
	return false
}
