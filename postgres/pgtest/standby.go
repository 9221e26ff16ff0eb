//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Standby makes and starts a replica of a cluster by streaming replication, and makes the
// cluster wait for it with each commit. Close it after use.
func (s *Server) Standby() (*Server, error) {
	r := &Server{bin: s.bin, cred: s.cred}
	var err error
	if r.Dir, err = os.MkdirTemp("/tmp", "stele-pg-"); err != nil {
		return nil, err
	}
	if r.cred != nil {
		if err := os.Chown(r.Dir, int(r.cred.Uid), int(r.cred.Gid)); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(r.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := s.run("pg_basebackup", "-h", s.Dir, "-U", "postgres", "-D", r.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync"); err != nil {
		r.Close()
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(r.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = fmt.Fprintf(f, "unix_socket_directories='%s'\n", r.Dir)
		f.Close()
	}
	if err == nil {
		err = r.Start()
	}
	if err == nil {
		err = s.run("psql", "-h", s.Dir, "-U", "postgres", "-qc", "ALTER SYSTEM SET synchronous_standby_names = '*'", "-c", "SELECT pg_reload_conf()")
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Promote makes a replica the primary, and returns when it is one. The commits of the new primary
// wait for no replica.
func (s *Server) Promote() error {
	if err := s.run("psql", "-h", s.Dir, "-U", "postgres", "-qc", "ALTER SYSTEM SET synchronous_standby_names = ''"); err != nil {
		return err
	}
	return s.run("pg_ctl", "-D", s.data(), "-w", "promote")
}

// Signal sends a signal to all processes of a cluster.
func (s *Server) Signal(sig syscall.Signal) error {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	root, err := strconv.Atoi(line)
	if err != nil {
		return err
	}
	pids := []int{root}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); err == nil && len(fields) > 1 && fields[1] == line {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && pid == root {
			return err
		}
	}
	return nil
}
