//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// asCommand holds the arguments of a test process that is to be the command.
const asCommand = "STELE_AS_COMMAND"

// user is who runs a command.
type user struct {
	uid, gid uint32
	groups   []uint32
	caps     []uintptr
}

var (
	root     = user{}
	service  = user{uid: 70001, gid: 70001, groups: []uint32{70009}}
	stranger = user{uid: 70002, gid: 70002, groups: []uint32{70009}}
)

// doneByRoot are the commands that root has run, as commandOf names them.
var doneByRoot = map[string]bool{}

// commandOf names a command, and whether it was given a bucket.
func commandOf(cmd *cobra.Command, replica bool) string {
	if replica {
		return cmd.CommandPath() + " --replica"
	}
	return cmd.CommandPath()
}

// command is the command as this user runs it. The binary of the test may lie where only root
// looks, so the child takes the one that it is a copy of.
func (u user) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if u.uid == root.uid {
		cmd, _, err := (&app{}).root().Find(args)
		if err != nil {
			t.Fatal(err)
		}
		doneByRoot[commandOf(cmd, slices.Contains(args, "--replica"))] = true
	}
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestAsCommand$")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), asCommand+"="+string(b))
	cmd.SysProcAttr = &syscall.SysProcAttr{AmbientCaps: u.caps, Credential: &syscall.Credential{Uid: u.uid, Gid: u.gid, Groups: u.groups}}
	return cmd
}

// run runs the command and returns what it said, and its exit code.
func (u user) run(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	cmd := u.command(t, args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (u user) must(t *testing.T, args ...string) {
	t.Helper()
	if said, code := u.run(t, args...); code != 0 {
		t.Fatalf("user %d: stele %s: exit code %d: %s", u.uid, strings.Join(args, " "), code, said)
	}
}

// TestAsCommand is the command, in a process of a test.
func TestAsCommand(t *testing.T) {
	said := os.Getenv(asCommand)
	if said == "" {
		return // not a process of a test
	}
	var args []string
	if err := json.Unmarshal([]byte(said), &args); err != nil {
		t.Fatal(err)
	}
	syscall.Umask(0o077) // what files are made with must not depend on it
	os.Exit(untilSignal(onlyReads(args), func(ctx context.Context) int { return run(ctx, args, os.Stdout, os.Stderr) }))
}

// needRoot ends a test that cannot be made by a user who may not become another one.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("LEFT OUT: to run commands as several users takes root")
	}
}

// give makes all below dir, and dir, a user's.
func give(t *testing.T, dir string, u user) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(u.uid), int(u.gid))
	}); err != nil {
		t.Fatal(err)
	}
}

