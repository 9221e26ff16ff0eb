package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// side is one of the two programs, running and waiting for requests.
type side struct {
	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
}

// start runs a side. Its errors go to standard error.
func start(name, program string, args ...string) (*side, error) {
	s := &side{name: name, cmd: exec.Command(program, args...)}
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in, s.out = in, bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return s, nil
}

// ask sends r and reads the answer into dst. A saver on disk gets a directory
// that is removed afterwards.
func (s *side) ask(r request, dst any) error {
	if r.Saver == "disk" {
		dir, err := os.MkdirTemp("", "stele-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		r.Dir = dir
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%s does not take requests: %w", s.name, err)
	}
	answer, err := s.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%s did not answer %s: %w", s.name, line, err)
	}
	return json.Unmarshal(answer, dst)
}

// stop ends the side by ending its requests.
func (s *side) stop() error {
	if err := s.in.Close(); err != nil {
		return err
	}
	return s.cmd.Wait()
}
