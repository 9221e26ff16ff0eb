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

// modules of others that code outside tests may import. One more needs an ADR.
var allowedModules = []string{
	"github.com/cespare/xxhash/v2",
	"github.com/google/btree",
	"github.com/klauspost/compress",
	"github.com/vmihailenco/msgpack/v5",
	"github.com/zeebo/xxh3",
	"golang.org/x/sys",
}

// testModules are further modules that tests may import.
var testModules = []string{
	"github.com/google/go-cmp",
	"go.uber.org/goleak",
	"pgregory.net/rapid",
}

// faults are the file systems that break on purpose.
var faults = []string{"internal/vfs/crashfs", "internal/vfs/faultfs", "internal/vfs/rot"}

// rule says what packages may import directly. A name that ends in /... stands
// for a package and everything below it. The first rule that matches counts.
type rule struct {
	pkg     string
	allowed []string // packages of the module
	third   []string // nil: allowedModules
}

const anything = "..."

var below = []string{"internal/base", "internal/record", "internal/metric", "internal/seal", "internal/delta", "internal/vfs", "wal", "segment", "index", "snapshot", "internal/files", "internal/throttle"}

// rules are the directions of the imports:
//
//	base ← {vfs, seal} ← {wal, segment}    base ← index ← record    {base, vfs, seal, index} ← snapshot
//	{wal, segment, snapshot} ← internal/files
//	all of those ← storage ← {garbage, rewrite ← image} ← flush ← compaction ← scrub ← internal/engine
//	internal/engine ← {export, verify} ← internal/backup, and below the engine's work pin ← verify
//	serde ← saver ← internal/rules ← {saver/memory, saver/disk}
//	{saver, index} ← internal/layout    {saver, internal/engine} ← internal/diskhook
//	{internal/engine, internal/rules, internal/layout, internal/diskhook} ← saver/disk ← {saver/admin, store, cache} ← pregel
//	saver ← internal/group ← {saver/disk, pregel}
//	saver/disk ← internal/calls
//	{serde, pregel/channel} ← message    {message, pregel} ← tool ← model ← agent
//	{message, pregel} ← pregel/pregeljson
//	{client, message, pregel, pregel/pregeljson} ← client/remote
//
// Packages fault and monitor, plain types, import nothing and may be imported by all.
//
// Public packages stand on top of the engine; those below it do not know one
// another unless the picture says so.
var rules = []rule{
	{"fault", nil, []string{}},
	{"monitor", nil, []string{}},
	{"internal/base", nil, []string{"github.com/cespare/xxhash/v2"}},
	{"internal/race", nil, []string{}},
	{"internal/port", nil, []string{}},
	{"internal/metric", nil, []string{}},
	{"internal/delta", []string{"internal/base"}, []string{"github.com/cespare/xxhash/v2", "github.com/klauspost/compress"}},
	{"internal/seal", []string{"internal/base"}, []string{}},
	{"internal/vfs/...", []string{"internal/base", "internal/vfs/..."}, []string{"golang.org/x/sys"}},
	{"wal", []string{"internal/base", "internal/seal", "internal/vfs"}, []string{"github.com/cespare/xxhash/v2", "github.com/klauspost/compress"}},
	{"segment", []string{"internal/base", "internal/seal", "internal/vfs"}, []string{"github.com/klauspost/compress"}},
	{"index", []string{"internal/base"}, []string{"github.com/google/btree"}},
	{"snapshot", []string{"internal/base", "internal/seal", "internal/vfs", "index"}, []string{"github.com/klauspost/compress"}},
	{"internal/record", []string{"index", "internal/base"}, []string{}},
	{"internal/files", []string{"internal/base", "internal/seal", "internal/vfs", "wal", "segment", "snapshot"}, []string{}},
	{"internal/throttle", []string{"internal/metric", "internal/vfs"}, []string{}},
	{"internal/storage", below, []string{}},
	{"internal/rewrite", append([]string{"internal/storage"}, below...), []string{}},
	{"internal/lost", []string{"index", "internal/storage"}, []string{}},
	{"internal/garbage", append([]string{"internal/storage"}, below...), []string{}},
	{"internal/image", append([]string{"internal/rewrite", "internal/storage"}, below...), []string{}},
	{"internal/flush", append([]string{"internal/image", "internal/garbage", "internal/rewrite", "internal/storage"}, below...), []string{}},
	{"internal/compaction", append([]string{"internal/flush", "internal/image", "internal/garbage", "internal/rewrite", "internal/storage"}, below...), []string{}},
	{"internal/scrub", append([]string{"internal/compaction", "internal/flush", "internal/image", "internal/storage"}, below...), []string{}},
	{"internal/engine", append([]string{"internal/scrub", "internal/compaction", "internal/flush", "internal/image", "internal/garbage", "internal/storage"}, below...), []string{}},
	{"internal/pin", below, []string{}},
	{"internal/export", append([]string{"internal/lost", "internal/storage"}, below...), []string{}},
	{"internal/verify", append([]string{"internal/engine", "internal/pin", "internal/lost", "internal/storage"}, below...), []string{}},
	{"serde/...", []string{"internal/base", "serde/..."}, nil},
	{"saver", []string{"serde", "internal/base"}, []string{}},
	{"internal/rules", []string{"saver", "serde", "internal/base"}, []string{}},
	{"internal/layout", []string{"saver", "serde", "index", "internal/base"}, []string{}},
	{"internal/diskhook", append([]string{"saver", "internal/engine", "internal/storage"}, below...), []string{}},
	{"internal/group", []string{"saver"}, []string{}},
	{"internal/calls", []string{"saver/disk", "index", "internal/layout", "internal/diskhook", "internal/engine", "internal/base"}, []string{}},
	{"saver/disk", append([]string{"saver", "serde", "internal/rules", "internal/layout", "internal/diskhook", "internal/engine", "internal/group", "internal/storage"}, below...), []string{}},
	{"internal/backup", append([]string{"internal/export", "internal/verify", "internal/pin", "internal/storage"}, below...), []string{"github.com/cespare/xxhash/v2"}},
	{"saver/admin", append([]string{"saver", "saver/disk", "serde", "internal/rules", "internal/layout", "internal/backup", "internal/diskhook", "internal/engine", "internal/export", "internal/verify", "internal/pin", "internal/lost", "internal/storage"}, below...), []string{}},
	{"saver/memory", []string{"saver", "serde", "internal/rules", "internal/base"}, []string{}},
	{"saver/savertest", []string{"saver", "saver/memory", "serde", "internal/rules", "internal/base"}, []string{}},
	{"internal/storehook", nil, []string{}},
	{"internal/jsontext", nil, []string{}},
	{"store", []string{"saver", "saver/disk", "serde", "index", "internal/storehook", "internal/rules", "internal/layout", "internal/diskhook", "internal/engine", "internal/storage", "internal/metric", "internal/base"}, []string{"github.com/google/btree"}},
	{"store/storetest", []string{"store", "saver"}, []string{}},
	{"cache", []string{"saver", "saver/disk", "serde", "index", "internal/rules", "internal/layout", "internal/diskhook", "internal/engine", "internal/storage", "internal/metric", "internal/base"}, []string{}},
	{"pregel/pregeljson", []string{"internal/jsontext", "message", "pregel/...", "serde"}, []string{}},
	{"pregel/...", []string{"pregel/...", "saver/...", "store", "cache", "serde/...", "internal/group", "internal/rules", "internal/base"}, nil},
	{"message", []string{"internal/pyrepr", "pregel/channel", "serde"}, []string{}},
	{"tool", []string{"internal/pyrepr", "message", "pregel/..."}, []string{}},
	{"model", []string{"message", "tool", "pregel/..."}, []string{}},
	{"agent", []string{"internal/pyrepr", "message", "model", "tool", "pregel/...", "serde"}, []string{}},
	{"client", nil, []string{}},
	{"client/remote", []string{"client", "message", "pregel/...", "saver"}, []string{}},
	{"internal/pyrepr", nil, []string{}},
	{"internal/modeltest", []string{"message", "model", "tool"}, []string{}},
	{"internal/arch", nil, []string{}},
	{"internal/golden", nil, []string{}},
	{"test/...", []string{anything}, append(slices.Clone(allowedModules), testModules...)},
	{"bench/...", []string{anything}, nil},
	{"examples/...", []string{"store", "cache", "message", "tool", "model", "agent", "saver/...", "pregel/...", "serde/...", "test/kill"}, []string{}},
}

