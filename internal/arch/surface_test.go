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
var mostNames = map[string]int{"saver": 100, "saver/disk": 20, "store": 60, "cache": 20}

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

// aliasOfInternal is the exported alias of a type of an internal package, if a file has
// one: go doc shows no fields or methods of it.
func aliasOfInternal(file *ast.File) (found []string) {
	internal := map[string]bool{}
	for _, imp := range file.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		if strings.HasPrefix(path, module+"/") && strings.Contains(path, "/internal/") {
			internal[filepath.Base(path)] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || !spec.Assign.IsValid() || !spec.Name.IsExported() {
			return true
		}
		if sel, ok := spec.Type.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok && internal[pkg.Name] {
				found = append(found, spec.Name.Name)
			}
		}
		return true
	})
	return found
}

// kernel are the packages whose exported names serve this module alone, as their docs say.
var kernel = []string{"wal", "segment", "index", "snapshot"}

// ownTypes are the types of internal and kernel packages that a file's exported
// declarations mention. Nobody outside this module can name those, so nobody could call or
// implement what mentions them. Bodies of functions and unexported fields do not count.
func ownTypes(file *ast.File) (found []string) {
	own := map[string]bool{}
	for _, imp := range file.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		pkg, inModule := strings.CutPrefix(path, module+"/")
		if !inModule || !strings.Contains("/"+pkg, "/internal/") && !slices.Contains(kernel, pkg) {
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
		code := "package p\nimport (\n\"" + module + "/internal/engine\"\n\"" + module + "/index\"\n)\n" + c.code
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if found := ownTypes(file); len(found) != c.found {
			t.Errorf("%s: found %q, want %d", c.code, found, c.found)
		}
	}
}

// TestSurface bounds what the packages that people import show, and prints the numbers.
func TestSurface(t *testing.T) {
	names := map[string]int{}
	sources(t, func(name string, text []byte) {
		dir := filepath.ToSlash(filepath.Dir(name))
		if !strings.HasSuffix(name, ".go") || isTestFile(name) || strings.Contains(dir, "internal/") || strings.Contains(dir, "testdata") ||
			strings.HasPrefix(dir, "test/") || strings.HasPrefix(dir, "examples/") || strings.HasPrefix(dir, "bench") || strings.HasPrefix(dir, "cmd/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		names[dir] += len(exportedNames(file))
		for _, alias := range aliasOfInternal(file) {
			t.Errorf("%s: %s is an alias of an internal type", name, alias)
		}
		if slices.Contains(kernel, dir) {
			return
		}
		for _, use := range ownTypes(file) {
			t.Errorf("%s: %s, which nobody outside this module can use", name, use)
		}
	})
	for _, dir := range slices.Sorted(maps.Keys(names)) {
		t.Logf("%-20s %d exported names", dir, names[dir])
		if most, ok := mostNames[dir]; ok && names[dir] > most {
			t.Errorf("%s exports %d names, at most %d", dir, names[dir], most)
		}
	}
	if len(names) == 0 {
		t.Error(fmt.Errorf("no packages: %w", fs.ErrNotExist))
	}
}
