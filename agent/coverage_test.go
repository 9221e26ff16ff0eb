package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shown are the names of everything that can show a behaviour.
func shown(t *testing.T) map[string]bool {
	names := map[string]bool{}
	for _, r := range recording(t) {
		names[r.Scenario.Name] = true
	}
	var node struct{ Cases []struct{ Name string } }
	must(0, json.Unmarshal(must(os.ReadFile("tool/testdata/node.json")), &node))
	for _, c := range node.Cases {
		names[c.Name] = true
	}
	for _, dir := range []string{".", "tool"} {
		for _, file := range must(filepath.Glob(filepath.Join(dir, "*_test.go"))) {
			for _, f := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(must(os.ReadFile(file))), -1) {
				names[f[1]] = true
			}
		}
	}
	return names
}

// covered checks a COVERAGE.md: each of tests has one row, which names something of names, or says
// why it does not.
func covered(tests, coverage string, names map[string]bool) (faults []string) {
	rows := map[string]int{}
	for test := range strings.Lines(tests) {
		rows[strings.TrimSpace(test)] = 0
	}
	file := ""
	for line := range strings.Lines(coverage) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			file = title
		}
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "-") || cells[1] == " test " {
			if strings.HasPrefix(line, "|") && len(cells) != 5 {
				faults = append(faults, "a row that is none: "+line)
			}
			continue
		}
		test := file + " " + strings.TrimSpace(cells[1])
		if n, ok := rows[test]; !ok || n > 0 {
			faults = append(faults, test+": it is not listed, or has two rows")
		}
		rows[test]++
		by := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2]+cells[3], -1)
		for _, name := range by {
			if !names[name[1]] {
				faults = append(faults, test+": there is no "+name[1])
			}
		}
		if !strings.Contains(cells[2], "`") && strings.TrimSpace(cells[3]) == "" {
			faults = append(faults, test+": nothing is said")
		}
	}
	for test, n := range rows {
		if n == 0 {
			faults = append(faults, test+": it has no row")
		}
	}
	return faults
}

// TestCoverage: each test of LangChain's is shown by something that is there, or the reason is said.
func TestCoverage(t *testing.T) {
	tests := string(must(os.ReadFile("testdata/tests.txt")))
	for _, fault := range covered(tests, string(must(os.ReadFile("testdata/COVERAGE.md"))), shown(t)) {
		t.Error(fault)
	}
	if n := strings.Count(tests, "\n"); n < 1200 {
		t.Errorf("%d tests", n)
	}
}

// TestCovered: what is missing from a COVERAGE.md is noticed.
func TestCovered(t *testing.T) {
	const tests = "p f a\np f b\n"
	const head = "## p f\n| test | shown by | not here |\n|---|---|---|\n"
	names := map[string]bool{"x": true}
	for coverage, faults := range map[string]int{
		"| a | `x` | |\n| b | | why |\n":            0,
		"| a | `x` | |\n":                           1,
		"| a | `y` | |\n| b | `x` | |\n":            1,
		"| a | | |\n| b | `x` | |\n":                1,
		"| a | `x` | |\n| b | `x` | |\n| c | | w |": 1,
		"| a | `x` | |\n| a | `x` | |\n":            2,
		"| a | | as `z` |\n| b | `x` | |\n":         1,
		"| a | `x` |\n| b | `x` | |\n":              2,
	} {
		if got := covered(tests, head+coverage, names); len(got) != faults {
			t.Errorf("%q: %q", coverage, got)
		}
	}
}
