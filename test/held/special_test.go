//go:build unix

package held

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

const secret = "what a link leads to, outside of the store"

// specials put something that is no regular file at name. victim lies elsewhere.
var specials = map[string]func(name, victim string) error{
	"link":            func(name, victim string) error { return os.Symlink(victim, name) },
	"link to nothing": func(name, victim string) error { return os.Symlink(victim+".none", name) },
	"fifo":            func(name, _ string) error { return syscall.Mkfifo(name, 0o600) },
	"directory":       func(name, _ string) error { return os.Mkdir(name, 0o700) },
	"socket": func(name, _ string) error {
		here, err := os.Getwd() // the path of a socket is short
		if err != nil {
			return err
		}
		if err := os.Chdir(filepath.Dir(name)); err != nil {
			return err
		}
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Base(name), Net: "unix"})
		if err == nil {
			l.SetUnlinkOnClose(false)
			err = l.Close()
		}
		return errors.Join(err, os.Chdir(here))
	},
	"device": func(name, _ string) error { return syscall.Mknod(name, syscall.S_IFCHR|0o600, 1<<8|3) }, // that of /dev/null
}

const (
	killedCount   = 30 // checkpoints of a store that was killed
	killedFlushed = 20 // those of them that are in a segment
)

// killed leaves a store behind that was not closed, with a file of every kind: log,
// segment, image, manifest, mark, lock.
func killed(t *testing.T, dir string) {
	t.Helper()
	o := options(true, 1)
	o.ManualWork = true
	live := filepath.Join(t.TempDir(), "live")
	d, err := disk.Open(live, o.In(disk.Simulation{Inline: true})) // nothing changes while it is copied
	fatal(t, err)
	w := &writer{d: d, small: true}
	fatal(t, errors.Join(w.put(killedFlushed), d.Flush(ctx), w.put(killedCount-killedFlushed)))
	fatal(t, os.CopyFS(dir, os.DirFS(live)))
	fatal(t, d.Close())
}

// everything opens and looks at a store in every way there is; each of them has to give
// an error that says what is wrong.
func everything(dir, scratch string) map[string]func() error {
	return map[string]func() error{
		"open": func() error {
			d, err := disk.Open(dir, disk.Options{})
			if err == nil { // a segment is opened by who reads of it
				_, err = d.GetTuple(ctx, saver.Config{ThreadID: "t", CheckpointID: id(1)})
				err = errors.Join(err, putOne(d, "u", 1, "value"), d.Close())
			}
			return err
		},
		"read only": func() error {
			d, err := disk.Open(dir, disk.Options{ReadOnly: true})
			if err == nil {
				err = d.Close()
			}
			return err
		},
		"verify": func() error { _, err := admin.Verify(ctx, dir, admin.VerifyOptions{}); return err },
		"info":   func() error { _, err := admin.Stats(dir, admin.Access{}); return err },
		"salvage": func() error {
			_, err := admin.Salvage(ctx, dir, filepath.Join(scratch, "salvaged"), admin.SalvageOptions{})
			return err
		},
		"backup": func() error {
			_, err := admin.Backup(ctx, dir, filepath.Join(scratch, "backup"), admin.BackupOptions{})
			return err
		},
		"compact": func() error { _, err := admin.Compact(ctx, dir, admin.Access{}, nil); return err },
	}
}

// passes are the names that somebody may never look at: they may be anything there.
func passes(name, how string) bool {
	switch {
	case how == "salvage": // it goes past everything, and lists it: see TestSalvagePastSpecialFiles
		return true
	case name == "LOCK": // who does not write does not lock
		return slices.Contains([]string{"read only", "verify", "info", "backup"}, how)
	case strings.HasPrefix(name, "MANIFEST-"):
		return false
	case name == "000900.log": // of no store yet
		return how != "open" && how != "compact" && how != "verify"
	case name == "000900.seg", name == "000900.img", strings.HasSuffix(name, ".tmp"):
		return true
	case strings.HasSuffix(name, ".img"): // what it says lies elsewhere as well
		return how == "info"
	}
	return false
}

