package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// forPrograms are the packages that a program imports.
var forPrograms = []string{
	"base/fault", "base/metrics", "saver", "saver/disk", "saver/memory", "saver/serde", "saver/admin", "store", "store/cache", "runs",
	"pregel", "pregel/graph", "pregel/channel", "message", "message/pregeljson", "agent", "agent/model", "agent/tool",
	"agent/providers/anthropic", "agent/providers/openai", "agent/providers/genai", "agent/providers/mcp",
	"server", "server/client", "server/client/remote", "server/studio", "postgres", "postgres/pgstore", "postgres/pgqueue", "wire/client",
	"ops/otel", "ops/prometheus", "ops/transfer", "ops/transfer/sqlite",
}

// panics are methods that panic on a zero value, with the reason.
var panics = map[string]string{"store.Batched": "a function, which is called"}

// TestZeroValues: what package fault says about zero values and nil. A program calls, with zero arguments, each function
// that makes something and returns an error, and on its zero value each method of a type that is used as a
// literal, if it takes no function and no interface. None dereferences nil.
func TestZeroValues(t *testing.T) {
	c := newCompiler(t)
	imports, calls, methods := map[string]string{}, map[string]string{}, map[string]string{}
	for _, pkg := range forPrograms {
		p, err := c.importer.Import(module + "/" + pkg)
		if err != nil {
			t.Fatal(err)
		}
		ready := sayTheirZero(t, pkg)
		alias := strings.ReplaceAll(pkg, "/", "_")
		for _, name := range p.Scope().Names() {
			var on map[string]string
			var params *types.TypeParamList
			format := "%s.%s%s"
			switch o := p.Scope().Lookup(name).(type) {
			case *types.Func:
				if sig := o.Signature(); makes(o.Name(), sig) {
					on, params = calls, sig.TypeParams()
				}
			case *types.TypeName:
				if n, ok := o.Type().(*types.Named); ok && !types.IsInterface(n) && (ready[name] || !opaque(n)) && panics[pkg+"."+name] == "" {
					on, params, format = methods, n.TypeParams(), "new(%s.%s%s)"
				}
			}
			if on == nil || !token.IsExported(name) {
				continue
			}
			args, ok := instance(params)
			if !ok {
				t.Errorf("%s.%s: no type is known for its parameters", pkg, name)
			}
			imports[alias], on[pkg+"."+name] = p.Path(), fmt.Sprintf(format, alias, name, args)
		}
	}
	for of, value := range map[string]string{ // made of nil, without an error
		"saver.Intercept(nil)": "saver.Intercept(nil, nil)", "remote.New(nil)": `server_client_remote.New(nil, "")`, "a zero server.Server": "new(server.Server)",
	} {
		methods[of] = value
	}
	list := func(m map[string]string, format string) string {
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, format, k, m[k])
		}
		return b.String()
	}
	program, err := os.ReadFile(filepath.Join("testdata", "zero.go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("\t// IMPORTS\n", list(imports, "\t%s %q\n"), "\t// FUNCTIONS\n", list(calls, "\t%q: %s,\n"), "\t// VALUES\n", list(methods, "\t%q: %s,\n")).Replace(string(program))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "zero"), filepath.Join(dir, "main.go"))
	build.Dir = filepath.Join(root, "test")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(filepath.Join(dir, "zero"))
	run.Dir = dir
	var out, stderr bytes.Buffer
	run.Stdout, run.Stderr = &out, &stderr
	if err := run.Run(); err != nil || out.Len() > 0 {
		t.Errorf("%v\n%s%s", err, &out, &stderr)
	}
	if len(calls) < 40 || len(methods) < 300 {
		t.Errorf("%d functions and %d types were looked at", len(calls), len(methods))
	}
}

// makes reports whether a function makes something, or a schema, and returns an error.
func makes(name string, sig *types.Signature) bool {
	results := sig.Results()
	if results.Len() == 0 || results.At(results.Len()-1).Type().String() != "error" {
		return false
	}
	if results.Len() == 1 {
		return strings.HasPrefix(name, "Setup")
	}
	of := results.At(0).Type()
	if p, ok := of.(*types.Pointer); ok {
		n, ok := p.Elem().(*types.Named)
		return ok && opaque(n)
	}
	return types.IsInterface(of) && of.String() != "any"
}

// opaque reports whether a program cannot write a value of a type.
func opaque(n *types.Named) bool {
	s, ok := n.Underlying().(*types.Struct)
	for i := 0; ok && i < s.NumFields(); i++ {
		if !s.Field(i).Exported() {
			return true
		}
	}
	return false
}

// instance are arguments for the type parameters of something.
func instance(params *types.TypeParamList) (string, bool) {
	var names []string
	for i := range params.Len() {
		for _, a := range []types.Type{types.Typ[types.String], types.NewStruct(nil, nil)} {
			if types.Satisfies(a, params.At(i).Constraint().Underlying().(*types.Interface)) {
				names = append(names, a.String())
				break
			}
		}
	}
	if len(names) == 0 {
		return "", params.Len() == 0
	}
	return "[" + strings.Join(names, ", ") + "]", len(names) == params.Len()
}

// sayTheirZero are the types of a package whose comment says what their zero value is.
func sayTheirZero(t *testing.T, pkg string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pkg), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	say := map[string]bool{}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && strings.Contains(strings.Join(strings.Fields(g.Doc.Text()), " "), "The zero value") {
				for _, s := range g.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						say[s.Name.Name] = true
					}
				}
			}
		}
	}
	return say
}