func (r rule) allows(pkg string) bool {
	return pkg == "fault" || pkg == "monitor" || slices.ContainsFunc(r.allowed, func(pattern string) bool { return pattern == anything || matches(pattern, pkg) })
}

func (r rule) allowsModule(path string) bool {
	third := r.third
	if third == nil {
		third = allowedModules
	}
	return inModules(third, path)
}

func matches(pattern, pkg string) bool {
	if dir, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == dir || strings.HasPrefix(pkg, dir+"/")
	}
	return pkg == pattern
}

func inModules(modules []string, path string) bool {
	return slices.ContainsFunc(modules, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

func ruleFor(pkg string) (rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.pkg, pkg) })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

// listed is what go list says of a package.
type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// name is the path below the module.
func (p *listed) name() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// list asks the go command for the packages of the module, as they are built for
// an operating system.
func list(goos string) ([]*listed, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
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
	r, ok := ruleFor(p.name())
	if !ok {
		return []string{p.name() + " has no rule; say in internal/arch what it may import"}
	}
	var bad []string
	for _, imp := range p.Imports {
		switch pkg, own := strings.CutPrefix(imp, module+"/"); {
		case own && !r.allows(pkg):
			bad = append(bad, fmt.Sprintf("%s must not import %s", p.name(), pkg))
		case !own && !isStd(imp) && !r.allowsModule(imp):
			bad = append(bad, fmt.Sprintf("%s must not import %s", p.name(), imp))
		case imp == "C" || imp == "unsafe" && !matches("internal/vfs/...", p.name()):
			bad = append(bad, fmt.Sprintf("%s must not import %q", p.name(), imp))
		}
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		if !strings.HasPrefix(imp, module+"/") && !isStd(imp) && !inModules(allowedModules, imp) && !inModules(testModules, imp) {
			bad = append(bad, fmt.Sprintf("tests of %s must not import %s", p.name(), imp))
		}
	}
	return append(bad, checkFaults(p)...)
}