// TestSpecialFiles: something that is no regular file has the name of a file of the store,
// or of one that might be. Nobody waits for it, nobody follows it, whoever needs it is told,
// and nothing outside changes.
func TestSpecialFiles(t *testing.T) {
	root := t.TempDir()
	origin := filepath.Join(root, "origin")
	killed(t, origin)
	names, err := os.ReadDir(origin)
	fatal(t, err)
	list := []string{"000900.log", "000900.seg", "000900.img", "000900.log.tmp", "MANIFEST-000900"}
	for _, n := range names {
		list = append(list, n.Name())
	}
	kinds := map[string]bool{}
	for what, put := range specials {
		if what == "device" && os.Geteuid() != 0 {
			continue // only the superuser makes one
		}
		for _, name := range list {
			kinds[filepath.Ext(name)] = true
			dir := filepath.Join(root, "store")
			victim := filepath.Join(root, "victim")
			fatal(t, os.WriteFile(victim, []byte(secret), 0o600))
			for how := range everything(dir, root) {
				fatal(t, os.CopyFS(dir, os.DirFS(origin)))
				fatal(t, os.RemoveAll(filepath.Join(dir, name)))
				fatal(t, put(filepath.Join(dir, name), victim))
				scratch, err := os.MkdirTemp(root, "scratch")
				fatal(t, err)
				err = everything(dir, scratch)[how]()
				var nr *fault.NotRegularError
				switch {
				case errors.As(err, &nr) && filepath.Base(nr.File) == name:
				case err == nil && passes(name, how):
				default:
					t.Errorf("%s in place of %s, %s: %v", what, name, how, err)
				}
				if b, err := os.ReadFile(victim); err != nil || string(b) != secret {
					t.Fatalf("%s in place of %s, %s: the victim holds %.40q, %v", what, name, how, b, err)
				}
				if _, err := os.Stat(victim + ".none"); !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("%s in place of %s, %s: a file was made through a link", what, name, how)
				}
				fatal(t, os.RemoveAll(dir))
			}
		}
	}
	for _, ext := range []string{".log", ".seg", ".img", ".tmp", ""} {
		if !kinds[ext] {
			t.Errorf("no file with the extension %q was tried", ext)
		}
	}
}

// TestSalvagePastSpecialFiles: what is no regular file is missing to salvage, and is listed;
// all that is in the other files is saved.
func TestSalvagePastSpecialFiles(t *testing.T) {
	root := t.TempDir()
	origin, victim := filepath.Join(root, "origin"), filepath.Join(root, "victim")
	killed(t, origin)
	names, err := os.ReadDir(origin)
	fatal(t, err)
	list := []string{"000900.log", "000900.seg", "000900.img", "MANIFEST-000900"}
	for _, n := range names {
		if n.Name() != "LOCK" { // nobody looks at it
			list = append(list, n.Name())
		}
	}
	fatal(t, os.WriteFile(victim, []byte(secret), 0o600))
	for _, what := range []string{"link", "link to nothing", "fifo", "directory", "socket"} {
		for _, name := range list {
			t.Run(what+" in place of "+name, func(t *testing.T) {
				dir, out := filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "saved")
				fatal(t, os.CopyFS(dir, os.DirFS(origin)))
				fatal(t, os.RemoveAll(filepath.Join(dir, name)))
				fatal(t, specials[what](filepath.Join(dir, name), victim))
				rep, err := admin.Salvage(ctx, dir, out, admin.SalvageOptions{})
				fatal(t, err)
				if !slices.ContainsFunc(rep.Damage, func(f admin.Finding) bool {
					return f.File == name && strings.Contains(f.Detail, "no file of a store is")
				}) {
					t.Errorf("it is not listed: %v", rep.Damage)
				}
				w := &writer{small: true, n: killedCount}
				switch {
				case name[:6] != "000900" && filepath.Ext(name) == ".seg":
					return // what was in it is lost
				case name[:6] != "000900" && filepath.Ext(name) == ".log":
					w.n = killedFlushed
				}
				w.check(t, out, disk.Simulation{})
			})
		}
	}
}

// TestSpecialFilesInBackup is the same for the files of a backup.
func TestSpecialFilesInBackup(t *testing.T) {
	root := t.TempDir()
	origin, store := filepath.Join(root, "origin"), filepath.Join(root, "store")
	killed(t, store)
	_, err := admin.Backup(ctx, store, origin, admin.BackupOptions{})
	fatal(t, err)
	names, err := os.ReadDir(origin)
	fatal(t, err)
	list := []string{"BACKUP.tmp"}
	for _, n := range names {
		list = append(list, n.Name())
	}
	victim := filepath.Join(root, "victim")
	dir := filepath.Join(root, "backup")
	for what, put := range specials {
		if what == "device" && os.Geteuid() != 0 {
			continue // only the superuser makes one
		}
		for _, name := range list {
			for how, do := range map[string]func() error{
				"restore": func() error {
					_, err := admin.Restore(ctx, dir, filepath.Join(dir, "restored"), admin.BackupOptions{})
					return err
				},
				"verify": func() error { _, err := admin.Verify(ctx, dir, admin.VerifyOptions{}); return err },
				"backup": func() error {
					_, err := admin.Backup(ctx, store, dir, admin.BackupOptions{Check: true})
					return err
				},
			} {
				fatal(t, os.WriteFile(victim, []byte(secret), 0o600))
				fatal(t, os.CopyFS(dir, os.DirFS(origin)))
				fatal(t, os.RemoveAll(filepath.Join(dir, name)))
				fatal(t, put(filepath.Join(dir, name), victim))
				err := do()
				var nr *fault.NotRegularError
				ignored := name == "LOCK" && how != "backup" || name == "BACKUP.tmp" && (how != "backup" || what != "directory")
				told := errors.As(err, &nr) && filepath.Base(nr.File) == name || name == "BACKUP.tmp" && err != nil
				if !told && (err != nil || !ignored) {
					t.Errorf("%s in place of %s, %s: %v", what, name, how, err)
				}
				if b, err := os.ReadFile(victim); err != nil || string(b) != secret {
					t.Fatalf("%s in place of %s, %s: the victim holds %.40q, %v", what, name, how, b, err)
				}
				if _, err := os.Stat(victim + ".none"); !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("%s in place of %s, %s: a file was made through a link", what, name, how)
				}
				fatal(t, os.RemoveAll(dir))
			}
		}
	}
}

