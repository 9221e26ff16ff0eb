// Command cross type-checks packages and their tests for another system, from source: for $GOOS and $GOARCH.
// Nothing is compiled, which takes a tenth of the time. Its arguments are directories, or patterns of the go command;
// of what has no files for that system it says nothing.
package main

import (
	"errors"
	"fmt"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/packages"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cross:", err)
		os.Exit(1)
	}
}

func run(patterns []string) error {
	found, err := packages.Load(&packages.Config{
		// With NeedDeps and no export files, what is imported is read from source as well.
		Mode:  packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedModule,
		Tests: true,
		Fset:  token.NewFileSet(),
	}, patterns...)
	if err != nil {
		return err
	}
	checked, wrong := 0, map[string]bool{} // a package and its variant for tests have the same errors
	for _, p := range found {
		for _, e := range p.Errors {
			if !strings.Contains(e.Msg, "build constraints exclude all Go files") {
				wrong[e.Error()] = true
			}
		}
		if len(p.Syntax) > 0 {
			checked++
		}
	}
	if len(wrong) == 0 {
		graph, err := checker.Analyze([]*analysis.Analyzer{shift.Analyzer}, found, nil)
		if err != nil {
			return err
		}
		for _, act := range graph.Roots {
			for _, d := range act.Diagnostics {
				wrong[act.Package.Fset.Position(d.Pos).String()+": "+d.Message] = true
			}
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(slices.Sorted(maps.Keys(wrong)), "\n"))
	}
	fmt.Printf("%d packages and variants for tests\n", checked)
	return nil
}
