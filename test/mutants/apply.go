package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// apply returns the files that the mutant changes, by their absolute names, with
// the new contents. Nothing is written.
func (m *mutant) apply(root string) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, e := range m.edits {
		if err := e.apply(root, changed); err != nil {
			return nil, fmt.Errorf("%s: in %s of %s: %w", m.name, e.fn, e.dir, err)
		}
	}
	return changed, nil
}

func (e *edit) apply(root string, changed map[string][]byte) error {
	name, text, from, to, err := e.find(root, changed)
	if err != nil {
		return err
	}
	body := string(text[from:to])
	at, n, count := locate(body, e.old)
	if count != 1 {
		return fmt.Errorf("the old text occurs %d times, not once:\n%s", count, e.old)
	}
	mutated := string(text[:from]) + body[:at] + strings.TrimSuffix(e.new, "\n") + body[at+n:] + string(text[to:])
	if _, err := parser.ParseFile(token.NewFileSet(), name, mutated, 0); err != nil {
		return fmt.Errorf("the changed file is no Go: %w", err)
	}
	changed[name] = []byte(mutated)
	return nil
}

// find is the file that declares the function, and where in it.
func (e *edit) find(root string, changed map[string][]byte) (name string, text []byte, from, to int, err error) {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(e.dir), "*.go"))
	if err != nil {
		return "", nil, 0, 0, err
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		b, ok := changed[file]
		if !ok {
			if b, err = os.ReadFile(file); err != nil {
				return "", nil, 0, 0, err
			}
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, b, parser.SkipObjectResolution)
		if err != nil {
			return "", nil, 0, 0, err
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && funcName(f) == e.fn {
				found++
				name, text = file, b
				from, to = fset.Position(f.Pos()).Offset, fset.Position(f.End()).Offset
			}
		}
	}
	if found != 1 {
		return "", nil, 0, 0, fmt.Errorf("%d functions of this name", found)
	}
	return name, text, from, to, nil
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
