package killtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/pregel"
)

// childVariable tells a child process at which point to die, and its directory, with a colon between. At
// point 0 it never dies.
const childVariable = "STELE_KILLTEST"

// exitFailed is the exit code of a child whose program failed. It is none that a kill or a panic
// has.
const exitFailed = 3

// pointsFile holds how many points a program passed that came to its end.
const pointsFile = ".points"

var (
	child  bool         // set by Main before the program runs
	dieAt  int64        // the point to die at; 0: none
	passed atomic.Int64 // points so far
)

// Main runs the program and ends the process if Run started it. In any other process it returns
// at once. Call it first in TestMain or main, with the function that a process is to run. Its
// context is never cancelled.
func Main(life func(ctx context.Context, dir string) error) {
	spec, isChild := os.LookupEnv(childVariable)
	if !isChild {
		return
	}
	if err := live(spec, life); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	os.Exit(0)
}

func live(spec string, life func(ctx context.Context, dir string) error) error {
	at, dir, _ := strings.Cut(spec, ":")
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return fmt.Errorf("%s=%q: %w", childVariable, spec, err)
	}
	child, dieAt = true, n
	if err := life(context.Background(), dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, pointsFile), []byte(strconv.FormatInt(passed.Load(), 10)), 0o600)
}

// Point is a point where the process may be killed. It does nothing in a process that Run did not
// start. It is safe for concurrent use.
func Point() {
	if !child || passed.Add(1) != dieAt {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // until the signal arrives
}

// Hooks returns h with a Point in each hook except Span, after h's own function.
func Hooks(h pregel.Hooks) pregel.Hooks {
	own := h
	h.RunStart = func(r pregel.RunInfo) {
		if own.RunStart != nil {
			own.RunStart(r)
		}
		Point()
	}
	h.RunEnd = func(r pregel.RunInfo, err error) {
		if own.RunEnd != nil {
			own.RunEnd(r, err)
		}
		Point()
	}
	h.Resume = func(r pregel.RunInfo) {
		if own.Resume != nil {
			own.Resume(r)
		}
		Point()
	}
	h.Interrupt = func(r pregel.RunInfo, q []pregel.Interrupt) {
		if own.Interrupt != nil {
			own.Interrupt(r, q)
		}
		Point()
	}
	h.StepStart = func(r pregel.RunInfo, tasks []string) {
		if own.StepStart != nil {
			own.StepStart(r, tasks)
		}
		Point()
	}
	h.StepEnd = func(r pregel.RunInfo) {
		if own.StepEnd != nil {
			own.StepEnd(r)
		}
		Point()
	}
	h.TaskStart = func(t pregel.TaskInfo) {
		if own.TaskStart != nil {
			own.TaskStart(t)
		}
		Point()
	}
	h.TaskEnd = func(t pregel.TaskInfo, took time.Duration, err error) {
		if own.TaskEnd != nil {
			own.TaskEnd(t, took, err)
		}
		Point()
	}
	h.Save = func(r pregel.RunInfo, op string, took time.Duration, err error) {
		if own.Save != nil {
			own.Save(r, op, took, err)
		}
		Point()
	}
	return h
}
