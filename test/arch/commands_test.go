package arch

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tree is what a command in a page may name.
type tree struct {
	files map[string][]byte          // every file that people write
	tests map[string]map[string]bool // directory: its tests, benchmarks and fuzz targets
}

func readTree(t *testing.T) *tree {
	t.Helper()
	w := &tree{map[string][]byte{}, map[string]map[string]bool{}}
	sources(t, func(name string, text []byte) {
		w.files[name] = text
		dir := path.Dir(name)
		if w.tests[dir] == nil {
			w.tests[dir] = map[string]bool{}
		}
		if isTestFile(name) {
			for _, m := range declared.FindAllSubmatch(text, -1) {
				w.tests[dir][string(m[1])] = true
			}
		}
	})
	return w
}

var (
	inline    = regexp.MustCompile("`([^`\n]+)`")
	comment   = regexp.MustCompile(`(^|\s)#.*`)
	words     = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|\\.|[^\s'"\\])+`)
	separator = regexp.MustCompile(`&&|\|\||[;&]`)
	assigned  = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*=`)
	target    = regexp.MustCompile(`(?m)^([a-z]+):`)
	section   = regexp.MustCompile(`(?m)^(?:section_|# Section: )(\w+)(?:\(|$)`)
	mainIs    = regexp.MustCompile(`(?m)^package main$`)
	quotes    = strings.NewReplacer("'", "", `"`, "", `\|`, "|")
)

// commands are the lines of the blocks of a page that are no Go, and what stands in the
// text as code, each with the number of its line. Those of one block share a directory.
func (w *tree) commands(page, text string, check func(line int, dir *string, command string)) {
	inside, isGo, dir := false, false, "."
	for i, line := range strings.Split(text, "\n") {
		switch {
		case fence.MatchString(line):
			inside, isGo, dir = !inside, snippetStart.MatchString(line), "."
		case inside && !isGo:
			check(i+1, &dir, strings.TrimPrefix(strings.TrimSpace(comment.ReplaceAllString(line, "")), "$ "))
		case !inside:
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				dir := "."
				check(i+1, &dir, m[1])
			}
		}
	}
}

// wrong says what a command line names that is not there. Only commands of this
// repository are looked at.
func (w *tree) wrong(dir *string, line string) error {
	line = strings.ReplaceAll(line, `\|`, "\x00") // in a table, and within a pattern
	for _, part := range separator.Split(line, -1) {
		part, _, _ = strings.Cut(strings.ReplaceAll(part, " | ", "\n"), "\n")
		args := words.FindAllString(strings.ReplaceAll(part, "\x00", `|`), -1)
		for i := range args {
			args[i] = quotes.Replace(args[i])
		}
		for len(args) > 0 && assigned.MatchString(args[0]) {
			args = args[1:]
		}
		if len(args) < 2 {
			continue
		}
		if err := w.wrongCommand(dir, args); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	return nil
}

func (w *tree) wrongCommand(dir *string, args []string) error {
	at := func(name string) string { return path.Join(*dir, filepath.ToSlash(name)) }
	switch {
	case args[0] == "cd":
		if *dir = at(args[1]); w.tests[*dir] == nil {
			return fmt.Errorf("no directory %s", *dir)
		}
	case args[0] == "make":
		return w.wrongNames(w.files["Makefile"], target, args[1:])
	case (args[0] == "sh" || args[0] == "bash") && strings.HasSuffix(at(args[1]), ".ci/run"):
		return w.wrongNames(w.sections(), section, slices.DeleteFunc(args[2:], func(name string) bool { return name == "all" }))
	case args[0] == "sh" || args[0] == "bash":
		if w.files[at(args[1])] == nil {
			return fmt.Errorf("no script %s", at(args[1]))
		}
	case args[0] == "go" && args[1] == "run":
		return w.wrongRun(*dir, args[2:])
	case args[0] == "go" && args[1] == "test":
		return w.wrongTest(*dir, args[2:])
	}
	return nil
}

// sections is the text that declares those of .ci/run: its own, and that of every script.
func (w *tree) sections() []byte {
	text := slices.Clone(w.files[".ci/run"])
	for name, script := range w.files {
		if strings.HasSuffix(name, ".sh") {
			text = append(append(text, '\n'), script...)
		}
	}
	return text
}

// wrongNames says which arguments a file does not declare.
func (w *tree) wrongNames(text []byte, declares *regexp.Regexp, names []string) error {
	var have []string
	for _, m := range declares.FindAllSubmatch(text, -1) {
		have = append(have, string(m[1]))
	}
	for _, name := range names {
		if !slices.Contains(have, name) {
			return fmt.Errorf("no %s, there are %v", name, have)
		}
	}
	return nil
}

// wrongRun: the package is a command, and its source names every flag.
func (w *tree) wrongRun(dir string, args []string) error {
	if len(args) == 0 || !strings.HasPrefix(args[0], ".") {
		return nil
	}
	dir = path.Join(dir, args[0])
	var source []byte
	for name, text := range w.files {
		if path.Dir(name) == dir && strings.HasSuffix(name, ".go") && mainIs.Match(text) {
			source = append(source, text...)
		}
	}
	if source == nil {
		return fmt.Errorf("%s is no command", dir)
	}
	for _, arg := range args[1:] {
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && !strings.Contains(string(source), `"`+name+`"`) {
			return fmt.Errorf("%s has no flag -%s", dir, name)
		}
	}
	return nil
}

// wrongTest: the packages are there, and a pattern of names matches one of theirs.
func (w *tree) wrongTest(dir string, args []string) error {
	have, patterns := []string{}, []string{}
	for i, arg := range args {
		switch name := strings.TrimPrefix(arg, "-"); {
		case (name == "run" || name == "bench" || name == "fuzz") && name != arg && i+1 < len(args):
			patterns = append(patterns, args[i+1])
		case strings.HasPrefix(arg, "."):
			below, all := strings.CutSuffix(arg, "...")
			pkg, found := path.Join(dir, below), false
			for d, tests := range w.tests {
				if d != pkg && (!all || pkg != "." && !strings.HasPrefix(d, pkg+"/")) {
					continue
				}
				found = true
				for name := range tests {
					have = append(have, name)
				}
			}
			if !found {
				return fmt.Errorf("no package %s", pkg)
			}
		}
	}
	for _, p := range patterns {
		top, _, _ := strings.Cut(p, "/")
		re, err := regexp.Compile(top)
		if err != nil {
			return err
		}
		if top != "^$" && !slices.ContainsFunc(have, re.MatchString) {
			return fmt.Errorf("%s matches no test of %v", p, args)
		}
	}
	return nil
}

// TestCommandsExist: what pages say to type names packages, tests, flags, targets and
// scripts that are there. Those of cmd/stele are checked there.
func TestCommandsExist(t *testing.T) {
	w, n := readTree(t), 0
	for name, text := range w.files {
		if !strings.HasSuffix(name, ".md") || strings.HasPrefix(name, "docs/adr/") {
			continue // a decision tells of its day
		}
		w.commands(name, string(text), func(line int, dir *string, command string) {
			n++
			if err := w.wrong(dir, command); err != nil {
				t.Errorf("%s:%d: %v", name, line, err)
			}
		})
	}
	if n < 100 {
		t.Errorf("found %d commands", n)
	}
}

// TestCommandsNotice shows which commands are refused.
func TestCommandsNotice(t *testing.T) {
	w := readTree(t)
	for page, bad := range map[string]bool{
		"`go run ./examples/crash`, `go test -v -run 'TestWords\\|TestGoFiles' ./test/arch`":                            false,
		"```\ncd bench/compare\ngo run . -quick   # -gone\n```\n":                                                       false,
		"`make test race`, `bash .ci/run vet studio`, `bash .ci/run all`, `sh bench/langgraph/run.sh`, `go test ./...`": false,
		"`go run ./examples/gone`":                       true,
		"`cd bench/compare && go run . -gone`":           true,
		"```\n$ cd bench/compare\ngo run . -gone\n```\n": true,
		"`go run ./wal`":                                 true,
		"`go test ./gone`":                               true,
		"`go test -run TestGone ./wal`":                  true,
		"`make gone`":                                    true,
		"`bash .ci/run gone`":                            true,
		"`sh bench/gone.sh`":                             true,
	} {
		var errs []error
		w.commands("p.md", page, func(_ int, dir *string, command string) {
			if err := w.wrong(dir, command); err != nil {
				errs = append(errs, err)
			}
		})
		if bad != (len(errs) > 0) {
			t.Errorf("%s: got %v", page, errs)
		}
	}
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notWord = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are those that a page's headings make.
func anchors(text string) map[string]bool {
	have := map[string]bool{"": true}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		id := strings.ReplaceAll(notWord.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		for n, base := 1, id; have[id]; n++ {
			id = fmt.Sprintf("%s-%d", base, n)
		}
		have[id] = true
	}
	return have
}

// TestRunbooks: the sections that alerts send people to are there.
func TestRunbooks(t *testing.T) {
	alerts, err := os.ReadFile(filepath.Join(root, "ops", "prometheus", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`runbook: (\S+\.md)#(\S+)`).FindAllStringSubmatch(string(alerts), -1)
	for _, m := range found {
		text, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil || !anchors(string(text))[m[2]] {
			t.Errorf("no %s#%s: %v", m[1], m[2], err)
		}
	}
	if len(found) < 10 {
		t.Errorf("found %d runbooks", len(found))
	}
}
