package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The tree of the tests: leaf is used by middle, which a test of top uses, and a
// program of another module; apart is alone.
var tree = map[string]string{
	"go.mod":                    "module example.org/a\n\ngo 1.25\n",
	"go.work":                   "go 1.25\n\nuse (\n\t.\n\t./other\n)\n",
	"README.md":                 "A page.\n",
	"LICENSE":                   "A licence.\n",
	"leaf/leaf.go":              "package leaf\n\nfunc Leaf() int { return 1 }\n",
	"leaf/leaf_test.go":         "package leaf\n\nimport \"testing\"\n\nfunc TestLeaf(*testing.T) {}\n",
	"leaf/more.go":              "package leaf\n",
	"leaf/testdata/deep/in.txt": "one\n",
	"leaf/testdata/p/p.go":      "package p\n",
	"middle/middle.go":          "package middle\n\nimport \"example.org/a/leaf\"\n\nfunc Middle() int { return leaf.Leaf() }\n",
	"top/top.go":                "package top\n",
	"top/top_test.go":           "package top_test\n\nimport (\n\t\"testing\"\n\n\t\"example.org/a/middle\"\n)\n\nfunc TestTop(*testing.T) { middle.Middle() }\n",
	"above/above.go":            "package above\n\nimport _ \"example.org/a/top\"\n",
	"apart/apart.go":            "package apart\n\nimport _ \"embed\"\n\n//go:embed page\nvar Page string\n",
	"apart/page/index.html":     "<p>\n",
	"apart/notes.txt":           "Notes.\n",
	"windows/w.go":              "package windows\n",
	"windows/w_windows.go":      "package windows\n\nimport _ \"example.org/a/apart\"\n",
	"middle/inner/inner.go":     "package inner\n\nimport _ \"example.org/a/middle\"\n",
	"test/whole/whole.go":       "package whole\n\nimport _ \"example.org/a/leaf\"\n",
	"other/go.mod":              "module example.org/a/other\n\ngo 1.25\n",
	"other/main.go":             "package main\n\nimport \"example.org/a/middle\"\n\nfunc main() { middle.Middle() }\n",
	"js/check.sh":               "# Section: js\n# Inputs: other\n# Inputs: leaf/testdata/deep/in.txt\n",
	"js/src/a.ts":               "1\n",
	"py/check.sh":               "# Section: py\n# Inputs: js/src\n",
	"any/check.sh":              "# Section: any\n# Inputs: .\n",
	"any/helper.sh":             "exit 0\n",
}

// work is the repository of a test, with everything passed at its first commit.
type work struct {
	t   *testing.T
	dir string
}

func newWork(t *testing.T) *work {
	t.Helper()
	w := &work{t: t, dir: t.TempDir()}
	for name, value := range map[string]string{"GOWORK": "", "GOFLAGS": "", "GOPROXY": "off", "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1"} {
		t.Setenv(name, value)
	}
	for name, text := range tree {
		w.write(name, text)
	}
	w.git("init", "-q")
	w.pass(w.commit())
	return w
}

// reset takes back what a case did.
func (w *work) reset(head string) {
	w.t.Helper()
	w.git("checkout", "-q", "-f", "-B", "main", head)
	w.git("clean", "-q", "-d", "-f")
}