// checkFaults keeps the breaking file systems, and package testing, out of what
// users link.
func checkFaults(p *listed) []string {
	mayFail := matches("test/...", p.name()) || matches("internal/vfs/...", p.name())
	mayTest := mayFail || p.name() == "internal/golden" || p.name() == "internal/modeltest" || p.name() == "saver/savertest" || p.name() == "store/storetest" || matches("bench/...", p.name())
	var bad []string
	for _, dep := range p.Deps {
		pkg := strings.TrimPrefix(dep, module+"/")
		if !mayFail && slices.ContainsFunc(faults, func(f string) bool { return matches(f+"/...", pkg) }) {
			bad = append(bad, fmt.Sprintf("%s reaches %s, which only tests may", p.name(), pkg))
		}
		if !mayTest && dep == "testing" {
			bad = append(bad, p.name()+" reaches package testing, which only tests may")
		}
	}
	return bad
}

func isStd(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
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

// TestImportsNotices shows that each rule people would break by accident bites.
func TestImportsNotices(t *testing.T) {
	in := func(pkg string) string { return module + "/" + pkg }
	for _, c := range []struct{ pkg, imp string }{
		{"wal", in("segment")}, {"segment", in("wal")}, {"segment", in("index")}, {"index", in("internal/vfs")},
		{"internal/engine", in("serde")}, {"internal/engine", in("saver")}, {"internal/engine", in("pregel")},
		{"pregel", in("internal/engine")}, {"pregel/channel", in("internal/engine")}, {"serde", in("saver")},
		{"saver", in("pregel")}, {"saver", in("store")}, {"saver", in("cache")}, {"saver", in("internal/diskhook")}, {"pregel", in("internal/diskhook")}, {"internal/diskhook", in("saver/disk")}, {"store", in("cache")}, {"cache", in("store")}, {"store", in("pregel")}, {"internal/engine", in("store")}, {"snapshot", in("wal")}, {"internal/vfs", in("wal")}, {"examples/embed", in("internal/engine")},
		{"wal", "github.com/google/btree"}, {"serde", "pgregory.net/rapid"}, {"pregel", "golang.org/x/sync/errgroup"},
		{"unheard/of", "fmt"}, {"wal", "C"}, {"index", "unsafe"},
	} {
		if len(checkPackage(&listed{ImportPath: in(c.pkg), Imports: []string{c.imp}})) == 0 {
			t.Errorf("%s importing %s goes unnoticed", c.pkg, c.imp)
		}
	}
	for _, f := range faults {
		if len(checkPackage(&listed{ImportPath: in("saver"), Deps: []string{in(f)}})) == 0 {
			t.Errorf("a saver that reaches %s goes unnoticed", f)
		}
	}
	if bad := checkPackage(&listed{ImportPath: in("wal"), TestImports: []string{"github.com/stretchr/testify"}}); len(bad) == 0 {
		t.Error("a test with a foreign module goes unnoticed")
	}
}
