package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/stele-go/stele"

// floors are the folders of the root, from the roof down. The first folder of a package is
// its floor. Imports of what is built, tests aside, run downwards only: a package knows its
// own folder and those of lower floors. Folders on one floor do not know each other.
// docs/architecture.md shows the same list.
var floors = [][]string{
	{"examples"},
	{"test"},
	{"cmd"},
	{"ops"},
	{"server", "postgres", "agent", "bench"},
	{"runs", "wire"},
	{"message"},
	{"pregel"},
	{"store"},
	{"saver"},
	{"engine"},
	{"replica"},
	{"snapshot"},
	{"wal", "segment", "index"},
	{"base"},
}

// libraries are the modules of others that the packages of a folder may import. The longest
// folder that fits counts, and a folder that is not listed may import none. One more needs a
// decision record.
var libraries = map[string][]string{
	"base":            {"github.com/cespare/xxhash/v2"},
	"base/delta":      {"github.com/cespare/xxhash/v2", "github.com/klauspost/compress"},
	"base/vfs":        {"golang.org/x/sys"},
	"wal":             {"github.com/cespare/xxhash/v2"},
	"segment":         {"github.com/klauspost/compress"},
	"index":           {"github.com/google/btree"},
	"snapshot":        {"github.com/klauspost/compress"},
	"engine/backup":   {"github.com/cespare/xxhash/v2"},
	"replica":         {"github.com/klauspost/compress"},
	"replica/s3":      {"github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go"},
	"saver/serde":     {"github.com/tinylib/msgp", "github.com/zeebo/xxh3"},
	"store":           {"github.com/google/btree"},
	"pregel":          {"github.com/zeebo/xxh3"},
	"runs":            {"github.com/robfig/cron/v3"},
	"wire":            {"github.com/tinylib/msgp"},
	"agent/providers": {"github.com/anthropics/anthropic-sdk-go", "github.com/google/jsonschema-go", "github.com/modelcontextprotocol/go-sdk", "github.com/openai/openai-go/v3", "google.golang.org/genai"},
	"postgres":        {"github.com/jackc/pgx/v5"},
	"server":          {"github.com/coder/websocket", "github.com/go-jose/go-jose/v4", "github.com/google/jsonschema-go", "github.com/google/uuid", "github.com/modelcontextprotocol/go-sdk", "golang.org/x/time"},
	"server/client":   {},
	"bench":           {"github.com/cespare/xxhash/v2", "github.com/klauspost/compress"},
	"ops/otel":        {"go.opentelemetry.io/otel"},
	"ops/prometheus":  {"github.com/prometheus/client_golang"},
	"ops/transfer":    {"modernc.org/sqlite"},
	"cmd":             {"github.com/jedib0t/go-pretty/v6", "github.com/prometheus/client_golang", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/term"},
	"examples":        {"github.com/prometheus/client_golang"},
	"test":            {"pgregory.net/rapid"},
	"test/bolt":       {"go.etcd.io/bbolt"},
	"test/cross":      {"golang.org/x/tools"},
}

// testLibraries are the modules that tests of every package may import besides.
var testLibraries = []string{
	"github.com/google/go-cmp",
	"github.com/vmihailenco/msgpack/v5", // another's codec beside ours
	"go.uber.org/goleak",
	"pgregory.net/rapid",
}

// apart are packages that do not know what their floor would let them import: pairs of who
// and whom. A name that ends in /... stands for a package and all below it.
var apart = [][2]string{
	{"saver", "saver/disk"}, {"saver", "saver/rules"}, {"saver", "engine/..."},
	{"saver/memory", "saver/disk"}, {"saver/disk", "saver/memory"}, {"saver/savertest", "saver/disk"},
	{"saver/serde/...", "saver"}, {"saver/rules", "saver/layout"},
	// A saver of one's own needs the contract and the rules, and nothing of our savers.
	{"saver/rules", "engine/..."}, {"saver/rules", "wal/..."}, {"saver/rules", "index/..."}, {"saver/rules", "segment/..."}, {"saver/rules", "snapshot/..."},
	{"test/bolt", "engine/..."}, {"test/bolt", "wal/..."}, {"test/bolt", "index/..."}, {"test/bolt", "segment/..."}, {"test/bolt", "snapshot/..."},
	{"test/bolt", "saver/disk"}, {"test/bolt", "saver/memory"}, {"test/bolt", "saver/layout"}, {"test/bolt", "base/vfs/..."},
	{"store/cache", "store"}, {"store", "store/cache"},
	// Graphs and what stands on them talk to any saver.
	{"pregel/...", "saver/disk"}, {"pregel/...", "engine/..."}, {"message/...", "saver/disk"}, {"message/...", "engine/..."},
	{"agent/...", "saver/disk"}, {"agent/...", "engine/..."}, {"runs/...", "engine/..."}, {"postgres/...", "engine/..."}, {"postgres", "saver/disk"},
	{"pregel/channel", "pregel"}, {"message", "pregel"},
	{"server/client", "server"}, {"server/client", "pregel/..."},
	{"examples/...", "engine/..."}, {"examples/...", "base/vfs/..."},
}

// testOnly are packages that no program may link: file systems that break on purpose, and
// what helps tests.
var testOnly = []string{"base/vfs/crashfs", "base/vfs/faultfs", "base/vfs/rot", "base/vfs/vfstest", "base/golden", "base/methods", "base/port", "base/race", "engine/enginetest", "pregel/changetest", "replica/bucket/buckettest", "replica/s3/s3test", "agent/model/modeltest", "postgres/pgtest"}

// forTests are the packages that exist for tests themselves: they may reach those of testOnly,
// and package testing.
var forTests = append([]string{"base/vfs/...", "saver/savertest", "store/storetest", "pregel/waittest", "runs/runstest", "test/...", "bench/...", "examples/fleet", "postgres/bench"}, testOnly...)

func matches(pattern, pkg string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == dir || strings.HasPrefix(pkg, dir+"/")
	}
	return pkg == pattern
}

