package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/engine/backup"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/snapshot"
)

var (
	backupDir  = filepath.Join("home", "backup")
	restoreDir = filepath.Join("home", "restored")
)

// storeSteps is a program that leaves files of every kind, in a store that is not
// closed.
func storeSteps(g *generator) []step {
	var steps []step
	for range 3 {
		for range 3 {
			steps = append(steps, g.put())
		}
		steps = append(steps, g.putWrites(), flushStep(), g.put(), imageStep(), g.put())
	}
	return steps
}

// play runs steps on a store and its model.
func play(ctx context.Context, d *opened, model full, clk *clock, steps []step) error {
	for i, s := range steps {
		if s.work != nil {
			if err := s.work(ctx, d.Saver); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
			continue
		}
		clk.set(clk.n + 1)
		if got, want := s.call(ctx, d), s.call(ctx, model); class(got) != class(want) {
			return fmt.Errorf("step %d, %s: disk answers %v, model %v", i, s.what, got, want)
		}
	}
	return nil
}

// played is a store on a recording file system, open, with its model.
func played(t *testing.T, seed uint64) (*crashfs.FS, *opened, *model, *clock, *generator) {
	t.Helper()
	fsys, clk := crashfs.New(), &clock{}
	model := newModel(clk)
	d, err := config{seed: seed}.open(fsys, clk)
	if err != nil {
		t.Fatal(err)
	}
	g := newGenerator(rand.New(rand.NewPCG(seed, 3)))
	g.big = 600
	if err := play(context.Background(), d, model, clk, storeSteps(g)); err != nil {
		t.Fatal(err)
	}
	return fsys, d, model, clk, g
}

func backupOptions(fsys vfs.FS) admin.BackupOptions { return admin.BackupOptions{Access: access(fsys)} }

// storeDump is what a store in a directory answers.
func storeDump(fsys vfs.FS, dir string) (string, error) {
	d, err := disk.Open(dir, disk.Options{ManualWork: true, CacheBytes: -1, Simulation: disk.Simulation{FS: fsys, Rand: source(5), Inline: true}})
	if err != nil {
		return "", err
	}
	all, err := withItems(d, &clock{})
	if err != nil {
		return "", errors.Join(err, d.Close())
	}
	text, err := dump(context.Background(), all)
	return text, errors.Join(err, d.Close())
}

