package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCoverage: what COVERAGE.md says shows a behaviour is there.
func TestCoverage(t *testing.T) {
	names := map[string]bool{}
	for _, r := range recording(t) {
		names[r.Scenario.Name] = true
	}
	var node struct{ Cases []struct{ Name string } }
	must(0, json.Unmarshal(must(os.ReadFile("../tool/testdata/node.json")), &node))
	for _, c := range node.Cases {
		names[c.Name] = true
	}
	for _, dir := range []string{".", "../tool"} {
		for _, file := range must(filepath.Glob(filepath.Join(dir, "*_test.go"))) {
			for _, f := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(must(os.ReadFile(file))), -1) {
				names[f[1]] = true
			}
		}
	}
	rows := 0
	for line := range strings.Lines(string(must(os.ReadFile("testdata/COVERAGE.md")))) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], "-") || cells[1] == " file " {
			continue
		}
		rows++
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[3], -1) {
			if !names[name[1]] {
				t.Errorf("%s: there is no %q", cells[1], name[1])
			}
		}
		if strings.TrimSpace(cells[3]) == "" && strings.TrimSpace(cells[4]) == "" {
			t.Errorf("%s: nothing is said", cells[1])
		}
	}
	if rows < 40 {
		t.Errorf("%d rows", rows)
	}
}
