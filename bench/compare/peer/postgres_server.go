package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// server is a PostgreSQL server that serves one directory, on a socket beside it. It
// dies with this process.
type server struct {
	cmd    *exec.Cmd
	socket string
	log    lockedBuffer
	exited chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p, from any goroutine; it never fails.
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// missingPostgres says why there can be no PostgreSQL server here.
func missingPostgres() error {
	if _, err := postgresTool("initdb"); err != nil {
		return err
	}
	_, err := serverUser()
	return err
}

// postgresTool finds a program of the server: on the path, or where Debian puts it.
func postgresTool(name string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err == nil && len(found) > 0 {
		return slices.Max(found), nil
	}
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	return "", fmt.Errorf("no %s: install Debian's package postgresql, or the like", name)
}

// serverUser is who runs the server, which does not run as root; nil is who we are.
func serverUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("the server does not run as root, and there is no user postgres or nobody")
}

// startServer starts a server for a directory, which it fills if it is empty.
func startServer(dir string, mode Mode, conns int) (*server, error) {
	cred, err := serverUser()
	if err != nil {
		return nil, err
	}
	attr := &syscall.SysProcAttr{Credential: cred, Pdeathsig: syscall.SIGKILL}
	data := filepath.Join(dir, "pg")
	socket, err := os.MkdirTemp(filepath.Dir(dir), "pg-")
	if err != nil {
		return nil, err
	}
	v := &server{socket: socket, exited: make(chan struct{})}
	err = v.prepare(data, cred, attr)
	if err == nil {
		err = clearKilled(data)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(socket))
	}
	commit := "on"
	if mode != Durable {
		commit = "off"
	}
	program, err := postgresTool("postgres")
	if err != nil {
		return nil, err
	}
	v.cmd = exec.Command(program, "-D", data, "-k", socket, "-c", "listen_addresses=", "-c", "fsync=on", "-c", "synchronous_commit="+commit,
		"-c", fmt.Sprint("max_connections=", conns), "-c", "jit=off")
	v.cmd.Dir, v.cmd.SysProcAttr, v.cmd.Stdout, v.cmd.Stderr = data, attr, &v.log, &v.log
	if err := v.run(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(socket))
	}
	return v, nil
}

// run starts the process, from a thread that lives as long as it: the kernel ends the
// process with the thread that started it.
func (v *server) run() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := v.cmd.Start()
		if started <- err; err == nil {
			_ = v.cmd.Wait() // stop looks at nothing but that it ended
		}
		close(v.exited)
	}()
	return <-started
}

// prepare makes the directories the server's own, and the data if there are none.
func (v *server) prepare(data string, cred *syscall.Credential, attr *syscall.SysProcAttr) error {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	if cred != nil {
		for _, root := range []string{v.socket, data} {
			if err := give(root, cred); err != nil {
				return err
			}
		}
		if err := letThrough(filepath.Dir(data)); err != nil {
			return err
		}
	}
	if err := os.Chmod(data, 0o700); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); err == nil {
		return nil
	}
	program, err := postgresTool("initdb")
	if err != nil {
		return err
	}
	init := exec.Command(program, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
	init.Dir, init.SysProcAttr = data, attr
	if out, err := init.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// clearKilled waits until no process of a server that was killed works in the directory,
// and removes what it left to keep another from starting: the kernel may still know the
// number of a process that nobody waited for.
func clearKilled(data string) error {
	for start := time.Now(); workedIn(data); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			return fmt.Errorf("another server works in %s", data)
		}
	}
	if err := os.Remove(filepath.Join(data, "postmaster.pid")); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// workedIn reports whether a process has the directory as its own; dead ones have none.
func workedIn(dir string) bool {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(links, func(l string) bool {
		at, err := os.Readlink(l)
		return err == nil && at == dir
	})
}

func give(root string, cred *syscall.Credential) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(cred.Uid), int(cred.Gid))
	})
}

// letThrough lets other users reach a directory, if it is one for temporary files.
func letThrough(dir string) error {
	temp := filepath.Clean(os.TempDir())
	for ; strings.HasPrefix(dir, temp+string(filepath.Separator)); dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
			return err
		}
	}
	return nil
}

func (v *server) ended() bool {
	select {
	case <-v.exited:
		return true
	default:
		return false
	}
}

func (v *server) output() string {
	v.log.mu.Lock()
	defer v.log.mu.Unlock()
	return strings.TrimSpace(v.log.b.String())
}

// stop ends the server in order.
func (v *server) stop() error {
	err := v.cmd.Process.Signal(syscall.SIGINT) // its fast shutdown
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	select {
	case <-v.exited:
	case <-time.After(time.Minute):
		err = errors.Join(err, errors.New("the server does not end"), v.cmd.Process.Kill())
	}
	return errors.Join(err, os.RemoveAll(v.socket))
}

// used sums what the server and its processes used: the ended ones count with their
// parent.
func (v *server) used() (cpu time.Duration, mb float64) {
	pids := []string{strconv.Itoa(v.cmd.Process.Pid)}
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, 0
	}
	for _, p := range all {
		if f := statFields(p); len(f) > 1 && f[1] == pids[0] {
			pids = append(pids, filepath.Base(filepath.Dir(p)))
		}
	}
	for _, pid := range pids {
		f := statFields("/proc/" + pid + "/stat")
		for i := 11; i < 15 && i < len(f); i++ { // utime, stime, and those of ended children
			ticks, err := strconv.ParseInt(f[i], 10, 64)
			if err == nil {
				cpu += time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
			}
		}
		mb += pssMB(pid)
	}
	return cpu, mb
}

// statFields are the fields of a process after its name: state, parent, and so on.
func statFields(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
}

func pssMB(pid string) float64 {
	b, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Pss:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			if err == nil {
				return kb / 1024
			}
		}
	}
	return 0
}
