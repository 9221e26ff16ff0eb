package modules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestFirstCommands: to compile the first commands of README.md, the go command downloads these
// modules and no other, and README.md says how much that is.
func TestFirstCommands(t *testing.T) {
	example := []string{"github.com/cespare/xxhash/v2", "github.com/google/btree", "github.com/klauspost/compress", "github.com/klauspost/cpuid/v2",
		"github.com/philhofer/fwd", "github.com/tinylib/msgp", "github.com/zeebo/xxh3", "golang.org/x/sys"}
	tests := append(slices.Clone(example), "github.com/google/go-cmp", "github.com/robfig/cron/v3", "github.com/vmihailenco/msgpack/v5",
		"github.com/vmihailenco/tagparser/v2", "go.uber.org/goleak", "pgregory.net/rapid")
	slices.Sort(tests)
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for command, c := range map[string]struct {
		list []string
		want []string
	}{
		"go run ./examples/crash": {[]string{"./examples/crash"}, example},
		"go test -count=1 ./...":  {[]string{"-test", "./..."}, tests},
	} {
		says := regexp.MustCompile(`(?m)^# .* (\d+) MB.*\n` + regexp.QuoteMeta(command) + `$`).FindSubmatch(readme)
		if says == nil {
			t.Errorf("README.md has no %q with its size above it", command)
			continue
		}
		env := append(outside(t, t.TempDir()), "GOWORK=", "GOFLAGS=-modcacherw")
		cmd := exec.Command("go", append([]string{"list", "-deps"}, c.list...)...)
		cmd.Dir, cmd.Env = root, env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		modules, bytes := downloaded(t, env)
		t.Logf("%s: %d bytes", command, bytes)
		if !slices.Equal(modules, c.want) {
			t.Errorf("%s downloads\n%q, want\n%q", command, modules, c.want)
		}
		if got := fmt.Sprintf("%.0f", float64(bytes)/1e6); got != string(says[1]) {
			t.Errorf("%s downloads %s MB; README.md says %s", command, got, says[1])
		}
	}
}

// downloaded are the modules whose content is in the cache of modules of env, and the size of all that
// was downloaded.
func downloaded(t *testing.T, env []string) (modules []string, bytes int64) {
	t.Helper()
	cache := ""
	for _, v := range env {
		if dir, ok := strings.CutPrefix(v, "GOMODCACHE="); ok {
			cache = filepath.Join(dir, "cache", "download")
		}
	}
	err := filepath.WalkDir(cache, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		bytes += info.Size()
		if below, err := filepath.Rel(cache, name); err == nil && filepath.Ext(name) == ".zip" {
			module, _, _ := strings.Cut(filepath.ToSlash(below), "/@v/")
			modules = append(modules, module)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(modules)
	return modules, bytes
}

// TestNoNestedGo: no test of the main module starts a go command, which could compile for minutes
// without a word. Those that do are in other modules, which .ci/run tests.
func TestNoNestedGo(t *testing.T) {
	dirs, seen := moduleDirs(t), 0
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			of, ok := call.Fun.(*ast.SelectorExpr)
			if pkg, isName := selected(of); !ok || !isName || pkg != "exec" {
				return true
			}
			for _, arg := range call.Args {
				if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, _ := strconv.Unquote(lit.Value); text == "go" {
						seen++
						if moduleOf(name, dirs) == "." {
							t.Errorf("%s starts a go command", name)
						}
					}
				}
			}
			return true
		})
	}
	if seen < 5 {
		t.Errorf("%d go commands were found in all modules", seen)
	}
}

// selected is the name before the dot, if there is one.
func selected(of *ast.SelectorExpr) (string, bool) {
	if of == nil {
		return "", false
	}
	name, ok := of.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	return name.Name, true
}
