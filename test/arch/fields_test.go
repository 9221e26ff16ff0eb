package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// askedFor are the structs with which a caller says what is wanted.
var askedFor = regexp.MustCompile(`(Options|Config|Request|Query|Policy|Spec|Op|Update|Simulation)$`)

// unread are fields that nothing here reads, with the reason.
var unread = map[string]string{
	"pregel.askedBelow.found":         "a test counts work by it",
	"pregel.position.scanned":         "a test counts work by it",
	"runs/runstest.Options.Clock":     "who makes the queue reads it",
	"runs/runstest.Options.LeaseTime": "who makes the queue reads it",
	"snapshot.table.family":           "a test writes with it what older stores have",
	"segment.encoderKind.level":       "the key of a sync.Map",
	"segment.encoderKind.window":      "the key of a sync.Map",
}

// TestFieldsAreRead: whoever sets a field of a struct that says what is wanted has a say: code that
// is no test reads it, other than to check it or to pass it to a field of the same struct. So it is with what such
// a field is handed on to: a field that is not exported is read as well.
func TestFieldsAreRead(t *testing.T) {
	fields, read := fieldsOf(t, module+"/...")
	seen := 0
	for _, f := range slices.Sorted(maps.Keys(fields)) {
		seen++
		if reason := unread[f]; (reason == "") == read[f] {
			continue
		}
		if read[f] {
			t.Errorf("%s is read; it is no exception", f)
		} else {
			t.Errorf("%s: %s is read by nothing; who sets it is not heard", fields[f], f)
		}
	}
	for f := range unread {
		if fields[f] == "" {
			t.Errorf("there is no field %s", f)
		}
	}
	if seen < 1000 {
		t.Errorf("%d fields were looked for", seen)
	}
}

// fieldsOf are the fields of packages that must be read, with where they are declared, and those that are read.
func fieldsOf(t *testing.T, patterns ...string) (fields map[string]string, read map[string]bool) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}"}, patterns...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	exports, own := map[string]string{}, map[string][]string{}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		exports[f[0]] = f[1]
		if !strings.HasPrefix(f[0], module) {
			continue
		}
		for _, name := range strings.Fields(f[3]) {
			own[f[0]] = append(own[f[0]], filepath.Join(f[2], name))
		}
	}
	fset := token.NewFileSet()
	imp := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("no package %s", path)
		}
		return os.Open(exports[path])
	})
	fields, read = map[string]string{}, map[string]bool{}
	for path, names := range own {
		var files []*ast.File
		for _, name := range names {
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		checked, info := typed(t, fset, path, files, imp)
		if local := strings.TrimPrefix(path, module+"/"); !strings.HasPrefix(local, "test/") && filepath.Base(local) != "bench" {
			mustBeRead(fset, checked, fields)
		}
		readIn(fset, files, info, fields, read)
	}
	return fields, read
}

