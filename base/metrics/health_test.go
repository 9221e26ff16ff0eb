package metrics

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each kind of problem that is declared is one of Troubles.
func TestTroublesAreAll(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "health.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Trouble") {
			return true
		}
		declared++
		kind, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil || !slices.Contains(Troubles(), Trouble(kind)) {
			t.Errorf("%s is none of Troubles", spec.Names[0])
		}
		return true
	})
	if declared < 10 || declared != len(Troubles()) {
		t.Errorf("%d kinds are declared, and Troubles has %d", declared, len(Troubles()))
	}
}
