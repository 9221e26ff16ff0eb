package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// owners are the objects that pregel's loop coordinates, by the names of its fields. Their methods alone
// change their fields.
var owners = map[string]bool{"pos": true, "saves": true, "view": true, "pool": true}

// TestObjectsOwnTheirFields: nothing in package pregel assigns to a field of one of these objects through
// the loop, as in l.pos.step++, whatever lies between.
func TestObjectsOwnTheirFields(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "pregel/loop.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, loop, _ := strings.Cut(string(text), "\ntype loop struct {")
	loop, _, _ = strings.Cut(loop, "\n}")
	var found []string
	fset := token.NewFileSet()
	check := func(text any, name string) {
		f, err := parser.ParseFile(fset, name, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			var targets []ast.Expr
			switch n := n.(type) {
			case *ast.AssignStmt:
				targets = n.Lhs
			case *ast.IncDecStmt:
				targets = []ast.Expr{n.X}
			}
			for _, e := range targets {
				if through(e) {
					found = append(found, fset.Position(e.Pos()).String())
				}
			}
			return true
		})
	}
	err = filepath.WalkDir(filepath.Join(root, "pregel"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != filepath.Join(root, "pregel") {
			return fs.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			check(nil, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range found {
		t.Errorf("%s: a field of another object is assigned to; make it a method of that object", at)
	}
	for name := range owners {
		if !strings.Contains(loop, "\n\t"+name+" ") {
			t.Errorf("the loop has no field %s", name)
		}
	}
	found = nil
	check("package p\nfunc f() { l.pos.step++; s.l.view.held[1], x = 1, 2; l.pos = position{}; p.pos.x = 1 }", "sample.go")
	if len(found) != 3 {
		t.Errorf("found %q in the sample", found)
	}
}

// through reports whether an expression leads through an owner to something in it.
func through(e ast.Expr) bool {
	inside := false
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			if inside && owners[x.Sel.Name] {
				return true
			}
			inside, e = true, x.X
		case *ast.IndexExpr:
			inside, e = true, x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return false
		}
	}
}
