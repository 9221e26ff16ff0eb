package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// dotted is a function, a method or a type in a text: pkg.Name, Type.method, pkg.Type.Method.
var dotted = regexp.MustCompile("`([A-Za-z]\\w*(?:\\.\\w+)+)`")

// declarations are the functions, methods and types of the module, as texts name them.
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
					if s, ok := spec.(*ast.TypeSpec); ok {
						add(s.Name.Name)
					}
				}
			}
		}
	})
	return names
}

// TestArchitectureIsTrue: what docs/architecture.md names is there. What one Put passes is
// counted by test/walk.
func TestArchitectureIsTrue(t *testing.T) {
	names, found := declarations(t), 0
	sources(t, func(name string, text []byte) {
		if name != "docs/architecture.md" {
			return
		}
		for _, m := range dotted.FindAllStringSubmatch(string(text), -1) {
			found++
			if !names[m[1]] {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	})
	if found < 15 {
		t.Errorf("found %d names", found)
	}
}