// typed checks the types of a package.
func typed(t *testing.T, fset *token.FileSet, path string, files []*ast.File, imp types.Importer) (*types.Package, *types.Info) {
	t.Helper()
	info := &types.Info{Instances: map[*ast.Ident]types.Instance{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
	checked, err := (&types.Config{Importer: imp}).Check(path, fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	return checked, info
}

// mustBeRead adds the fields of a package that must be read: those that are not exported, and all
// exported ones of structs that say what is wanted. One with a tag is read by a decoder.
func mustBeRead(fset *token.FileSet, p *types.Package, fields map[string]string) {
	for _, name := range p.Scope().Names() {
		n, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || n.IsAlias() {
			continue
		}
		s, ok := n.Type().Underlying().(*types.Struct)
		if !ok {
			continue
		}
		for i := range s.NumFields() {
			f := s.Field(i)
			if f.Pkg() != p || f.Pos() < n.Pos() { // of a struct that has another name as well
				continue
			}
			if f.Name() == "_" || f.Embedded() || s.Tag(i) != "" || f.Exported() && !askedFor.MatchString(name) {
				continue
			}
			at := fset.Position(f.Pos())
			fields[fieldName(n.Type(), f)] = fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)
		}
	}
}

// fieldName names a field of a struct with its package. Those of instances are the same.
func fieldName(of types.Type, f *types.Var) string {
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem()
	}
	n, ok := types.Unalias(of).(*types.Named)
	if !ok {
		return ""
	}
	path := strings.TrimPrefix(strings.TrimPrefix(n.Obj().Pkg().Path(), module), "/")
	return path + "." + n.Obj().Name() + "." + f.Name()
}

var checks = regexp.MustCompile(`^(check|validate|invalid|valid)`)

// keysIn adds the fields of structs that are compared as a whole: with another, or as the key of a map.
func keysIn(info *types.Info, read map[string]bool) {
	var all func(t types.Type)
	all = func(t types.Type) {
		if s, ok := t.Underlying().(*types.Struct); ok {
			for i := range s.NumFields() {
				read[fieldName(t, s.Field(i))] = true
				all(s.Field(i).Type())
			}
		}
	}
	for e, tv := range info.Types {
		if m, ok := tv.Type.(*types.Map); ok {
			all(m.Key())
		}
		if b, ok := e.(*ast.BinaryExpr); ok && (b.Op == token.EQL || b.Op == token.NEQ) {
			all(info.Types[b.X].Type)
		}
	}
	for id, inst := range info.Instances {
		generic, ok := info.Uses[id].Type().(interface{ TypeParams() *types.TypeParamList })
		for i := range inst.TypeArgs.Len() {
			if ok && generic.TypeParams().At(i).Constraint().Underlying().(*types.Interface).IsComparable() {
				all(inst.TypeArgs.At(i))
			}
		}
	}
}

// readIn adds the fields that a package reads. What is assigned to is not read, nor what a struct's own check looks
// at, nor what is copied into the same field, nor where the value of a flag of a command goes. It adds the
// variables that flags have to the fields.
func readIn(fset *token.FileSet, files []*ast.File, info *types.Info, fields map[string]string, read map[string]bool) {
	keysIn(info, read)
	flags, uses := map[types.Object]bool{}, map[types.Object]int{}
	written := map[ast.Expr]bool{}
	var into []string // the field that gets the value
	checking := ""    // the struct whose method checks it
	var visit func(n ast.Node) bool
	mark := func(e *ast.SelectorExpr) {
		sel := info.Selections[e]
		if sel == nil {
			return
		}
		t := sel.Recv()
		for step, i := range sel.Index() {
			if p, ok := t.Underlying().(*types.Pointer); ok {
				t = p.Elem()
			}
			s, ok := t.Underlying().(*types.Struct)
			if !ok || step == len(sel.Index())-1 && sel.Kind() != types.FieldVal {
				return // a method
			}
			name := fieldName(t, s.Field(i))
			if last := step == len(sel.Index())-1; !last || !written[e] && !slices.Contains(into, name) && (checking == "" || !strings.HasPrefix(name, checking)) {
				read[name] = true
			}
			t = s.Field(i).Type()
		}
	}
	nameOf := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok && info.Selections[s] != nil {
			if v, ok := info.Selections[s].Obj().(*types.Var); ok && len(info.Selections[s].Index()) == 1 {
				return fieldName(info.Selections[s].Recv(), v)
			}
		}
		return ""
	}
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			checking = ""
			if n.Recv != nil && checks.MatchString(n.Name.Name) {
				checking = fieldName(info.Types[n.Recv.List[0].Type].Type, types.NewVar(0, nil, "", nil))
			}
			if !askedFor.MatchString(strings.TrimSuffix(checking, ".")) {
				checking = ""
			}
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				written[l] = true
				ast.Inspect(l, visit)
				if len(n.Rhs) == len(n.Lhs) {
					into = append(into, nameOf(l))
					ast.Inspect(n.Rhs[i], visit)
					into = into[:len(into)-1]
				}
			}
			if len(n.Rhs) != len(n.Lhs) {
				ast.Inspect(n.Rhs[0], visit)
			}
			return false
		case *ast.IncDecStmt:
			written[n.X] = true
		case *ast.CompositeLit:
			s, ok := types.Type(nil), false
			if tv := info.Types[n]; tv.Type != nil {
				s = tv.Type
				if p, isPointer := s.(*types.Pointer); isPointer {
					s = p.Elem()
				}
				_, ok = s.Underlying().(*types.Struct)
			}
			for _, e := range n.Elts {
				kv, keyed := e.(*ast.KeyValueExpr)
				if !keyed || !ok {
					ast.Inspect(e, visit)
					continue
				}
				name := ""
				if id, isIdent := kv.Key.(*ast.Ident); isIdent {
					if v, isVar := info.Uses[id].(*types.Var); isVar {
						name = fieldName(s, v)
					}
				}
				into = append(into, name)
				ast.Inspect(kv.Value, visit)
				into = into[:len(into)-1]
			}
			return false
		case *ast.SelectorExpr:
			mark(n)
		case *ast.CallExpr:
			set, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) < 2 || info.Types[set.X].Type == nil || !strings.HasSuffix(info.Types[set.X].Type.String(), "FlagSet") {
				break
			}
			if to, ok := n.Args[0].(*ast.UnaryExpr); ok {
				written[to.X] = true
				if id, ok := to.X.(*ast.Ident); ok {
					flags[info.Uses[id]] = true
				}
			}
		case *ast.Ident:
			uses[info.Uses[n]]++
		}
		return true
	}
	for _, f := range files {
		ast.Inspect(f, visit)
	}
	for v := range flags {
		at := fset.Position(v.Pos())
		name := fmt.Sprintf("the flag variable %s of line %d", v.Name(), at.Line)
		fields[name], read[name] = filepath.Base(at.Filename), uses[v] > 1
	}
}

// TestFieldsNotices shows what counts as read.
func TestFieldsNotices(t *testing.T) {
	const text = `package p
type Options struct{ Read, Written, Checked, Copied, Counted, Handed, Key, Flag int }
func (o *Options) check() bool { return o.Checked < 0 }
func (o *Options) withDefaults() Options { o.Written = 1; o.Counted++; return Options{Copied: o.Copied, Read: 1} }
type inner struct { handed, lost int }
func open(o *Options) inner { return inner{handed: o.Read, lost: o.Handed} }
func (i inner) use() int { return i.handed }
type FlagSet struct{}
func (FlagSet) IntVar(v *int, name string) {}
func flags(p FlagSet) { var heard, unheard int; p.IntVar(&heard, "a"); p.IntVar(&unheard, "b"); var o Options; p.IntVar(&o.Flag, "c"); open(&o); _ = heard }
type key struct{ a int }
var keys map[key]bool
`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	fields, read := map[string]string{}, map[string]bool{}
	checked, info := typed(t, fset, module+"/p", []*ast.File{file}, importer.Default())
	mustBeRead(fset, checked, fields)
	readIn(fset, []*ast.File{file}, info, fields, read)
	maps.DeleteFunc(fields, func(name, _ string) bool { return read[name] })
	want := []string{"p.Options.Checked", "p.Options.Copied", "p.Options.Counted", "p.Options.Flag", "p.Options.Key", "p.Options.Written", "p.inner.lost", "the flag variable unheard of line 10"}
	if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
		t.Errorf("unread: %v, want %v", got, want)
	}
}