func matchesAny(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, pkg) })
}

// floorOf is the number of a package's floor, from the roof down; -1 if it has none.
func floorOf(pkg string) int {
	folder, _, _ := strings.Cut(pkg, "/")
	return slices.IndexFunc(floors, func(f []string) bool { return slices.Contains(f, folder) })
}

// runsDown reports whether a package may import another, as far as floors go.
func runsDown(from, to string) bool {
	here, _, _ := strings.Cut(from, "/")
	there, _, _ := strings.Cut(to, "/")
	return here == there || floorOf(to) > floorOf(from)
}

// librariesOf are the modules that a package may import.
func librariesOf(pkg string) []string {
	for dir := pkg; ; {
		if list, ok := libraries[dir]; ok {
			return list
		}
		i := strings.LastIndexByte(dir, '/')
		if i < 0 {
			return nil
		}
		dir = dir[:i]
	}
}

func inModules(modules []string, path string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

func isStd(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// listed is what go list says of a package.
type listed struct {
	ImportPath   string
	Module       struct{ Path string }
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// name is the path below the repository.
func (p *listed) name() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// list asks the go command for the packages of all modules of the workspace, as they are
// built for an operating system. bench/compare, which has a workspace of its own and is
// imported by nobody, is not looked at.
func list(goos string) ([]*listed, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Module,Imports,TestImports,XTestImports,Deps", module+"/...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	if goos == "linux" {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1") // or files that import "C" are left out
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list for %s: %w: %s", goos, err, stderr.String())
	}
	var pkgs []*listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// listAll lists every package once for each operating system it is built for.
var listAll = sync.OnceValues(func() ([]*listed, error) {
	var all []*listed
	for _, goos := range []string{"linux", "darwin", "windows"} {
		pkgs, err := list(goos)
		if err != nil {
			return nil, err
		}
		all = append(all, pkgs...)
	}
	return all, nil
})

func packages(t *testing.T) []*listed {
	t.Helper()
	pkgs, err := listAll()
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

// checkPackage returns what is wrong with the imports of a package.
func checkPackage(p *listed) []string {
	if floorOf(p.name()) < 0 {
		return []string{p.name() + " is on no floor; say in test/arch which"}
	}
	var bad []string
	for _, imp := range p.Imports {
		switch pkg, own := strings.CutPrefix(imp, module+"/"); {
		case own && !runsDown(p.name(), pkg):
			bad = append(bad, fmt.Sprintf("%s must not import %s, which is not below it", p.name(), pkg))
		case own && slices.ContainsFunc(apart, func(a [2]string) bool { return matches(a[0], p.name()) && matches(a[1], pkg) }):
			bad = append(bad, fmt.Sprintf("%s must not know %s", p.name(), pkg))
		case !own && !isStd(imp) && !inModules(librariesOf(p.name()), imp):
			bad = append(bad, fmt.Sprintf("%s must not import %s", p.name(), imp))
		case imp == "C" || imp == "unsafe" && !matches("base/vfs/...", p.name()):
			bad = append(bad, fmt.Sprintf("%s must not import %q", p.name(), imp))
		}
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		if p.Module.Path == module && !strings.HasPrefix(imp, module+"/") && !isStd(imp) && !inModules(librariesOf(p.name()), imp) && !inModules(testLibraries, imp) {
			bad = append(bad, fmt.Sprintf("tests of %s must not import %s", p.name(), imp))
		}
	}
	return append(bad, checkTestOnly(p)...)
}

// TestClientStandsAlone: who calls a server links nothing but the client, what bounds its waits, which
// needs nothing either, and the standard library.
func TestClientStandsAlone(t *testing.T) {
	i := slices.IndexFunc(packages(t), func(p *listed) bool { return p.name() == "server/client" })
	if i < 0 {
		t.Fatal("server/client is gone")
	}
	for _, dep := range packages(t)[i].Deps {
		if !isStd(dep) && dep != module+"/base/silence" {
			t.Errorf("server/client reaches %s", dep)
		}
	}
}

// checkTestOnly keeps what breaks on purpose, and package testing, out of what users link. The
// libraries of others may reach package testing, and those in modules of their own do.
func checkTestOnly(p *listed) (bad []string) {
	if matchesAny(forTests, p.name()) {
		return nil
	}
	for _, dep := range p.Deps {
		if pkg, own := strings.CutPrefix(dep, module+"/"); own && matchesAny(testOnly, pkg) || dep == "testing" && p.Module.Path == module {
			bad = append(bad, fmt.Sprintf("%s reaches %s, which only tests may", p.name(), pkg))
		}
	}
	return bad
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		for _, bad := range checkPackage(p) {
			if !seen[bad] {
				t.Error(bad)
			}
			seen[bad] = true
		}
	}
}

// TestRoot: what lies in the root is a floor, or a folder of pages. A folder that is gone
// is no floor.
func TestRoot(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Concat(floors...), "docs")
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && e.Name() != "bin" && !slices.Contains(want, e.Name()) {
			t.Errorf("%s is no floor", e.Name())
		}
	}
	for _, folder := range want {
		if _, err := os.Stat(root + "/" + folder); err != nil {
			t.Error(err)
		}
	}
}

// TestPictureIsTrue: docs/architecture.md draws the floors as this list has them.
func TestPictureIsTrue(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(text), "```\n")
	picture, _, ok := strings.Cut(picture, "```\n")
	if !ok {
		t.Fatal("docs/architecture.md has no picture")
	}
	var drawn [][]string
	for line := range strings.Lines(picture) {
		names, what, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if drawn = append(drawn, strings.Fields(names)); strings.TrimSpace(what) == "" {
			t.Errorf("the picture does not say what %s is", names)
		}
	}
	if fmt.Sprint(drawn) != fmt.Sprint(floors) {
		t.Errorf("the picture has\n%v\nand the floors are\n%v", drawn, floors)
	}
}

// TestImportsNotices shows that each rule people would break by accident bites.
func TestImportsNotices(t *testing.T) {
	in := func(pkg string) string { return module + "/" + pkg }
	for _, c := range []struct{ pkg, imp string }{
		{"wal", in("segment")}, {"segment", in("wal")}, {"segment", in("index")}, {"index", in("wal")}, {"snapshot", in("engine")},
		{"engine", in("saver/serde")}, {"engine", in("saver")}, {"engine", in("pregel")}, {"engine", in("store")}, {"base/vfs", in("wal")},
		{"pregel", in("engine")}, {"pregel/channel", in("engine")}, {"saver/serde", in("saver")}, {"pregel", in("saver/disk")},
		{"saver", in("pregel")}, {"saver", in("store")}, {"saver", in("store/cache")}, {"store", in("store/cache")}, {"store/cache", in("store")}, {"store", in("pregel")},
		{"server", in("postgres")}, {"agent", in("server")}, {"runs", in("wire")}, {"saver/memory", in("saver/disk")}, {"test/bolt", in("saver/memory")}, {"test/bolt", in("engine")}, {"server/client", in("server")}, {"examples/embed", in("engine")},
		{"wal", "github.com/google/btree"}, {"saver/serde", "pgregory.net/rapid"}, {"pregel", "golang.org/x/sync/errgroup"}, {"server/client", "github.com/google/uuid"},
		{"unheard/of", "fmt"}, {"wal", "C"}, {"index", "unsafe"},
	} {
		if len(checkPackage(&listed{ImportPath: in(c.pkg), Imports: []string{c.imp}})) == 0 {
			t.Errorf("%s importing %s goes unnoticed", c.pkg, c.imp)
		}
	}
	for _, f := range append(testOnly, "testing") {
		dep := f
		if f != "testing" {
			dep = in(f)
		}
		bad := &listed{ImportPath: in("saver"), Deps: []string{dep}}
		bad.Module.Path = module
		if len(checkPackage(bad)) == 0 {
			t.Errorf("a saver that reaches %s goes unnoticed", f)
		}
	}
	bad := &listed{ImportPath: in("wal"), TestImports: []string{"github.com/stretchr/testify"}}
	bad.Module.Path = module
	if len(checkPackage(bad)) == 0 {
		t.Error("a test with a foreign module goes unnoticed")
	}
}
