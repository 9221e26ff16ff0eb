package arch

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)`")
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)\(`)
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	goBlock  = regexp.MustCompile("(?s)```go\n.*?```") // a call of a generic function looks like a link
)

// TestDocsNameWhatExists: a test that a page names, and a file and a section that it
// links to, are there.
func TestDocsNameWhatExists(t *testing.T) {
	have := map[string]bool{}
	pages := map[string]string{}
	sources(t, func(name string, text []byte) {
		switch {
		case isTestFile(name):
			for _, m := range declared.FindAllSubmatch(text, -1) {
				have[string(m[1])] = true
			}
		case strings.HasSuffix(name, ".md"):
			pages[name] = string(text)
		}
	})
	for page, text := range pages {
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !have[m[1]] {
				t.Errorf("%s names %s, which is not there", page, m[1])
			}
		}
		for _, m := range link.FindAllStringSubmatch(goBlock.ReplaceAllString(text, ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			to := page
			if target != "" {
				to = path.Join(path.Dir(page), target)
			}
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(to)))
			if other, ok := pages[to]; err != nil || ok && !anchors(other)[anchor] {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
}