// TestHardLink: a file that would be written to and has another name as well is refused;
// what is only read may have as many as it likes.
func TestHardLink(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"LOCK", "DURABLE"} {
		dir, victim := filepath.Join(root, "of-"+name), filepath.Join(root, "victim-"+name)
		killed(t, dir)
		fatal(t, os.WriteFile(victim, []byte(secret), 0o600))
		fatal(t, errors.Join(os.Remove(filepath.Join(dir, name)), os.Link(victim, filepath.Join(dir, name))))
		d, err := disk.Open(dir, disk.Options{})
		if name == "LOCK" && !errors.Is(err, fault.ErrNotRegular) {
			t.Errorf("a LOCK with two links: %v", err)
		}
		if err == nil { // a mark that cannot be written is missed by nobody
			fatal(t, errors.Join(putOne(d, "u", 1, "value"), d.Close()))
		}
		if b, err := os.ReadFile(victim); err != nil || string(b) != secret {
			t.Errorf("%s: the victim holds %.40q, %v", name, b, err)
		}
	}
	dir := filepath.Join(root, "linked")
	killed(t, dir)
	names, err := filepath.Glob(filepath.Join(dir, "*.*"))
	fatal(t, err)
	for _, n := range names {
		fatal(t, os.Link(n, filepath.Join(root, filepath.Base(n))))
	}
	(&writer{small: true, n: killedCount}).check(t, dir, disk.Simulation{})
}

// TestVeryLongLog: a killed store whose last log file somebody made 100 GiB long opens, and
// all else is done with it, by what is in it. Reading the zeros would take minutes.
func TestVeryLongLog(t *testing.T) {
	root := t.TempDir()
	w := &writer{small: true, n: killedCount}
	long := func(dir string) {
		killed(t, dir)
		logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
		fatal(t, err)
		slices.Sort(logs)
		fatal(t, os.Truncate(logs[len(logs)-1], 100<<30))
	}
	dir := filepath.Join(root, "store")
	long(dir)
	rep, err := admin.Verify(ctx, dir, admin.VerifyOptions{})
	if err != nil || !rep.Clean() || rep.Checkpoints != w.n {
		t.Fatalf("verify: %+v, %v", rep, err)
	}
	_, err = admin.Backup(ctx, dir, filepath.Join(root, "backup"), admin.BackupOptions{})
	fatal(t, err)
	_, err = admin.Restore(ctx, filepath.Join(root, "backup"), filepath.Join(root, "restored"), admin.BackupOptions{})
	fatal(t, err)
	w.check(t, filepath.Join(root, "restored"), disk.Simulation{})
	_, err = admin.Salvage(ctx, dir, filepath.Join(root, "salvaged"), admin.SalvageOptions{})
	fatal(t, err)
	w.check(t, filepath.Join(root, "salvaged"), disk.Simulation{})
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	fatal(t, err)
	for _, l := range logs {
		for e, err := range admin.Dump(context.Background(), l, admin.Access{}) {
			if err != nil || e.Error != "" {
				t.Fatalf("dump: %+v, %v", e, err)
			}
		}
	}
	w.check(t, dir, disk.Simulation{})
}

// TestVeryLongSegment is the same for a segment that was made as long: it is damaged, and
// nothing of what it holds is lost.
func TestVeryLongSegment(t *testing.T) {
	root := t.TempDir()
	dir, out := filepath.Join(root, "store"), filepath.Join(root, "salvaged")
	killed(t, dir)
	segments, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	fatal(t, err)
	fatal(t, os.Truncate(segments[0], 100<<30))
	noFooter := func(f admin.Finding) bool { return strings.Contains(f.Detail, "no footer at the end of the file") }
	rep, err := admin.Verify(ctx, dir, admin.VerifyOptions{})
	if err != nil || !slices.ContainsFunc(rep.Damage, noFooter) || rep.Checkpoints != killedCount {
		t.Fatalf("verify: %+v, %v", rep, err)
	}
	saved, err := admin.Salvage(ctx, dir, out, admin.SalvageOptions{})
	if err != nil || !slices.ContainsFunc(saved.Damage, noFooter) || saved.Lost() {
		t.Fatalf("salvage: %+v, %v", saved, err)
	}
	(&writer{small: true, n: killedCount}).check(t, out, disk.Simulation{})
}
