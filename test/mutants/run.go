package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verdict is what became of a mutant.
type verdict int

const (
	survived verdict = iota
	killed
	broken // it could not be tried: that is the fault of the mutant or its test, not of the code
)

// outcome is a verdict with its evidence.
type outcome struct {
	verdict  verdict
	evidence string
	took     time.Duration
}

// bench runs mutants of the repository at root. Its files lie in dir.
type bench struct {
	root, dir string
	overlay   string                   // the file that tells the go command of the woven sources
	timeout   time.Duration            // of one test binary, at most
	bins      map[string]string        // the test binary of each package
	took      map[string]time.Duration // what each test takes without a mutant, by testKey
}

// tries is how often a test may fail to notice a mutant. Some draw what they look at, or
// depend on which of two goroutines is first: each run of them notices most of the time.
const tries = 4

// one runs the mutant against the test it names.
func (b *bench) one(ctx context.Context, m *mutant) outcome {
	start := time.Now()
	var o outcome
	for range tries {
		out, err := b.test(ctx, m, m.name)
		o = outcome{verdict: survived, evidence: lastLine(out)}
		if ctx.Err() != nil {
			o = outcome{verdict: broken, evidence: ctx.Err().Error()}
		} else if err != nil {
			o = judge(err, out)
		}
		if o.verdict != survived {
			break
		}
	}
	o.took = time.Since(start)
	return o
}

// judge tells a test that failed from one that could not be run.
func judge(err error, out string) outcome {
	var exit *exec.ExitError
	line := failure(out)
	if !errors.As(err, &exit) || line == "" {
		return outcome{verdict: broken, evidence: fmt.Sprintf("%v\n%s", err, out)}
	}
	return outcome{verdict: killed, evidence: line}
}

// healthy runs the named tests on the code as it is: a test that fails anyway
// kills nothing.
func (b *bench) healthy(ctx context.Context, mutants []*mutant, workers int) error {
	var distinct []*mutant
	seen := map[string]bool{}
	for _, m := range mutants {
		if key := m.testKey(); !seen[key] {
			seen[key], distinct = true, append(distinct, m)
		}
	}
	failures, took := make([]error, len(distinct)), make([]time.Duration, len(distinct))
	each(workers, len(distinct), func(i int) {
		m, start := distinct[i], time.Now()
		if out, err := b.test(ctx, m, ""); err != nil {
			failures[i] = fmt.Errorf("%s %s fails without a mutant: %w\n%s", m.pkg, m.test, err, out)
		}
		took[i] = time.Since(start)
	})
	b.took = map[string]time.Duration{}
	for i, m := range distinct {
		b.took[m.testKey()] = took[i]
	}
	return errors.Join(failures...)
}

// testKey tells the test that a mutant names, and what it is run with, from others.
func (m *mutant) testKey() string { return fmt.Sprint(m.pkg, m.test, m.env) }

// limit is how long the test of a mutant may take. What takes ten times as long as without one waits for
// what does not come any more.
func (b *bench) limit(m *mutant) time.Duration {
	if took, known := b.took[m.testKey()]; known {
		return min(b.timeout, 10*time.Second+10*took)
	}
	return b.timeout
}

// weave writes the sources with the mutants in them, and the list of them that the
// go command takes.
func (b *bench) weave(mutants []*mutant) error {
	woven, err := weave(b.root, mutants)
	if err != nil {
		return err
	}
	list := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range woven {
		to := filepath.Join(b.dir, fmt.Sprintf("%d.go", len(list.Replace)))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return err
		}
		list.Replace[name] = to
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	b.overlay = filepath.Join(b.dir, "overlay.json")
	return os.WriteFile(b.overlay, text, 0o600)
}

// build builds the tests that mutants name. One command builds them all, since
// several would compile what they share several times.
func (b *bench) build(ctx context.Context, mutants []*mutant) error {
	// One go command builds many packages side by side, but no two with one name.
	var rounds [][]string
	for _, pkg := range packages(mutants) {
		i := slices.IndexFunc(rounds, func(round []string) bool {
			return !slices.ContainsFunc(round, func(other string) bool { return path.Base(other) == path.Base(pkg) })
		})
		if i < 0 {
			i, rounds = len(rounds), append(rounds, nil)
		}
		rounds[i] = append(rounds[i], pkg)
	}
	b.bins = map[string]string{}
	for i, round := range rounds {
		dir := filepath.Join(b.dir, strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		args := []string{"test", "-c", "-overlay", b.overlay, "-ldflags=-s -w", "-o", dir + string(filepath.Separator)}
		for _, pkg := range round {
			args = append(args, "./"+pkg)
			b.bins[pkg] = filepath.Join(dir, path.Base(pkg)+".test")
		}
		if out, err := b.run(exec.CommandContext(ctx, "go", args...), b.root); err != nil {
			return fmt.Errorf("build the tests: %w\n%s", err, out)
		}
	}
	return nil
}

// packages are those whose tests the mutants name, each once.
func packages(mutants []*mutant) []string {
	var all []string
	for _, m := range mutants {
		if !slices.Contains(all, m.pkg) {
			all = append(all, m.pkg)
		}
	}
	return all
}

// test runs the test that a mutant names, with the mutant that is chosen.
func (b *bench) test(ctx context.Context, m *mutant, choice string) (string, error) {
	cmd := exec.CommandContext(ctx, b.bins[m.pkg], "-test.run=^("+m.test+")$", "-test.failfast", "-test.timeout="+b.limit(m).String())
	cmd.Env = append(append(os.Environ(), m.env...), chosen+"="+choice)
	return b.run(cmd, filepath.Join(b.root, filepath.FromSlash(m.pkg)))
}

// suite runs the mutant against every package of the workspace.
func (b *bench) suite(ctx context.Context, m *mutant) outcome {
	start := time.Now()
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-timeout="+b.timeout.String(), "-overlay", b.overlay, "work")
	cmd.Env = append(os.Environ(), chosen+"="+m.name)
	out, err := b.run(cmd, b.root)
	o := outcome{verdict: survived, evidence: "the whole suite passes", took: time.Since(start)}
	if err != nil {
		o = judge(err, out)
		o.took = time.Since(start)
		if o.verdict == killed {
			o.evidence = strings.Join(failed(out), ", ")
		}
	}
	return o
}

func (b *bench) run(cmd *exec.Cmd, dir string) (string, error) {
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.WaitDelay = 10 * time.Second // children of a test may hold its output open
	err := cmd.Run()
	return out.String(), err
}

var (
	failLine  = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	panicLine = regexp.MustCompile(`(?m)^(panic|fatal error): .*$`)
)

// failure is the first line by which a test binary says that a test failed.
func failure(out string) string {
	if s := failLine.FindStringSubmatch(out); s != nil {
		return s[1]
	}
	return panicLine.FindString(out)
}

// failed are the tests that failed, subtests left out.
func failed(out string) []string {
	var names []string
	seen := map[string]bool{}
	for _, s := range failLine.FindAllStringSubmatch(out, -1) {
		name, _, sub := strings.Cut(s[1], "/")
		if !sub && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return append(names, panicLine.FindAllString(out, 1)...)
}

func lastLine(out string) string {
	out = strings.TrimSpace(out)
	return out[strings.LastIndexByte(out, '\n')+1:]
}
