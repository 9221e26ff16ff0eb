package modules

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root = "../.."
	self = "github.com/stele-go/stele"
)

// ours is a requirement of a module of this repository.
var ours = regexp.MustCompile(`(?m)^\s*(?:require )?(` + self + `[\w/.-]*) (v\S+)`)

// TestOneVersion: every module requires the others at one version, that of the next
// tag. Replacements serve only who works in this repository: a program outside does
// not see them.
func TestOneVersion(t *testing.T) {
	version := tagged(t)
	for dir := range moduleDirs(t) {
		text, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ours.FindAllSubmatch(text, -1) {
			if string(m[2]) != version {
				t.Errorf("%s/go.mod requires %s at %s, others at %s", dir, m[1], m[2], version)
			}
		}
	}
	if version == "v0.0.0" {
		t.Error("v0.0.0 is never tagged")
	}
}

// importable are the modules that programs of others import, but for agent/providers: to build
// the libraries of its vendors takes minutes, so TestProvidersOutside only resolves them.
var importable = []string{".", "ops", "postgres", "server"}

// TestOutside builds and runs a program that requires stele and the modules beside it
// by version, from a module proxy made of this tree.
func TestOutside(t *testing.T) {
	version := tagged(t)
	proxy, program := t.TempDir(), t.TempDir()
	dirs := moduleDirs(t)
	require := ""
	for _, dir := range importable {
		publish(t, proxy, dir, version, dirs)
		require += fmt.Sprintf("require %s %s\n", path.Join(self, dir), version)
	}
	main, err := os.ReadFile("testdata/outside/main.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(program, "main.go"), main)
	write(t, filepath.Join(program, "go.mod"), []byte("module example.com/outside\n\ngo 1.25.0\n\n"+require))

	cmd := exec.Command("go", "run", ".")
	cmd.Dir = program
	cmd.Env = append(outside(t, proxy), "GOFLAGS=-mod=mod -modcacherw -trimpath")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.HasSuffix(out, []byte("outside: stored, traced, measured, and refused what is wrong\n")) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// sonic is the oldest version of a library of eino's that this version of Go can compile.
const sonic = "github.com/bytedance/sonic v1.15.0"

// einoVersion is that of the page.
var einoVersion = regexp.MustCompile(`eino (\d+\.\d+\.\d+)`)

// TestEino builds and runs a program with eino and the store for its checkpoints that the guide has: a graph is interrupted
// in one process, and continues in another.
func TestEino(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/guide/frameworks.md"))
	if err != nil {
		t.Fatal(err)
	}
	version, dirs := tagged(t), moduleDirs(t)
	_, block, ok := bytes.Cut(page, []byte("```go\n"))
	block, _, closed := bytes.Cut(block, []byte("```"))
	eino := einoVersion.FindSubmatch(page)
	if !ok || !closed || eino == nil {
		t.Fatal("the page has no block, or no version")
	}
	proxy, program := t.TempDir(), t.TempDir()
	publish(t, proxy, ".", version, dirs)
	main, err := os.ReadFile("testdata/eino/main.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(program, "main.go"), main)
	write(t, filepath.Join(program, "store.go"), append([]byte("package main\n\n"), block...))
	write(t, filepath.Join(program, "go.mod"), fmt.Appendf(nil, "module example.com/outside\n\ngo 1.25.0\n\nrequire %s %s\nrequire github.com/cloudwego/eino v%s\nrequire %s\n", self, version, eino[1], sonic))
	cmd := exec.Command("go", "build", "-mod=mod", "-o", "outside", ".")
	cmd.Dir = program
	cmd.Env = append(outside(t, proxy), "GOFLAGS=-modcacherw -trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	for _, want := range []string{"interrupted\n", "continued: Ada, approved\n"} {
		if got := output(t, filepath.Join(program, "outside"), dir); got != want {
			t.Fatalf("it says %q, want %q", got, want)
		}
	}
}

// TestProvidersOutside: the packages of agent/providers, and all that they import, are found from
// outside.
func TestProvidersOutside(t *testing.T) {
	version, dirs := tagged(t), moduleDirs(t)
	proxy, program := t.TempDir(), t.TempDir()
	publish(t, proxy, ".", version, dirs)
	publish(t, proxy, "agent/providers", version, dirs)
	write(t, filepath.Join(program, "go.mod"), []byte("module example.com/outside\n\ngo 1.25.0\n\nrequire "+self+"/agent/providers "+version+"\n"))
	cmd := exec.Command("go", "list", "-mod=mod", "-deps", self+"/agent/providers/...")
	cmd.Dir = program
	cmd.Env = append(outside(t, proxy), "GOFLAGS=-modcacherw")
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("\n"+self+"/agent/providers/openai\n")) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestInstall: go install takes the command by its version, from outside. It refuses a command
// whose go.mod replaces a module, so the replacements of cmd/stele are in go.work. Without
// STELE_INSTALL it says what it would build, and does not: that is half a minute of work.
func TestInstall(t *testing.T) {
	version := tagged(t)
	proxy, bin := t.TempDir(), t.TempDir()
	dirs := moduleDirs(t)
	gomod, err := os.ReadFile(filepath.Join(root, "cmd", "stele", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	publish(t, proxy, "cmd/stele", version, dirs)
	for _, m := range ours.FindAllSubmatch(gomod, -1) {
		publish(t, proxy, path.Clean("./"+strings.TrimPrefix(string(m[1]), self)), version, dirs)
	}
	cmd := exec.Command("go", "install", "-n", self+"/cmd/stele@"+version)
	if os.Getenv("STELE_INSTALL") != "" {
		cmd.Args = slices.Delete(cmd.Args, 2, 3)
	}
	cmd.Dir = t.TempDir()
	cmd.Env = append(outside(t, proxy), "GOFLAGS=-modcacherw -trimpath", "GOBIN="+bin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if os.Getenv("STELE_INSTALL") == "" {
		if link := regexp.MustCompile(`(?m)^mv .*a\.out ` + regexp.QuoteMeta(filepath.Join(bin, "stele")) + `$`); !link.Match(out) {
			t.Errorf("it does not make the command:\n%.2000s", out)
		}
		return
	}
	if out := output(t, filepath.Join(bin, "stele"), "version"); !strings.HasPrefix(out, "stele "+version+" ") {
		t.Errorf("it says:\n%s", out)
	}
}

// outside is the environment of a command outside of this tree, with a module proxy. What is on
// this machine already is taken from there. The cache of modules is the test's own: the version
// is not tagged, and must not stay behind.
func outside(t *testing.T, proxy string) []string {
	t.Helper()
	known := strings.TrimSpace(output(t, "go", "env", "GOMODCACHE"))
	upstream := strings.TrimSpace(output(t, "go", "env", "GOPROXY"))
	return append(os.Environ(), "GOWORK=off", "GOSUMDB=off", "GOMODCACHE="+t.TempDir(),
		"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(filepath.Join(known, "cache", "download"))+","+upstream)
}

// publish lays a module of the tree into a proxy: https://go.dev/ref/mod#goproxy-protocol.
func publish(t *testing.T, proxy, dir, version string, dirs map[string]bool) {
	t.Helper()
	mod := path.Join(self, dir)
	at := filepath.Join(proxy, filepath.FromSlash(mod), "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile(filepath.Join(root, dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range files(t) {
		if moduleOf(name, dirs) != dir {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		below := strings.TrimPrefix(name, strings.TrimPrefix(dir+"/", "./"))
		w, err := z.CreateHeader(&zip.FileHeader{Name: mod + "@" + version + "/" + below, Method: zip.Store})
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, version+".zip"), b.Bytes())
	write(t, filepath.Join(at, version+".mod"), gomod)
	write(t, filepath.Join(at, version+".info"), []byte(`{"Version":"`+version+`"}`))
	write(t, filepath.Join(at, "list"), []byte(version+"\n"))
}

// tagged is the version that modules of this repository require of one another.
func tagged(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ops", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	m := ours.FindSubmatch(bytes.TrimPrefix(text, []byte("module "+self)))
	if m == nil {
		t.Fatal("ops requires no version of stele")
	}
	return string(m[2])
}

// files are those of the tree that are part of it, with slashes.
func files(t *testing.T) []string {
	t.Helper()
	return strings.Fields(output(t, "git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"))
}

// moduleDirs are the directories of the modules of the tree.
func moduleDirs(t *testing.T) map[string]bool {
	t.Helper()
	dirs := map[string]bool{}
	for _, name := range files(t) {
		if path.Base(name) == "go.mod" {
			dirs[path.Dir(name)] = true
		}
	}
	if !dirs["."] || !dirs["ops"] {
		t.Fatalf("found the modules %v", slices.Sorted(maps.Keys(dirs)))
	}
	return dirs
}

// moduleOf is the directory of the module that has a file.
func moduleOf(name string, dirs map[string]bool) string {
	dir := path.Dir(name)
	for !dirs[dir] {
		dir = path.Dir(dir)
	}
	return dir
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return string(out)
}

func write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
