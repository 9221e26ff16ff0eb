package main

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestMutantsFitTheCode: each mutant finds the text it replaces exactly once, compiles,
// and names a test that exists. Whether that test fails is for the command.
func TestMutantsFitTheCode(t *testing.T) {
	mutants, err := loadAll(root)
	if err != nil {
		t.Fatal(err)
	}
	abs, err := filepath.Abs(root) // an overlay takes nothing else
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{root: abs, dir: t.TempDir()}
	if err := b.weave(mutants); err != nil { // of the first that does not fit
		for _, m := range mutants {
			if _, err := weave(root, []*mutant{m}); err != nil {
				t.Error(err)
			}
		}
		return
	}
	changed := map[string]bool{}
	for _, m := range mutants {
		for _, e := range m.edits {
			changed["./"+e.dir] = true
		}
	}
	build := exec.Command("go", append([]string{"build", "-overlay", b.overlay, "-o", os.DevNull}, slices.Sorted(maps.Keys(changed))...)...)
	if out, err := b.run(build, abs); err != nil {
		t.Errorf("mutants do not compile: %v\n%s", err, out)
	}
	abouts := map[string]string{}
	for _, m := range mutants {
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

// TestArchives: what no archive may look like is refused.
func TestArchives(t *testing.T) {
	const a, b = "-- a --\n# A.\ntest: p TestA\nin: p add\n--- old\nn\n--- new\nm\n", "-- b --\n# B.\ntest: q TestB\nin: p all\n--- old\nn\n--- new\n"
	for _, tc := range []struct{ name, text, want string }{
		{"two", a + b, ""},
		{"no name", strings.TrimPrefix(a, "-- a --\n"), "does not begin with the name"},
		{"empty", "", "does not begin with the name"},
		{"twice", a + b + a, "a is there twice"},
		{"of another package", a + strings.Replace(b, "in: p", "in: q/r", 1), "belongs into q/r/testdata/mutants.txtar"},
		{"without a test", a + strings.Replace(b, "test: q TestB\n", "", 1), "b: it names no test"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := map[string]*mutant{}
			err := parseAll("p", tc.text, got)
			if tc.want != "" {
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("error %v, want %q in it", err, tc.want)
				}
				return
			}
			if err != nil || len(got) != 2 || got["a"].edits[0].new != "m\n" || got["b"].edits[0].fn != "all" {
				t.Fatalf("%v, %v", err, got)
			}
		})
	}
}

