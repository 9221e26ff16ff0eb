package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	goBlock   = regexp.MustCompile("(?s)```go\n(.*?)```")
	testName  = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)`")
	declared  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)\(`)
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	readmeEnv = "package main\n\nimport (\n\t\"context\"\n\n\t\"github.com/stele-go/stele/saver\"\n\t\"github.com/stele-go/stele/saver/disk\"\n)\n\nfunc main() { _ = run(context.Background()) }\n\nfunc run(ctx context.Context) error {\n"
)

// TestReadmeCompiles builds the example of the README as the body of a function.
func TestReadmeCompiles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := goBlock.FindSubmatch(text)
	if block == nil {
		t.Fatal("the README has no example")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(readmeEnv+string(block[1])+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "vet", file)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDocsNameWhatExists: a test that a page names, and a file that it links to,
// are there.
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
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
}
