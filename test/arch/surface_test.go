package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostNames are the packages whose exported top-level names are bounded, so that who reads
// go doc sees the whole.
var mostNames = map[string]int{"saver": 110, "saver/disk": 21, "store": 65, "store/cache": 20}

// exportedNames are the exported top-level names of a package. Methods and fields do not
// count; each constant of a group does.
func exportedNames(file *ast.File) (names []string) {
	add := func(id *ast.Ident) {
		if id.IsExported() {
			names = append(names, id.Name)
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				add(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					add(s.Name)
				case *ast.ValueSpec:
					for _, id := range s.Names {
						add(id)
					}
				}
			}
		}
	}
	return names
}

// inner are the packages that are importable because several floors of this repository share
// them. They say themselves that they promise nothing.
var inner = []string{
	"base", "base/vfs/...", "base/seal", "base/delta", "base/jsontext", "base/race", "base/golden", "base/methods", "base/port", "base/silence",
	"wal", "segment", "index", "snapshot", "replica", "replica/bucket/buckettest", "replica/s3/s3test", "engine/...", "saver/layout", "message/pyrepr", "agent/model/modeltest", "postgres/pgtest",
}

// disclaimer stands in the package comment of each of them.
const disclaimer = "for this repository, and makes no promise"

// private reports whether nobody outside this repository is to name what a package exports.
func private(pkg string) bool {
	return strings.Contains("/"+pkg+"/", "/internal/") || matchesAny(inner, pkg)
}

// doors are the exported names of other packages that mention types of inner packages all
// the same, and say so.
var doors = []string{"saver/disk.Simulation", "saver/disk.Inside", "saver/disk.EngineOptions", "saver/disk.MetadataMatcher", "saver/disk.DescribeThread",
	"postgres.Inside", "postgres.SchemaError", "replica/s3.Open", "saver/disk.Replica", "saver/admin.Moment", "saver/admin.NoMomentError", "saver/admin.BucketReport", "saver/admin.RestoreBucket", "saver/admin.RejoinBucket"}

// ownTypes are the types of private packages that a file's exported declarations mention: with
// them the promise of a package would reach what makes none. Bodies of functions and
// unexported fields do not count.
func ownTypes(file *ast.File) (found []string) {
	own := map[string]bool{}
	for _, imp := range file.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		if pkg, own := strings.CutPrefix(path, module+"/"); !own || !private(pkg) {
			continue
		}
		name := filepath.Base(path)
		if imp.Name != nil {
			name = imp.Name.Name
		}
		own[name] = true
	}
	for _, decl := range file.Decls {
		for owner, typ := range exportedTypes(decl) {
			ast.Inspect(typ, func(n ast.Node) bool {
				if st, ok := n.(*ast.StructType); ok {
					st.Fields.List = slices.DeleteFunc(st.Fields.List, func(f *ast.Field) bool {
						return len(f.Names) > 0 && !slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)
					})
				}
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if pkg, ok := sel.X.(*ast.Ident); ok && own[pkg.Name] {
						found = append(found, fmt.Sprintf("%s mentions %s.%s", owner, pkg.Name, sel.Sel.Name))
					}
				}
				return true
			})
		}
	}
	return found
}

// exportedTypes yields what a declaration exports: names with signatures and types.
func exportedTypes(decl ast.Decl) iter.Seq2[string, ast.Expr] {
	return func(yield func(string, ast.Expr) bool) {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv.List[0].Type)) {
				yield(d.Name.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() && !yield(s.Name.Name, s.Type) {
						return
					}
				case *ast.ValueSpec:
					if s.Type != nil && s.Names[0].IsExported() && !yield(s.Names[0].Name, s.Type) {
						return
					}
				}
			}
		}
	}
}

func exportedReceiver(typ ast.Expr) bool {
	for {
		switch t := typ.(type) {
		case *ast.StarExpr:
			typ = t.X
		case *ast.IndexExpr:
			typ = t.X
		case *ast.IndexListExpr:
			typ = t.X
		case *ast.Ident:
			return t.IsExported()
		default:
			return false
		}
	}
}

// TestOwnTypesNotices shows what ownTypes finds and what it lets pass.
func TestOwnTypesNotices(t *testing.T) {
	for _, c := range []struct {
		code  string
		found int
	}{
		{"func Open(o engine.Options) {}", 1},
		{"func open(o engine.Options) {}", 0},
		{"type Saver struct{}\nfunc (s *Saver) Engine() *engine.Engine { return nil }", 1},
		{"type saver struct{}\nfunc (s *saver) Engine() *engine.Engine { return nil }", 0},
		{"type Options struct { Sim engine.Options }", 1},
		{"type Options struct { sim engine.Options }", 0},
		{"type Power interface { Do(t *index.Partition) }", 1},
		{"var Default engine.Options", 1},
		{"var ErrNoValue = engine.ErrNoValue", 0},
	} {
		code := "package p\nimport (\n\"" + module + "/engine\"\n\"" + module + "/index\"\n)\n" + c.code
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if found := ownTypes(file); len(found) != c.found {
			t.Errorf("%s: found %q, want %d", c.code, found, c.found)
		}
	}
}

// TestSurface bounds what the packages that people import show, and prints the numbers. The
// others say that they promise nothing.
func TestSurface(t *testing.T) {
	names, disclaims := map[string]int{}, map[string]bool{}
	sources(t, func(name string, text []byte) {
		dir := filepath.ToSlash(filepath.Dir(name))
		floor, _, _ := strings.Cut(dir, "/")
		if !strings.HasSuffix(name, ".go") || isTestFile(name) || strings.Contains(dir, "testdata") || slices.Contains([]string{"test", "examples", "bench", "cmd"}, floor) {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		if disclaims[dir] = disclaims[dir] || strings.Contains(strings.ReplaceAll(file.Doc.Text(), "\n", " "), disclaimer); private(dir) {
			return
		}
		names[dir] += len(exportedNames(file))
		for _, use := range ownTypes(file) {
			if who, _, _ := strings.Cut(use, " "); !slices.Contains(doors, dir+"."+who) {
				t.Errorf("%s: %s, which promises nothing", name, use)
			}
		}
	})
	for _, dir := range slices.Sorted(maps.Keys(names)) {
		t.Logf("%-20s %d exported names", dir, names[dir])
		if most, ok := mostNames[dir]; ok && names[dir] > most {
			t.Errorf("%s exports %d names, at most %d", dir, names[dir], most)
		}
	}
	for dir, says := range disclaims {
		if !strings.Contains(dir, "internal/") && says != matchesAny(inner, dir) {
			t.Errorf("%s: that it is %q is said: %v", dir, disclaimer, says)
		}
	}
	if len(names) == 0 {
		t.Error(fmt.Errorf("no packages: %w", fs.ErrNotExist))
	}
}
