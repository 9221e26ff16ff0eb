package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chosen is the environment variable that names the mutant a woven program runs.
const chosen = "STELE_MUTANT"

// weave returns source files with all the mutants in them, by absolute names. One
// build serves them all: a changed function keeps its text and gets a twin with the
// text of the mutant, which it calls if [chosen] names that mutant. Nothing is
// written.
func weave(root string, mutants []*mutant) (map[string][]byte, error) {
	w := &weaver{root: root, dirs: map[string]*directory{}}
	for _, m := range mutants {
		if err := w.add(m); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
	}
	woven := map[string][]byte{}
	for dir, d := range w.dirs {
		woven[filepath.Join(root, filepath.FromSlash(dir), "mutant_switch.go")] = []byte(
			"package " + d.pkg + "\n\nimport \"os\"\n\nvar mutant_ = os.Getenv(\"" + chosen + "\")\n")
		for _, f := range d.files {
			if f.twins != "" {
				woven[f.name] = f.woven()
			}
		}
	}
	return woven, nil
}

type weaver struct {
	root string
	dirs map[string]*directory // by their names below root, with slashes
}

type directory struct {
	pkg       string
	files     []*goFile
	functions map[string][]*function // more than one where files are for different systems
}

// goFile is a file and what is woven into it.
type goFile struct {
	name    string
	text    string
	inserts map[int]string // by the offset they are put at
	twins   string
}

type function struct {
	file                 *goFile
	decl                 *ast.FuncDecl
	offset               func(token.Pos) int
	from, name, body, to int // offsets of the keyword, the name, the text after the brace, the end
}

func (w *weaver) add(m *mutant) error {
	texts := map[*function]string{} // a mutant may change one function in several places
	var order []*function
	for _, e := range m.edits {
		f, err := w.find(e.dir, e.fn)
		if err == nil {
			if _, ok := texts[f]; !ok {
				texts[f] = f.file.text[f.body:f.to]
				order = append(order, f)
			}
			texts[f], err = e.apply(texts[f])
		}
		if err != nil {
			return fmt.Errorf("in %s of %s: %w", e.fn, e.dir, err)
		}
	}
	for _, f := range order {
		if err := f.weave(m.name, texts[f]); err != nil {
			return fmt.Errorf("in %s: %w", funcName(f.decl), err)
		}
	}
	return nil
}

// apply makes the edit in the text of a function's body.
func (e *edit) apply(body string) (string, error) {
	at, n, count := locate(body, e.old)
	if count != 1 {
		return "", fmt.Errorf("the old text occurs %d times, not once, in the body:\n%s", count, e.old)
	}
	return body[:at] + strings.TrimSuffix(e.new, "\n") + body[at+n:], nil
}

// weave puts a twin with another body behind the last function of the file. The
// compiler reports what is wrong with it by the name of the mutant.
func (f *function) weave(mutant, body string) error {
	twin := "mutant_" + strings.ReplaceAll(mutant, "-", "_") + "_" + f.decl.Name.Name
	text := f.file.text[f.from:f.name] + twin + f.file.text[f.name+len(f.decl.Name.Name):f.body] + body
	if _, err := parser.ParseFile(token.NewFileSet(), mutant, "package p\n"+text, 0); err != nil {
		return fmt.Errorf("the changed function is no Go: %w", err)
	}
	f.file.inserts[f.body] += fmt.Sprintf(" if mutant_ == %q { %s };", mutant, f.call(twin))
	f.file.twins += fmt.Sprintf("\n//line %s:1\n%s\n", mutant, text)
	return nil
}

// call is the statement by which the function leaves everything to its twin.
func (f *function) call(twin string) string {
	if types := f.decl.Type.TypeParams; types != nil {
		twin += "[" + strings.Join(f.names(types), ", ") + "]"
	}
	if f.decl.Recv != nil {
		twin = f.names(f.decl.Recv)[0] + "." + twin
	}
	args := f.names(f.decl.Type.Params)
	if n := len(args); n > 0 {
		if _, ok := f.decl.Type.Params.List[len(f.decl.Type.Params.List)-1].Type.(*ast.Ellipsis); ok {
			args[n-1] += "..."
		}
	}
	call := twin + "(" + strings.Join(args, ", ") + ")"
	if f.decl.Type.Results == nil {
		return call + "; return"
	}
	return "return " + call
}

// names are those of parameters. One that has none gets one, to be passed on by.
func (f *function) names(params *ast.FieldList) []string {
	var names []string
	for _, field := range params.List {
		if len(field.Names) == 0 {
			name := fmt.Sprintf("blank%d_", len(names))
			f.file.inserts[f.offset(field.Pos())] = name + " "
			names = append(names, name)
		}
		for _, name := range field.Names {
			if name.Name == "_" {
				blank := fmt.Sprintf("blank%d", len(names))
				f.file.inserts[f.offset(name.Pos())] = blank
				names = append(names, blank+"_")
				continue
			}
			names = append(names, name.Name)
		}
	}
	return names
}

func (s *goFile) woven() []byte {
	var b strings.Builder
	last := 0
	for _, at := range slices.Sorted(maps.Keys(s.inserts)) {
		b.WriteString(s.text[last:at] + s.inserts[at])
		last = at
	}
	b.WriteString(s.text[last:] + s.twins)
	return []byte(b.String())
}

// find is the function of this name in a directory.
func (w *weaver) find(dir, name string) (*function, error) {
	d := w.dirs[dir]
	if d == nil {
		var err error
		if d, err = read(filepath.Join(w.root, filepath.FromSlash(dir))); err != nil {
			return nil, err
		}
		w.dirs[dir] = d
	}
	found := d.functions[name]
	if len(found) != 1 {
		return nil, fmt.Errorf("%d functions of this name", len(found))
	}
	return found[0], nil
}

// read parses the package in a directory, without its tests.
func read(dir string) (*directory, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	d := &directory{functions: map[string][]*function{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		file := &goFile{name: name, text: string(text), inserts: map[int]string{}}
		d.pkg, d.files = parsed.Name.Name, append(d.files, file)
		offset := func(p token.Pos) int { return fset.PositionFor(p, false).Offset }
		for _, decl := range parsed.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				d.functions[funcName(f)] = append(d.functions[funcName(f)], &function{file: file, decl: f, offset: offset,
					from: offset(f.Pos()), name: offset(f.Name.Pos()), body: offset(f.Body.Lbrace) + 1, to: offset(f.End())})
			}
		}
	}
	return d, nil
}

// funcName is the name of a function, with the type in front of a method's.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	t := f.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// locate finds old in text, white space at the beginning of lines aside, and
// counts how often it occurs.
func locate(text, old string) (at, n, count int) {
	plain, offsets := unindented(text)
	want, _ := unindented(strings.Trim(old, "\n"))
	count = strings.Count(plain, want)
	if count == 0 || want == "" {
		return 0, 0, 0
	}
	i := strings.Index(plain, want)
	return offsets[i], offsets[i+len(want)-1] + 1 - offsets[i], count
}

// unindented is text without white space at the beginning of lines, and where
// each of its bytes came from.
func unindented(text string) (string, []int) {
	var b strings.Builder
	var offsets []int
	begin := true
	for i := range len(text) {
		c := text[i]
		if begin && (c == ' ' || c == '\t') {
			continue
		}
		begin = c == '\n'
		b.WriteByte(c)
		offsets = append(offsets, i)
	}
	return b.String(), offsets
}
