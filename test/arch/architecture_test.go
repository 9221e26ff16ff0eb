package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dotted is a function, a method or a type in a text: pkg.Name, Type.method, pkg.Type.Method.
var dotted = regexp.MustCompile("`([A-Za-z]\\w*(?:\\.\\w+)+)`")

// declarations are the functions, methods, types, fields, constants and variables of the
// module, as texts name them.
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	sources(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || isTestFile(name) || strings.Contains(name, "testdata/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		add := func(name string) { names[name], names[file.Name.Name+"."+name] = true, true }
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					add(d.Name.Name)
				} else {
					add(receiver(d) + "." + d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.ValueSpec:
						for _, id := range s.Names {
							add(id.Name)
						}
					case *ast.TypeSpec:
						add(s.Name.Name)
						for _, member := range members(s.Type) {
							add(s.Name.Name + "." + member)
						}
					}
				}
			}
		}
	})
	return names
}

// members are the fields of a struct, or the methods of an interface.
func members(expr ast.Expr) (names []string) {
	var list *ast.FieldList
	switch e := expr.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, id := range field.Names {
			names = append(names, id.Name)
		}
	}
	return names
}

// TestPagesNameWhatIsDeclared: a function, method, type, field or constant that a page names
// is there. The changelog and decisions also name what was. Pages for users name what is
// exported, and files; docs/architecture.md also names what is not.
func TestPagesNameWhatIsDeclared(t *testing.T) {
	names, found := declarations(t), 0
	sources(t, func(name string, text []byte) {
		if filepath.Ext(name) != ".md" || !strings.HasPrefix(name, "docs/") && name != "README.md" || strings.HasPrefix(name, "docs/adr/") {
			return
		}
		for _, m := range dotted.FindAllStringSubmatch(string(text), -1) {
			if last := m[1][strings.LastIndexByte(m[1], '.')+1:]; !ast.IsExported(last) && name != "docs/architecture.md" {
				continue // the name of a file
			}
			if found++; !names[m[1]] {
				t.Errorf("%s names %s, which is not declared", name, m[1])
			}
		}
	})
	if found < 50 {
		t.Errorf("found %d names", found)
	}
}