// TestSelected: a mutant belongs to the package it changes, and to that of its test.
func TestSelected(t *testing.T) {
	root := repo(t)
	for file, text := range map[string]string{
		"p": "-- a --\n# A.\ntest: q TestA\nin: p f\n--- old\nn\n--- new\n",
		"q": "-- b --\n# B.\ntest: q TestB\nin: q f\n--- old\nn\n--- new\n",
		"r": "",
	} {
		if err := os.MkdirAll(filepath.Join(root, file, "testdata"), 0o700); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(filepath.Join(root, file, archive), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct{ pick, dirs, want string }{
		{"", "", "a b"}, {"b", "", "b"}, {"", "./p/", "a"}, {"", "q", "a b"}, {"b", "p q", "b"}, {"", "r", ""},
		{"c", "", "error"}, {"", "gone", "error"}, {"(", "", "error"},
	} {
		mutants, err := selected(root, tc.pick, strings.Fields(tc.dirs))
		var names []string
		for _, m := range mutants {
			names = append(names, m.name)
		}
		if got := strings.Join(names, " "); got != tc.want && (err == nil || tc.want != "error") {
			t.Errorf("-run %q in %q: %q, %v, want %q", tc.pick, tc.dirs, got, err, tc.want)
		}
	}
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

func all[T any](v ...T) []T { return nil }

func none(int) { return }

func (log) blank(_, x int, _ ...int) { return }
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

func TestWeave(t *testing.T) {
	for _, tc := range []struct {
		name, in, old, new string
		want               string // in the result, or in the error after "error: "
	}{
		{"a method", ". log.add", "l.n++", "l.n--", "\tl.n--\n}"},
		{"its call", ". log.add", "l.n++", "l.n--", `{ if mutant_ == "a-b" { l.mutant_a_b_add(n); return };` + "\n\tif n > 0"},
		{"a function of the same name", ". add", "n + n", "n", "func mutant_a_b_add(n int) int { return n }"},
		{"its call", ". add", "n + n", "n", `{ if mutant_ == "a-b" { return mutant_a_b_add(n) }; return n + n }`},
		{"a generic function", ". all", "return nil", "return v", "return mutant_a_b_all[T](v...)"},
		{"other indentation", ". log.add", "  if n > 0 {\n l.n += n\n }\n", "l.n += n\n", "(n int) {\n\tl.n += n\n\tl.n++"},
		{"nothing instead", ". log.add", "l.n++\n", "", "}\n\t\n}"},
		{"not there", ". add", "l.n++", "", "error: occurs 0 times"},
		{"there twice", ". log.add", "l.n", "l.m", "error: occurs 2 times"},
		{"outside the body", ". add", "n int", "n uint", "error: occurs 0 times"},
		{"no such function", ". log.sub", "x", "y", "error: 0 functions"},
		{"no Go", ". add", "n + n", "n +", "error: no Go"},
		{"no name to pass on by", ". none", "return", "panic(0)", "func none(blank0_ int) {"},
		{"blank names", ". log.blank", "return", "panic(0)", `func (blank0_ log) blank(blank0_, x int, blank2_ ...int) { if mutant_ == "a-b" { blank0_.mutant_a_b_blank(blank0_, x, blank2_...); return };`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, fn, _ := strings.Cut(tc.in, " ")
			root := repo(t)
			woven, err := weave(root, []*mutant{{name: "a-b", edits: []edit{{dir: dir, fn: fn, old: tc.old, new: tc.new}}}})
			if want, wrong := strings.CutPrefix(tc.want, "error: "); wrong {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Fatalf("error %v, want %q in it", err, want)
				}
				return
			}
			if got := string(woven[filepath.Join(root, "p.go")]); err != nil || !strings.Contains(got, tc.want) {
				t.Fatalf("%v, %s", err, got)
			}
			if b, err := os.ReadFile(filepath.Join(root, "p.go")); err != nil || string(b) != source {
				t.Fatalf("the source itself was changed: %v", err)
			}
		})
	}
}

// TestWovenProgram runs a program with two mutants of one function and one of two: as
// itself, and as each of them.
func TestWovenProgram(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module p\n\ngo 1.25\n",
		"main.go": "package main\n\nfunc main() { println(one(1), two(1)) }\n\nfunc one(n int) int { return n }\n\nfunc two(n int) int { return 2 * one(n) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ten, hundred := edit{dir: ".", fn: "one", old: "return n", new: "return 10 * n"}, edit{dir: ".", fn: "one", old: "n }", new: "100 * n }"}
	three := edit{dir: ".", fn: "two", old: "2", new: "3"}
	b := &bench{root: dir, dir: t.TempDir()}
	if err := b.weave([]*mutant{{name: "ten", edits: []edit{ten}}, {name: "hundred", edits: []edit{hundred}}, {name: "both", edits: []edit{ten, three}}}); err != nil {
		t.Fatal(err)
	}
	for choice, want := range map[string]string{"": "1 2\n", "ten": "10 20\n", "hundred": "100 200\n", "both": "10 30\n"} {
		cmd := exec.Command("go", "run", "-overlay", b.overlay, ".")
		cmd.Env = append(os.Environ(), "GOWORK=off", chosen+"="+choice)
		if out, err := b.run(cmd, dir); err != nil || out != want {
			t.Errorf("mutant %q: %q, %v, want %q", choice, out, err, want)
		}
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
