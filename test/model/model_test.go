package model

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

func open(env Env) *memory.Saver {
	return memory.New(memory.Options{Clock: env.Clock, Random: env.Random, DeletedMemory: env.DeletedMemory})
}

// The model agrees with itself. Programs are of use only if calls meet: each
// kind of call must have ended in each of the ways it can, and listings must
// hold parents, values and writes.
func TestProgramsReachEveryOutcome(t *testing.T) {
	setFlags(t, map[string]string{"rapid.seed": "3", "rapid.checks": "120"}) // the same programs every time
	seen := map[string]int{}
	rapid.Check(t, program(func(env Env) (Subject, error) { return Subject{Saver: open(env)}, nil }, func(what, answer string) {
		call, _, _ := strings.Cut(what, " ")
		kind, _, _ := strings.Cut(answer, " {")
		if strings.HasPrefix(answer, "\n") || answer == "" {
			kind = "answer"
		}
		seen[call+": "+kind]++
		if call == "everything" {
			for _, part := range []string{"parent &", " = ", "[0]", "[-3]", "Status:waiting", "Status:failed", "Status:unfinished", "__pregel_tasks =", "note {"} {
				if strings.Contains(answer, part) {
					seen[part]++
				}
			}
		}
	}))
	for _, want := range []string{
		"put: ok", "put: conflict", "put: the thread was deleted", "put: checkpoint not found", "put: invalid argument",
		"group: 0 conflict", "group: 1 the thread was deleted", "group: 1 invalid argument", "group: 2 ok", "group: 5 ok",
		"get: answer", "get: checkpoint not found", "list: answer", "list: invalid argument",
		"history: answer", "history: checkpoint is its own ancestor", "threads: answer", "threads: invalid argument",
		"delete: ok", "copy: ok", "copy: the thread already exists", "prune: ok", "prune: invalid argument",
		"retain: ok", "retain: invalid argument", "erase: ok", "set: ok", "set: checkpoint not found", "set: invalid argument", "sweep: ok", "expired: ok",
		"count: ok", "count: checkpoint not found",
		"parent &", " = ", "[0]", "[-3]", "Status:waiting", "Status:failed", "Status:unfinished", "__pregel_tasks =", "note {",
	} {
		if seen[want] == 0 {
			t.Errorf("no program reached %q", want)
		}
	}
	t.Log(seen)
}

// required has no optional powers.
type required struct{ saver.Saver }

func TestSaverWithoutPowers(t *testing.T) {
	Run(t, "required", func(env Env) (Subject, error) { return Subject{Saver: required{open(env)}}, nil })
}

// broken has one bug at a time.
type broken struct {
	*memory.Saver
	bug string
}

var bugs = []string{"writes", "delete", "list order", "parent", "copy", "prune"}

func (b broken) PutWrites(ctx context.Context, cfg saver.Config, ws []saver.Write, taskID, path string) error {
	if b.bug == "writes" && taskID == "task-2" {
		path = ""
	}
	return b.Saver.PutWrites(ctx, cfg, ws, taskID, path)
}

func (b broken) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	if b.bug == "parent" {
		req.ValuesFrom = nil
	}
	return b.Saver.PutRequest(ctx, req)
}

func (b broken) DeleteThread(ctx context.Context, id string) error {
	if b.bug == "delete" {
		if _, err := b.GetTuple(ctx, saver.Config{ThreadID: id}); err != nil {
			return nil // a thread whose root namespace is empty
		}
	}
	return b.Saver.DeleteThread(ctx, id)
}

func (b broken) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	if b.bug == "list order" && q.Before != "" {
		q.Before += "0"
	}
	return b.Saver.List(ctx, q)
}

func (b broken) CopyThread(ctx context.Context, src, dst string) error {
	if b.bug == "copy" && src == dst {
		return nil
	}
	return b.Saver.CopyThread(ctx, src, dst)
}

func (b broken) Prune(ctx context.Context, ids []string, strategy saver.PruneStrategy) (saver.Removal, error) {
	if b.bug == "prune" && len(ids) == 2 {
		ids = ids[:1]
	}
	return b.Saver.Prune(ctx, ids, strategy)
}

// silent is a rapid.TB that keeps what it is told.
type silent struct {
	rapid.TB
	failed bool
	text   strings.Builder
}

func (s *silent) Helper()             {}
func (s *silent) Name() string        { return "broken" }
func (s *silent) Logf(string, ...any) {}
func (s *silent) Log(...any)          {}
func (s *silent) Failed() bool        { return s.failed }
func (s *silent) Fail()               { s.failed = true }
func (s *silent) FailNow()            { s.failed = true; runtime.Goexit() }
func (s *silent) Error(args ...any)   { s.failed = true; fmt.Fprintln(&s.text, args...) }
func (s *silent) Errorf(format string, a ...any) {
	s.failed = true
	fmt.Fprintf(&s.text, format+"\n", a...)
}
func (s *silent) Fatalf(format string, a ...any) { s.Errorf(format, a...); runtime.Goexit() }
func (s *silent) Fatal(args ...any)              { s.Error(args...); runtime.Goexit() }

// setFlags sets flags of rapid for the duration of a test.
func setFlags(t *testing.T, flags map[string]string) {
	t.Helper()
	for name, v := range flags {
		f := flag.Lookup(name)
		before := f.Value.String()
		if err := f.Value.Set(v); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(before) })
	}
}

func TestBugsAreFound(t *testing.T) {
	setFlags(t, map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s", "rapid.checks": "400"})
	for _, bug := range bugs {
		t.Run(bug, func(t *testing.T) {
			s := &silent{}
			done := make(chan struct{})
			go func() {
				defer close(done)
				rapid.Check(s, Program(func(env Env) (Subject, error) { return Subject{Saver: broken{open(env), bug}}, nil }))
			}()
			<-done
			if !s.failed || !strings.Contains(s.text.String(), "-rapid.seed=") {
				t.Fatalf("not found, or without a seed: %q", s.text.String())
			}
		})
	}
}