func mustDump(t *testing.T, s full) string {
	t.Helper()
	text, err := dump(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// states calls fn for crash states of the operations from one place of the log on,
// about as many as asked for, every cut at least once.
func states(fsys *crashfs.FS, from int, seed uint64, want int, fn func(s crashfs.State)) (n int) {
	cuts := fsys.Len() - from + 1
	for cut := from; cut <= fsys.Len(); cut++ {
		i := 0
		for s := range fsys.States(cut, crashfs.Options{Seed: seed + uint64(cut), Random: 2, MaxTorn: 2, MaxSingle: 3, Adversarial: cut%2 == 0}) {
			fn(s)
			n++
			if i++; i >= max(1, want/cuts) {
				break
			}
		}
	}
	return n
}

// TestVerifyAfterCrash: whatever a power failure leaves is not damage, with or without
// a recovery in between.
func TestVerifyAfterCrash(t *testing.T) {
	seed := seedFrom(t, "CRASH_SEED")
	defer func() {
		if t.Failed() {
			t.Logf("repeat with CRASH_SEED=%d go test ./test/crash -run '^TestVerifyAfterCrash$'", seed)
		}
	}()
	fsys, d, _, _, _ := played(t, seed)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	none := 0
	n := states(fsys, 0, seed, envInt(t, "VERIFY_STATES", defaultVerifyStates), func(s crashfs.State) {
		sv := s.FS()
		for _, life := range []string{"crash", "recovery"} {
			rep, err := verifyStore(t, sv)
			if errors.Is(err, fault.ErrNotStore) {
				none++ // before the first manifest
				return
			}
			if err != nil || !rep.Clean() {
				t.Fatalf("after a %s: %+v, %v\n%v", life, rep, err, s)
			}
			if life == "crash" {
				if _, err := storeDump(sv, dir); err != nil {
					t.Fatalf("open: %v\n%v", err, s)
				}
			}
		}
	})
	t.Logf("verify: %d crash states, %d of them without a store, 0 called damaged", n, none)
}

// TestBackupCrash: a power failure during a first backup, or during a second that
// replaces the first, leaves the backup before or the new one, whole.
func TestBackupCrash(t *testing.T) {
	ctx := context.Background()
	seed := seedFrom(t, "CRASH_SEED")
	defer func() {
		if t.Failed() {
			t.Logf("repeat with CRASH_SEED=%d go test ./test/crash -run '^TestBackupCrash$'", seed)
		}
	}()
	fsys, d, model, clk, g := played(t, seed)
	dumps := []string{""}
	count := [3]int{}
	for round := 1; round <= 2; round++ {
		from := fsys.Len()
		if _, err := admin.BackupOpen(ctx, d.Saver, backupDir, backupOptions(fsys)); err != nil {
			t.Fatal(err)
		}
		dumps = append(dumps, mustDump(t, model))
		n := states(fsys, from, seed, envInt(t, "BACKUP_STATES", 150), func(s crashfs.State) {
			sv := s.FS()
			text := ""
			_, err := admin.Restore(ctx, backupDir, restoreDir, backupOptions(sv))
			if err == nil {
				text, err = storeDump(sv, restoreDir)
			}
			switch {
			case errors.Is(err, fault.ErrNotStore) && round == 1:
				count[0]++
			case err != nil:
				t.Fatalf("backup %d: %v\n%v", round, err, s)
			case text != dumps[round-1] && text != dumps[round] || text == "":
				t.Fatalf("backup %d: restored is neither the backup before nor the new one\n%v", round, s)
			default:
				count[slices.Index(dumps, text)]++
			}
		})
		t.Logf("backup %d: %d crash states", round, n)
		if err := play(ctx, d, model, clk, storeSteps(g)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("restored: none %d, the first %d, the second %d", count[0], count[1], count[2])
}

// TestRestoreCrash: a power failure during a restore leaves no store, or all of it.
func TestRestoreCrash(t *testing.T) {
	ctx := context.Background()
	seed := seedFrom(t, "CRASH_SEED")
	defer func() {
		if t.Failed() {
			t.Logf("repeat with CRASH_SEED=%d go test ./test/crash -run '^TestRestoreCrash$'", seed)
		}
	}()
	fsys, d, model, _, _ := played(t, seed)
	want := mustDump(t, model)
	if _, err := admin.BackupOpen(ctx, d.Saver, backupDir, backupOptions(fsys)); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	from := fsys.Len()
	if _, err := admin.Restore(ctx, backupDir, restoreDir, backupOptions(fsys)); err != nil {
		t.Fatal(err)
	}
	none, all := 0, 0
	states(fsys, from, seed, envInt(t, "BACKUP_STATES", 150), func(s crashfs.State) {
		sv := s.FS()
		names, err := sv.List(restoreDir)
		published := err == nil && slices.Contains(names, "MANIFEST-000001")
		if !published && len(names) == 0 {
			none++ // Open would make a new store: nothing is there
			return
		}
		text, err := storeDump(sv, restoreDir)
		switch {
		case err != nil && !published && (errors.Is(err, saver.ErrCorrupt) || errors.Is(err, fault.ErrNotStore)):
			none++
		case err != nil || text != want:
			t.Fatalf("restored: %v, complete %t\n%v", err, text == want, s)
		case !isHeld(t, sv, restoreDir):
			t.Fatalf("a store that is not held\n%v", s)
		default:
			all++
		}
	})
	if none == 0 || all == 0 {
		t.Errorf("%d states without a store, %d with: the test looks at one side only", none, all)
	}
	t.Logf("restore: %d crash states without a store, %d with all of it", none, all)
}

// isHeld reports whether a store is held.
func isHeld(t *testing.T, fsys vfs.FS, dir string) bool {
	t.Helper()
	info, err := admin.Describe(dir, backupOptions(fsys).Access)
	if err != nil {
		t.Fatal(err)
	}
	return info.Held
}

// TestReleaseCrash: a power failure during a release leaves a store that is held, or one that is released,
// and a second release ends what the
// first began. Once Release has returned, no failure leaves a store that is held.
func TestReleaseCrash(t *testing.T) {
	ctx := context.Background()
	seed := seedFrom(t, "CRASH_SEED")
	fsys, d, _, _, _ := played(t, seed)
	if _, err := admin.BackupOpen(ctx, d.Saver, backupDir, backupOptions(fsys)); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Restore(ctx, backupDir, restoreDir, backupOptions(fsys)); err != nil {
		t.Fatal(err)
	}
	open := func(fsys vfs.FS) *disk.Saver {
		o := backupOptions(fsys).Access.Options
		o.ManualWork = true
		s, err := disk.Open(restoreDir, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(fsys)
	from := fsys.Len()
	if err := s.Release(ctx); err != nil {
		t.Fatal(err)
	}
	released := fsys.Len()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	held, free := 0, 0
	look := func(late bool) func(crashfs.State) {
		return func(st crashfs.State) {
			sv := st.FS()
			switch was := isHeld(t, sv, restoreDir); {
			case was && late:
				t.Fatalf("held after the release\n%v", st)
			case was:
				held++
			default:
				free++
			}
			s := open(sv)
			if err := s.Release(ctx); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if st, _, err := snapshot.Load(sv, restoreDir); err != nil || st.Held != 0 {
				t.Fatalf("the manifest says held up to %d, %v", st.Held, err)
			}
		}
	}
	states(fsys, from, seed, envInt(t, "BACKUP_STATES", 150), look(false))
	states(fsys, released, seed, envInt(t, "BACKUP_STATES", 150), look(true))
	if held == 0 || free == 0 {
		t.Errorf("%d states that are held, %d that are not: the test looks at one side only", held, free)
	}
	t.Logf("release: %d crash states that are held, %d that are released", held, free)
}

// TestBackupRot: a backup that was damaged is not restored, nothing of it is left
// behind, and Verify names the file. If an image of the index is damaged the backup is restored without it;
// of other files Salvage saves what can be read. The next backup with Check makes it good.
func TestBackupRot(t *testing.T) {
	ctx := context.Background()
	seed := seedFrom(t, "ROT_SEED")
	fsys, d, model, _, _ := played(t, seed)
	want := mustDump(t, model)
	if _, err := admin.BackupOpen(ctx, d.Saver, backupDir, backupOptions(fsys)); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	img := fsys.Mem().Image()
	rng := rand.New(rand.NewPCG(seed, 9))
	images, salvaged := 0, 0
	for name, f := range img.Files {
		if filepath.Dir(name) != backupDir || filepath.Base(name) == "LOCK" {
			continue
		}
		for _, off := range []int64{0, rng.Int64N(f.Size()), f.Size() - 1} {
			mem := vfs.NewMemFrom(img, vfs.MemOptions{})
			data := contents(f)
			data[off] ^= 1 << rng.IntN(8)
			if err := overwrite(mem, name, data); err != nil {
				t.Fatal(err)
			}
			rep, err := admin.Verify(ctx, backupDir, admin.VerifyOptions{Access: access(mem)})
			if !errors.Is(err, fault.ErrVersion) && (err != nil || rep.Clean()) {
				t.Fatalf("byte %d of %s: verify says %+v, %v", off, name, rep, err)
			}
			rep, err = admin.Restore(ctx, backupDir, restoreDir, backupOptions(mem))
			if filepath.Ext(name) == ".img" {
				images++
				if err != nil || len(rep.Notices) == 0 || rep.Notices[len(rep.Notices)-1].File != filepath.Base(name) {
					t.Fatalf("byte %d of %s: %+v, %v", off, name, rep, err)
				}
				if text, err := storeDump(mem, restoreDir); err != nil || text != want {
					t.Fatalf("byte %d of %s: restored without it: %v", off, name, err)
				}
				continue
			}
			if !errors.Is(err, saver.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
				t.Fatalf("byte %d of %s: restored: %v", off, name, err)
			}
			saved, err := admin.Salvage(ctx, backupDir, salvageDir, admin.SalvageOptions{Access: access(mem)})
			switch {
			case filepath.Base(name) == backup.Name:
				if err == nil {
					t.Fatalf("byte %d of %s: salvaged without the list", off, name)
				}
			case err != nil || !saved.Held || saved.Threads == 0 || saved.Complete() ||
				!slices.ContainsFunc(saved.Damage, func(f admin.Finding) bool { return f.File == filepath.Base(name) }):
				t.Fatalf("byte %d of %s: salvage: %+v, %v", off, name, saved, err)
			default:
				salvaged++
			}
			if names, err := mem.List(restoreDir); err == nil && len(names) > 0 {
				t.Fatalf("byte %d of %s: left behind %v", off, name, names)
			}
			o := backupOptions(mem)
			o.Check = true
			if _, err := admin.Backup(ctx, dir, backupDir, o); err != nil {
				t.Fatalf("byte %d of %s: back up again: %v", off, name, err)
			}
			if _, err := admin.Restore(ctx, backupDir, restoreDir, backupOptions(mem)); err != nil {
				t.Fatalf("byte %d of %s: restore the new backup: %v", off, name, err)
			}
			if text, err := storeDump(mem, restoreDir); err != nil || text != want {
				t.Fatalf("byte %d of %s: the new backup differs: %v", off, name, err)
			}
		}
	}
	if images == 0 || salvaged == 0 {
		t.Errorf("%d damaged images, %d damaged files that were salvaged", images, salvaged)
	}
}
