package traces

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	coverageRow  = regexp.MustCompile(`(?m)^\| ([A-Z]+-\d+) \| (.+) \|$`)
	testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
)

// TestCoverage checks COVERAGE.md: every behaviour has exactly one line, and
// every scenario and test it names exists.
func TestCoverage(t *testing.T) { behavioursShown(t) }

// behavioursShown counts the behaviours of the list that something shows, and
// those that something should: all but the excluded ones.
func behavioursShown(t *testing.T) (shown, of int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "COVERAGE.md"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(filepath.Join("..", "testdata", "ids.txt"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, r := range coverageRow.FindAllStringSubmatch(string(text), -1) {
		if rows[r[1]] != "" {
			t.Errorf("%s has two lines", r[1])
		}
		rows[r[1]] = r[2]
	}
	known := shownBy(t)
	for _, id := range strings.Fields(string(list)) {
		row := rows[id]
		delete(rows, id)
		if strings.HasPrefix(row, "excluded: ") {
			continue
		}
		of++
		missing := row == "" || row == "not covered"
		for _, name := range strings.Split(row, ", ") {
			if !missing && !known[name] {
				t.Errorf("%s: there is no %s", id, name)
				missing = true
			}
		}
		if row == "" {
			t.Errorf("%s has no line", id)
		}
		if !missing {
			shown++
		}
	}
	for id := range rows {
		t.Errorf("%s is no behaviour of the list", id)
	}
	return shown, of
}

// shownBy is the names of all trace scenarios and of the engine's tests.
func shownBy(t *testing.T) map[string]bool {
	names := map[string]bool{}
	traces, err := filepath.Glob(filepath.Join("golden", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range traces {
		name, _, _ := strings.Cut(filepath.Base(f), ".")
		names[name] = true
	}
	err = filepath.WalkDir(filepath.Join("..", "..", "..", "pregel"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		for _, f := range testFunction.FindAllStringSubmatch(string(src), -1) {
			names[f[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
