package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// verdict is what became of a mutant.
type verdict int

const (
	survived verdict = iota
	killed
	broken // it could not be tried: that is the mutant's fault, not the code's
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
	timeout   time.Duration // of one test binary
}

// one runs the mutant against the test it names.
func (b *bench) one(ctx context.Context, m *mutant) outcome {
	start := time.Now()
	o := b.try(ctx, m)
	o.took = time.Since(start)
	return o
}

func (b *bench) try(ctx context.Context, m *mutant) outcome {
	overlay, err := b.overlay(m)
	if err != nil {
		return outcome{verdict: broken, evidence: err.Error()}
	}
	bin := filepath.Join(b.dir, m.name+".test")
	defer func() { _ = os.Remove(bin) }() // its directory goes at the end
	if out, err := b.build(ctx, m.pkg, overlay, bin); err != nil {
		return outcome{verdict: broken, evidence: fmt.Sprintf("it does not build: %v\n%s", err, out)}
	}
	out, err := b.test(ctx, m, bin)
	switch {
	case ctx.Err() != nil:
		return outcome{verdict: broken, evidence: ctx.Err().Error()}
	case err == nil:
		return outcome{verdict: survived, evidence: lastLine(out)}
	}
	return judge(err, out)
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
func (b *bench) healthy(ctx context.Context, mutants []*mutant) error {
	done := map[string]bool{}
	bins := map[string]string{}
	for _, m := range mutants {
		key := fmt.Sprint(m.pkg, m.test, m.env)
		if done[key] {
			continue
		}
		done[key] = true
		bin := bins[m.pkg]
		if bin == "" {
			bin = filepath.Join(b.dir, strings.ReplaceAll(m.pkg, "/", "-")+".healthy")
			if out, err := b.build(ctx, m.pkg, "", bin); err != nil {
				return fmt.Errorf("build the tests of %s: %w\n%s", m.pkg, err, out)
			}
			bins[m.pkg] = bin
		}
		if out, err := b.test(ctx, m, bin); err != nil {
			return fmt.Errorf("%s %s fails without a mutant: %w\n%s", m.pkg, m.test, err, out)
		}
	}
	return nil
}

// overlay writes the changed files, and the list of them that the go command
// takes.
func (b *bench) overlay(m *mutant) (string, error) {
	changed, err := m.apply(b.root)
	if err != nil {
		return "", err
	}
	list := struct{ Replace map[string]string }{map[string]string{}}
	for name, text := range changed {
		to := filepath.Join(b.dir, fmt.Sprintf("%s.%d.go", m.name, len(list.Replace)))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", err
		}
		list.Replace[name] = to
	}
	text, err := json.Marshal(list)
	if err != nil {
		return "", err
	}
	name := filepath.Join(b.dir, m.name+".json")
	return name, os.WriteFile(name, text, 0o600)
}

func (b *bench) build(ctx context.Context, pkg, overlay, bin string) (string, error) {
	args := []string{"test", "-c", "-o", bin}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	return b.run(exec.CommandContext(ctx, "go", append(args, "./"+pkg)...), b.root)
}

func (b *bench) test(ctx context.Context, m *mutant, bin string) (string, error) {
	cmd := exec.CommandContext(ctx, bin, "-test.run=^("+m.test+")$", "-test.failfast", "-test.timeout="+b.timeout.String())
	cmd.Env = append(os.Environ(), m.env...)
	return b.run(cmd, filepath.Join(b.root, filepath.FromSlash(m.pkg)))
}

// suite runs the mutant against every package.
func (b *bench) suite(ctx context.Context, m *mutant) outcome {
	start := time.Now()
	overlay, err := b.overlay(m)
	if err != nil {
		return outcome{verdict: broken, evidence: err.Error()}
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-vet=off", "-timeout="+b.timeout.String(), "-overlay", overlay, "./...")
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