// foreign are the files below dir that are not the user's, or that the user may not read and write.
func foreign(t *testing.T, dir string, u user) (names []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != u.uid || info.Mode()&0o600 != 0o600 {
			names = append(names, path)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// home is a directory of the service, with its store.
func home(t *testing.T) (dir, store string) {
	t.Helper()
	w := newWorld(t)
	w.fixture()
	dir, err := os.MkdirTemp("", "home") // short: the path of a socket has 107 bytes, and serve uses another place if it is longer
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	store = filepath.Join(dir, "store")
	must(t, os.Rename(w.dir, store))
	for at := dir; at != filepath.Dir(os.TempDir()) && at != "/"; at = filepath.Dir(at) {
		if st, err := os.Stat(at); err == nil && st.Mode()&0o005 != 0o005 {
			if err := os.Chmod(at, st.Mode()|0o055); err != nil {
				t.Fatal(err)
			}
		}
	}
	give(t, dir, service)
	return dir, store
}

// TestCommandsOfRootKeepTheOwner: whatever root does to the store of a service, the service goes
// on with all of it.
func TestCommandsOfRootKeepTheOwner(t *testing.T) {
	needRoot(t)
	clear(doneByRoot)
	steps := map[string]func(t *testing.T, dir, store string) (made string){
		"compact": func(t *testing.T, _, store string) string {
			root.must(t, "compact", store)
			return store
		},
		"erase": func(t *testing.T, _, store string) string {
			root.must(t, "erase", "--yes", store, "--thread", "alice")
			return store
		},
		"import": func(t *testing.T, dir, store string) string {
			root.must(t, "export", "ndjson", store, filepath.Join(dir, "file"))
			root.must(t, "import", "ndjson", filepath.Join(dir, "file"), filepath.Join(dir, "of root", "new"))
			if err := os.Remove(filepath.Join(dir, "file")); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(dir, "of root", "new")
		},
		"import into the store": func(t *testing.T, dir, store string) string {
			root.must(t, "export", "ndjson", store, filepath.Join(dir, "file"), "--thread", "bob")
			root.must(t, "erase", "--yes", store, "--thread", "bob")
			root.must(t, "import", "ndjson", filepath.Join(dir, "file"), store)
			if err := os.Remove(filepath.Join(dir, "file")); err != nil {
				t.Fatal(err)
			}
			return store
		},
		"salvage": func(t *testing.T, dir, store string) string {
			root.must(t, "salvage", "--output", filepath.Join(dir, "saved"), store)
			return filepath.Join(dir, "saved")
		},
		"backup and restore": func(t *testing.T, dir, store string) string {
			root.must(t, "backup", store, filepath.Join(dir, "backup"))
			service.must(t, "backup", store, filepath.Join(dir, "backup"))
			root.must(t, "backup", store, filepath.Join(dir, "backup"))
			service.must(t, "verify", filepath.Join(dir, "backup"))
			root.must(t, "restore", filepath.Join(dir, "backup"), filepath.Join(dir, "restored"))
			return filepath.Join(dir, "restored")
		},
		"serve": func(t *testing.T, _, store string) string {
			served(t, root.command(t, "serve", store), store, syscall.SIGTERM)
			return store
		},
		"serve at a socket": func(t *testing.T, dir, store string) string {
			socket := filepath.Join(dir, "sock")
			untilSaid(t, root.command(t, "serve", store, "--listen", "unix:"+socket), "ready ", syscall.SIGTERM, filepath.Join(store, "serve.json"), socket)
			return store
		},
		"serve, killed": func(t *testing.T, dir, store string) string {
			served(t, root.command(t, "serve", store), store, syscall.SIGKILL)
			if left := foreign(t, dir, service); len(left) > 0 {
				t.Errorf("a killed server leaves to others: %s", left)
			}
			served(t, service.command(t, "serve", store), store, syscall.SIGTERM)
			return store
		},
		"studio": func(t *testing.T, _, store string) string {
			cmd := root.command(t, "studio", "--write", "--listen", "127.0.0.1:0", store)
			untilSaid(t, cmd, "http://", syscall.SIGTERM)
			return store
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			dir, store := home(t)
			goesOn(t, dir, step(t, dir, store))
		})
	}
	// The same, and what there is besides, with a bucket that is the service's as well.
	leading := map[string]func(t *testing.T, dir, store string, bucket []string) (made string){
		"rejoin": func(t *testing.T, dir, store string, bucket []string) string {
			other := filepath.Join(dir, "other")
			root.must(t, "restore", bucket[1], other)
			service.must(t, append([]string{"signal", other, "alice", "paid"}, bucket...)...) // leads now
			root.must(t, "replica", "rejoin", store, bucket[1])
			return store
		},
		"detach": func(t *testing.T, dir, store string, bucket []string) string {
			root.must(t, "replica", "detach", store)
			root.must(t, "compact", store)
			return store
		},
		"serve": func(t *testing.T, _, store string, bucket []string) string {
			served(t, root.command(t, append([]string{"serve", store}, bucket...)...), store, syscall.SIGTERM)
			return store
		},
		"studio": func(t *testing.T, _, store string, bucket []string) string {
			cmd := root.command(t, append([]string{"studio", "--write", "--listen", "127.0.0.1:0", store}, bucket...)...)
			untilSaid(t, cmd, "http://", syscall.SIGTERM)
			return store
		},
	}
	for name, args := range map[string][]string{
		"compact":    {"compact", "STORE"},
		"erase":      {"erase", "--yes", "STORE", "--thread", "alice"},
		"erase-user": {"erase-user", "--yes", "STORE", "--identity", "ada"},
		"move-items": {"move-items", "--yes", "STORE", "--identity", "ada"},
		"signal":     {"signal", "STORE", "alice", "paid"},
		"release":    {"release", "STORE"},
	} {
		leading[name] = func(t *testing.T, _, store string, bucket []string) string {
			args := append(slices.Clone(args), bucket...)
			args[slices.Index(args, "STORE")] = store
			if said, code := root.run(t, args...); code != exitDone && code != exitFound { // nothing of ada is there
				t.Fatalf("exit code %d: %s", code, said)
			}
			return store
		}
	}
	for name, step := range leading {
		t.Run(name+" with a bucket", func(t *testing.T) {
			dir, store := home(t)
			at := filepath.Join(dir, "bucket")
			if err := errors.Join(os.Mkdir(at, 0o700), os.Chown(at, int(service.uid), int(service.gid))); err != nil {
				t.Fatal(err)
			}
			seed(t, store, at)
			bucket := []string{"--replica", schemeDir + at}
			made := step(t, dir, store, bucket)
			if name == "detach" {
				bucket = nil
			}
			goesOn(t, dir, made, bucket...)
		})
	}
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // some steps were left out
	}
	var missing []string
	for _, cmd := range commands((&app{}).root()) {
		with := cmd.Flags().Lookup("replica") != nil
		if what := commandOf(cmd, with); cmd.Annotations[writesKey] != "" && !doneByRoot[what] && elsewhere[what] == "" {
			missing = append(missing, what)
		}
	}
	if len(missing) > 0 {
		t.Errorf("commands that write, and that root has not run here: %s", missing)
	}
}

