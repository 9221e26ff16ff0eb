package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What only another system or a smaller int refuses is found, in tests too, and what is right is not.
func TestFindsWhatAnotherSystemRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module example.com/m\n\ngo 1.25.0\n",
		"m.go":               "package m\n\nimport \"os\"\n\nvar Here = os.Args\n",
		"m_windows.go":       "package m\n\nvar There = missing\n",
		"m_test.go":          "package m\n\nimport \"testing\"\n\nfunc TestM(t *testing.T) { var n int = 1 << 40; _ = n }\n",
		"own/own_windows.go": "package own\n",
		"shift/shift.go":     "package shift\n\nfunc Much(n int) int { return n << 40 }\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	t.Setenv("CGO_ENABLED", "0")
	for _, c := range []struct{ system, arch, dir, want string }{
		{"linux", "amd64", "./...", ""},
		{"linux", "amd64", "./own", ""}, // has no files there
		{"windows", "amd64", "./...", "undefined: missing"},
		{"linux", "386", ".", "m_test.go:5:40: cannot use 1 << 40"},
		{"linux", "386", "./shift", "too small for shift of 40"},
		{"linux", "386", "./nowhere", "nowhere"},
	} {
		t.Setenv("GOOS", c.system)
		t.Setenv("GOARCH", c.arch)
		err := run([]string{c.dir})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s/%s %s: %v, want %q", c.system, c.arch, c.dir, err, c.want)
		}
	}
}