func (w *work) write(name, text string) {
	w.t.Helper()
	file := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *work) git(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"-C", w.dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit commits all there is.
func (w *work) commit() string {
	w.t.Helper()
	w.git("add", "-A")
	w.git("commit", "-q", "--allow-empty", "-m", "change")
	return w.git("rev-parse", "HEAD")
}

// pass says that everything passed at the commit, as .ci/run does, and commits that.
func (w *work) pass(commit string) {
	w.t.Helper()
	w.write(passed, commit+"\n")
	w.commit()
}

// plan returns what is printed, by kind, and the reason.
func (w *work) plan(all bool) (map[string]string, string) {
	w.t.Helper()
	var out, reason bytes.Buffer
	if err := run(w.dir, all, &out, &reason); err != nil {
		w.t.Fatal(err)
	}
	plan := map[string]string{}
	for line := range strings.Lines(out.String()) {
		kind, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		plan[kind] = strings.TrimSpace(plan[kind] + " " + name)
	}
	return plan, reason.String()
}

const (
	packages = "above apart leaf middle middle/inner other test/whole top windows"
	checks   = "any/check.sh js/check.sh py/check.sh"
)

// everything fails the test if the plan leaves out anything, or gives another reason.
func (w *work) everything(all bool, why string) {
	w.t.Helper()
	plan, reason := w.plan(all)
	for _, kind := range []string{"every", "changed", "affected", "near"} {
		if plan[kind] != packages {
			w.t.Errorf("%s: %q, want all", kind, plan[kind])
		}
	}
	if plan["check"] != checks || !strings.HasPrefix(reason, "everything: ") || !strings.Contains(reason, why) {
		w.t.Errorf("checks %q, reason %q, want %q in it", plan["check"], reason, why)
	}
}

func TestChanges(t *testing.T) {
	w := newWork(t)
	head := w.git("rev-parse", "HEAD")
	for _, tc := range []struct {
		name                           string
		changed, affected, near, check string
		files                          []string // what is appended to; with - in front, removed
	}{
		{"the leaf", "leaf", "leaf middle middle/inner other test/whole top", "leaf test/whole", "any js", []string{"leaf/leaf.go"}},
		{"a test of the leaf", "leaf", "leaf", "leaf", "any", []string{"leaf/leaf_test.go"}},
		{"a new test", "leaf", "leaf", "leaf", "any", []string{"leaf/new_test.go"}},
		{"what a test needs", "middle", "middle middle/inner other top", "middle middle/inner", "any js", []string{"middle/middle.go"}},
		{"what only its own package needs", "top", "top", "top", "any", []string{"top/top_test.go"}},
		{"two", "apart top", "above apart top windows", "apart top", "any", []string{"apart/apart.go", "top/top.go"}},
		{"another module", "other", "other", "other", "any js", []string{"other/main.go"}},
		{"a deleted source", "leaf", "leaf middle middle/inner other test/whole top", "leaf test/whole", "any js", []string{"-leaf/more.go"}},
		{"testdata", "leaf", "leaf middle middle/inner other test/whole top", "leaf test/whole", "any js", []string{"leaf/testdata/deep/new.txt"}},
		{"deleted testdata", "leaf", "leaf middle middle/inner other test/whole top", "leaf test/whole", "any js", []string{"-leaf/testdata/p/p.go"}},
		{"an embedded file", "apart", "apart windows", "apart", "any", []string{"apart/page/index.html"}},
		{"a deleted embedded file", "apart", "apart windows", "apart", "any", []string{"apart/page/new.html", "-apart/page/index.html"}},
		{"a source for one system", "windows", "windows", "windows", "any", []string{"windows/w_windows.go"}},
		{"a page", "", "", "", "any", []string{"README.md", "docs/new.md"}},
		{"a client", "", "", "", "any js py", []string{"js/src/a.ts"}},
		{"a client's script", "", "", "", "any js", []string{"js/check.sh"}},
		{"a file beside a script", "", "", "", "any", []string{"any/helper.sh"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.reset(head)
			check := func(when string) {
				plan, reason := w.plan(false)
				want := map[string]string{"every": packages, "changed": tc.changed, "affected": tc.affected, "near": tc.near}
				for kind := range want {
					if plan[kind] != want[kind] {
						t.Errorf("%s: %s: %q, want %q (%s)", when, kind, plan[kind], want[kind], reason)
					}
				}
				if got := strings.ReplaceAll(plan["check"], "/check.sh", ""); got != tc.check {
					t.Errorf("%s: checks %q, want %q", when, got, tc.check)
				}
			}
			for _, file := range tc.files {
				if gone, ok := strings.CutPrefix(file, "-"); ok {
					if err := os.Remove(filepath.Join(w.dir, gone)); err != nil {
						t.Fatal(err)
					}
					continue
				}
				end := "\n"
				if strings.HasSuffix(file, "_test.go") && tree[file] == "" {
					end = "package leaf\n"
				}
				w.write(file, tree[file]+end)
			}
			check("not committed")
			w.commit()
			check("committed")
		})
	}
}

// TestEverything: where it is not known what a change touches, everything is checked.
func TestEverything(t *testing.T) {
	w := newWork(t)
	head := w.git("rev-parse", "HEAD")
	for _, tc := range []struct {
		name, why string
		change    func(w *work)
	}{
		{"nothing changed", "nothing changed", func(*work) {}},
		{"an empty commit", "nothing changed", func(w *work) { w.commit() }},
		{"a change taken back", "nothing changed", func(w *work) {
			w.write("leaf/leaf.go", "package leaf\n")
			w.commit()
			w.write("leaf/leaf.go", tree["leaf/leaf.go"])
			w.commit()
		}},
		{"no commit named", "there is no .ci/passed", func(w *work) { w.git("rm", "-q", passed) }},
		{"an empty name", "names no commit", func(w *work) { w.write(passed, "\n") }},
		{"a branch named", "names no commit", func(w *work) { w.write(passed, "HEAD\n") }},
		{"a commit that is missing", "not there", func(w *work) { w.write(passed, strings.Repeat("1", 40)+"\n") }},
		{"no ancestor", "no ancestor", func(w *work) {
			w.write("leaf/leaf.go", "package leaf\n")
			aside := w.commit()
			w.git("reset", "-q", "--hard", "HEAD~1")
			w.write(passed, aside+"\n")
		}},
		{"the module", "go.mod changed", func(w *work) { w.write("other/go.mod", tree["other/go.mod"]+"\n// more\n") }},
		{"its sums", "go.sum changed", func(w *work) { w.write("go.sum", "") }},
		{"the workspace", "go.work changed", func(w *work) { w.write("go.work", tree["go.work"]+"\n// more\n") }},
		{"the script", ".ci/run changed", func(w *work) { w.write(".ci/run", "") }},
		{"this command", "test/affected/doc.md changed", func(w *work) { w.write("test/affected/doc.md", "") }},
		{"an unknown file", "LICENSE changed", func(w *work) { w.write("LICENSE", "") }},
		{"an unknown file of a package", "apart/notes.txt changed", func(w *work) { w.write("apart/notes.txt", "") }},
		{"a package that is gone", "go changed", func(w *work) {
			if err := os.RemoveAll(filepath.Join(w.dir, "middle")); err != nil {
				w.t.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.reset(head)
			tc.change(w)
			if tc.name == "a package that is gone" {
				_, reason := w.plan(false)
				if !strings.Contains(reason, tc.why) {
					t.Errorf("reason %q, want %q in it", reason, tc.why)
				}
				return
			}
			w.everything(false, tc.why)
		})
	}
	t.Run("asked for", func(t *testing.T) {
		w.reset(head)
		w.write("leaf/leaf.go", "package leaf\n")
		w.everything(true, "asked for")
	})
	t.Run("a shallow clone", func(t *testing.T) {
		w.reset(head)
		w.write("leaf/leaf_test.go", "package leaf\n")
		w.commit()
		clone := filepath.Join(t.TempDir(), "clone")
		w.git("clone", "-q", "--depth", "1", "file://"+w.dir, clone)
		(&work{t, clone}).everything(false, "not there")
	})
	t.Run("a full clone", func(t *testing.T) {
		w.reset(head)
		w.write("leaf/leaf_test.go", "package leaf\n")
		w.commit()
		clone := filepath.Join(t.TempDir(), "clone")
		w.git("clone", "-q", "file://"+w.dir, clone)
		if plan, reason := (&work{t, clone}).plan(false); plan["affected"] != "leaf" {
			t.Errorf("%v, %s", plan, reason)
		}
	})
}

// TestInputs: a script whose input is not there is an error, and not left out for ever.
func TestInputs(t *testing.T) {
	w := newWork(t)
	w.write("js/check.sh", "# Section: js\n# Inputs: leaf gone\n")
	err := run(w.dir, false, &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "js/check.sh") || !strings.Contains(err.Error(), "gone") {
		t.Fatalf("error %v", err)
	}
}

// TestThisRepository: this tree has what .ci/run relies on.
func TestThisRepository(t *testing.T) {
	r, err := open(".")
	if err != nil {
		t.Fatal(err)
	}
	if r.packages[self] == nil {
		t.Errorf("no package %s, which is to be this one", self)
	}
	if changed, why := r.changes([]string{self + "/reach.go"}); why == "" {
		t.Errorf("a change of this command changes %d packages alone", len(changed))
	}
	dirs := names(r.packages)
	if len(dirs) < 2 || !slices.IsSorted(dirs) || len(r.checks) == 0 {
		t.Errorf("packages %v, scripts %v", dirs, r.checks)
	}
}