// seed makes a bucket that of a store, as root, and returns when the store can be restored from it.
func seed(t *testing.T, store, at string) {
	t.Helper()
	b, err := bucket.Dir(t.Context(), at)
	must(t, err)
	d, err := disk.Open(store, disk.Options{Replica: disk.Replica{Bucket: b, Mode: "sync"}})
	must(t, err)
	_, err = d.Put(t.Context(), saver.Config{ThreadID: "dave"}, saver.Checkpoint{ID: checkpointID(1)}, nil, nil)
	must(t, errors.Join(err, d.Close()))
}

// elsewhere are commands that write nothing into a store of this machine that exists, and why.
var elsewhere = map[string]string{
	"stele dev":             "builds a program, which opens what it likes",
	"stele export postgres": "writes to a database",
	"stele import postgres": "writes as import ndjson does",
	"stele import sqlite":   "writes as import ndjson does",
}

// goesOn checks that all in dir is the service's, and that the service uses the store with it.
func goesOn(t *testing.T, dir, store string, bucket ...string) {
	t.Helper()
	if left := foreign(t, dir, service); len(left) > 0 {
		t.Errorf("not the service's: %s", left)
	}
	service.must(t, append([]string{"compact", store}, bucket...)...) // opens all of it for writing
	service.must(t, "verify", "--strict", store)
	served(t, service.command(t, append([]string{"serve", store}, bucket...)...), store, syscall.SIGTERM)
}

// served runs stele serve, lets the service connect, and ends it with a signal.
func served(t *testing.T, cmd *exec.Cmd, store string, sig syscall.Signal) {
	t.Helper()
	untilSaid(t, cmd, "ready ", sig, filepath.Join(store, "serve.json"), filepath.Join(store, "serve.sock"))
}

// untilSaid runs a command until it says something on its outputs; then the files must be the
// service's, and a signal ends it.
func untilSaid(t *testing.T, cmd *exec.Cmd, text string, sig syscall.Signal, files ...string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close() // the command has its own
	var said bytes.Buffer
	b := make([]byte, 4096)
	for !strings.Contains(said.String(), text) {
		n, err := r.Read(b)
		said.Write(b[:n])
		if err != nil {
			t.Errorf("%s ended: %s", cmd.Env[0], said.String())
			break
		}
	}
	for _, file := range files {
		if left := foreign(t, file, service); len(left) > 0 {
			t.Errorf("the service cannot use %s", left)
		}
	}
	_ = cmd.Process.Signal(sig)
	_ = cmd.Wait() // a signal is no success
}

// TestStrangersAreTold: a user whose files the owner of a store could not open is refused, and
// told how to run the command, before a byte changes. Where a group shares the store both go on.
func TestStrangersAreTold(t *testing.T) {
	needRoot(t)
	for name, mode := range map[string]fs.FileMode{"may not write": 0o755, "may make files": 0o777} {
		t.Run(name, func(t *testing.T) {
			_, store := home(t)
			if err := os.Chmod(store, mode); err != nil {
				t.Fatal(err)
			}
			before := listing(t, store)
			said, code := stranger.run(t, "compact", store)
			if code != exitFailed || !strings.Contains(said, "belongs to user 70001") || !strings.Contains(said, "sudo -u '#70001'") {
				t.Errorf("exit code %d: %s", code, said)
			}
			if after := listing(t, store); !slices.Equal(before, after) {
				t.Errorf("%s became %s", before, after)
			}
			service.must(t, "compact", store)
		})
	}
	t.Run("may write by other rights", func(t *testing.T) {
		_, store := home(t)
		before := listing(t, store)
		const overridesModes = 1 // CAP_DAC_OVERRIDE
		u := stranger
		u.groups, u.caps = nil, []uintptr{overridesModes}
		said, code := u.run(t, "compact", store)
		if code != exitFailed || !strings.Contains(said, "belongs to user 70001") {
			t.Errorf("exit code %d: %s", code, said)
		}
		if after := listing(t, store); !slices.Equal(before, after) {
			t.Errorf("%s became %s", before, after)
		}
		service.must(t, "compact", store)
	})
	t.Run("a shared group", func(t *testing.T) {
		_, store := home(t)
		if err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			mode := fs.FileMode(0o660)
			if d.IsDir() {
				mode = 0o770 | fs.ModeSetgid
			}
			if err := os.Chown(path, int(service.uid), 70009); err != nil {
				return err
			}
			return os.Chmod(path, mode)
		}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			stranger.must(t, "compact", store)
			service.must(t, "compact", store)
		}
	})
}

// listing names the files of a directory with their sizes.
func listing(t *testing.T, dir string) (files []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() == lockName {
			b = nil // it says who has opened the store last
		}
		files = append(files, e.Name()+" "+string(b))
	}
	return files
}
