package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostNames are the packages whose exported top-level names are bounded, so that who reads
// go doc sees the whole.
var mostNames = map[string]int{"saver": 100, "store": 60, "cache": 20}

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
