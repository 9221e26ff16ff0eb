package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// TestMutantsFitTheCode: each mutant finds the text it replaces exactly once, gives
// Go, and names a test that exists. Whether that test fails is for the command.
func TestMutantsFitTheCode(t *testing.T) {
	mutants, err := loadAll(root)
	if err != nil {
		t.Fatal(err)
	}
	abouts := map[string]string{}
	for _, m := range mutants {
		changed, err := m.apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		for name, text := range changed {
			before, err := os.ReadFile(name)
			if err != nil || string(before) == string(text) {
				t.Errorf("%s does not change %s: %v", m.name, name, err)
			}
		}
		if !hasTest(t, m.pkg, m.test) {
			t.Errorf("%s: no test %s in %s", m.name, m.test, m.pkg)
		}
		if other := abouts[m.about]; other != "" {
			t.Errorf("%s and %s say the same", m.name, other)
		}
		abouts[m.about] = m.name
	}
	t.Logf("%d mutants", len(mutants))
}

func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	re := regexp.MustCompile(`(?m)^func ` + name + `\(t \*testing\.T\)`)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if re.Match(b) {
			return true
		}
	}
	return false
}

const source = `package p

type log struct{ n int }

func (l *log) add(n int) {
	if n > 0 {
		l.n += n
	}
	l.n++
}

func add(n int) int { return n + n }
`

// repo is a repository with one package of one file.
func repo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestApply(t *testing.T) {
	for _, tc := range []struct {
		name, in, old, new string
		want               string // of the result, or of the error after "error: "
	}{
		{"a method", ". log.add", "l.n++", "l.n--", "l.n--"},
		{"a function of the same name", ". add", "n + n", "n", "{ return n }"},
		{"other indentation", ". log.add", "  if n > 0 {\n l.n += n\n }\n", "l.n += n\n", "(n int) {\n\tl.n += n\n\tl.n++"},
		{"nothing instead", ". log.add", "l.n++\n", "", "}\n\t\n}"},
		{"not there", ". add", "l.n++", "", "error: occurs 0 times"},
		{"there twice", ". log.add", "l.n", "l.m", "error: occurs 2 times"},
		{"no such function", ". log.sub", "x", "y", "error: 0 functions"},
		{"no Go", ". add", "n + n", "n +", "error: no Go"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, fn, _ := strings.Cut(tc.in, " ")
			m := &mutant{name: "m", edits: []edit{{dir: dir, fn: fn, old: tc.old, new: tc.new}}}
			root := repo(t)
			changed, err := m.apply(root)
			if want, wrong := strings.CutPrefix(tc.want, "error: "); wrong {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("error %v, want %q in it", err, want)
				}
				return
			}
			if got := string(changed[filepath.Join(root, "p.go")]); err != nil || !strings.Contains(got, tc.want) {
				t.Fatalf("%v, %s", err, got)
			}
			if b, err := os.ReadFile(filepath.Join(root, "p.go")); err != nil || string(b) != source {
				t.Fatalf("the source itself was changed: %v", err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const good = "# lost\ntest: p TestX\nin: . add\n--- old\nn + n\n--- new\nn\n"
	m, err := parse("m", good)
	if err != nil || m.about != "lost" || m.pkg != "p" || m.test != "TestX" || len(m.edits) != 1 || m.edits[0].old != "n + n\n" {
		t.Fatalf("%+v, %v", m, err)
	}
	for _, bad := range []string{
		"", "test: p TestX\n", strings.Replace(good, "# lost\n", "", 1), strings.Replace(good, "test: p TestX\n", "", 1),
		strings.Replace(good, "in: . add\n", "", 1), strings.Replace(good, "in: . add", "in: add", 1),
		"who\n" + good, strings.Replace(good, "n + n\n", "", 1), strings.Replace(good, "n + n\n", "n\n", 1),
	} {
		if _, err := parse("m", bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

// A mutant is killed by a test that fails, not by one that cannot be run.
func TestJudge(t *testing.T) {
	exit := &exec.ExitError{}
	for _, tc := range []struct {
		err  error
		out  string
		want verdict
	}{
		{exit, "--- FAIL: TestX (0.0s)\n", killed},
		{exit, "    --- FAIL: TestX/part (0.0s)\n", killed},
		{exit, "panic: test timed out after 2m0s\n", killed},
		{exit, "fatal error: all goroutines are asleep - deadlock!\n", killed},
		{exit, "FAIL p [build failed]\n", broken},
		{errors.New("no such file"), "--- FAIL: TestX (0.0s)\n", broken},
	} {
		if got := judge(tc.err, tc.out); got.verdict != tc.want {
			t.Errorf("%v, %q: %v, want %v", tc.err, tc.out, got.verdict, tc.want)
		}
	}
}
