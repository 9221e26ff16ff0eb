package arch

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const root = "../.."

// sources calls fn for every file of the repository that people write.
func sources(t *testing.T, fn func(name string, text []byte)) {
	t.Helper()
	skip := []string{".git", ".venv", "__pycache__", "bin", "node_modules"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skip, d.Name()):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular() || d.Name() == ".git":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		fn(filepath.ToSlash(name), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isTestFile(name string) bool { return strings.HasSuffix(name, "_test.go") }

func TestGoFiles(t *testing.T) {
	documented := map[string]bool{}
	sources(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") {
			return
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, bad := range slices.Concat(checkGoFile(fset, name, file), longComments(name, text), strayMethods(name, file)) {
			t.Error(bad)
		}
		if !isTestFile(name) {
			dir := filepath.Dir(name)
			documented[dir] = documented[dir] || file.Doc != nil
		}
	})
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package %s has no package comment", dir)
		}
	}
}

// checkGoFile returns the exported names without a comment, and the comments that begin with
// another name than that of their function, method or type.
func checkGoFile(fset *token.FileSet, name string, file *ast.File) []string {
	var bad []string
	for _, id := range misnamed(file) {
		bad = append(bad, fmt.Sprintf("%s: the comment of %s does not begin with its name", fset.Position(id.Pos()), id.Name))
	}
	if isTestFile(name) || file.Name.Name == "main" {
		return bad
	}
	for _, id := range undocumented(file) {
		bad = append(bad, fmt.Sprintf("%s: %s is exported and has no comment", fset.Position(id.Pos()), id.Name))
	}
	return bad
}

// longComments returns the lines of comments that are longer than a screen is wide.
func longComments(name string, text []byte) (bad []string) {
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "// ") && utf8.RuneCountInString(line) > 140 {
			bad = append(bad, fmt.Sprintf("%s:%d: a comment of more than 140 columns", name, i+1))
		}
	}
	return bad
}

// strayMethods returns the methods of a service of the server, a type whose name ends with API, that lie in a file
// that is not named for it.
func strayMethods(name string, file *ast.File) (bad []string) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv == nil || path.Dir(name) != "server" {
			continue
		}
		star, _ := f.Recv.List[0].Type.(*ast.StarExpr)
		if star == nil {
			continue
		}
		of, _ := star.X.(*ast.Ident)
		if of == nil {
			continue
		}
		if service, is := strings.CutSuffix(of.Name, "API"); is && !strings.HasPrefix(path.Base(name), service) {
			bad = append(bad, fmt.Sprintf("%s: %s.%s lies in no file of %s", name, of.Name, f.Name.Name, service))
		}
	}
	return bad
}

// testFunc is the name of a function that go test calls. Its comment may be a sentence that says
// what the test shows.
var testFunc = regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)([^a-z]|$)`)

// misnamed returns the functions, methods and types, exported or not, whose comment does not
// begin with their name.
func misnamed(file *ast.File) []*ast.Ident {
	var bad []*ast.Ident
	check := func(id *ast.Ident, doc *ast.CommentGroup) {
		text := doc.Text()
		if rest, ok := strings.CutPrefix(text, id.Name); text != "" && (!ok || wordRune.MatchString(rest)) {
			bad = append(bad, id)
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil || !testFunc.MatchString(d.Name.Name) {
				check(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok && d.Lparen.IsValid() {
					check(s.Name, s.Doc)
				} else if ok {
					check(s.Name, d.Doc)
				}
			}
		}
	}
	return bad
}

// wordRune matches a text that goes on with the name before it.
var wordRune = regexp.MustCompile(`^\w`)

// undocumented returns the exported names without a comment: functions, methods
// of exported types and of exported interfaces, types, constants and variables.
// A comment above a group counts for its constants and variables.
func undocumented(file *ast.File) []*ast.Ident {
	var bad []*ast.Ident
	check := func(id *ast.Ident, docs ...*ast.CommentGroup) {
		if id.IsExported() && !slices.ContainsFunc(docs, func(d *ast.CommentGroup) bool { return d != nil }) {
			bad = append(bad, id)
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) {
				check(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					doc := d.Doc
					if d.Lparen.IsValid() {
						doc = nil // the comment above a group of types names none of them
					}
					check(s.Name, s.Doc, doc)
					if it, ok := s.Type.(*ast.InterfaceType); ok && s.Name.IsExported() {
						for _, m := range it.Methods.List {
							for _, id := range m.Names {
								check(id, m.Doc, m.Comment)
							}
						}
					}
				case *ast.ValueSpec:
					for _, id := range s.Names {
						check(id, s.Doc, s.Comment, d.Doc)
					}
				}
			}
		}
	}
	return bad
}

// receiver is the name of the type that a method belongs to.
func receiver(f *ast.FuncDecl) string {
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

var (
	// promises are words for work that is not done.
	promises = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	// machinePath is an absolute path of somebody's machine.
	machinePath = regexp.MustCompile(`(^|[^\w.$}])/(work|root|tmp|home|Users|opt)/`)
)

func TestWords(t *testing.T) {
	sources(t, func(name string, text []byte) {
		if strings.HasSuffix(name, ".png") || strings.HasSuffix(name, ".woff2") {
			return // no text
		}
		recorded := strings.Contains(name, "/fixtures/")
		if strings.HasSuffix(name, ".gz") {
			text = unzip(t, name, text)
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			if m := machinePath.Find(line); m != nil {
				t.Errorf("%s:%d: path of a machine: %s", name, i+1, m)
			}
			if m := promises.Find(line); m != nil && !recorded {
				t.Errorf("%s:%d: %s", name, i+1, m)
			}
		}
	})
}

func unzip(t *testing.T, name string, b []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return text
}

// TestGoFilesNotices shows that the checks of a file bite.
func TestGoFilesNotices(t *testing.T) {
	for name, src := range map[string]string{
		"exported":   "func F() {}",
		"method":     "// T is a type.\ntype T struct{}\nfunc (*T) M() {}",
		"generic":    "// T is a type.\ntype T[K any] struct{}\nfunc (T[K]) M() {}",
		"type":       "type T struct{}",
		"grouped":    "// Types.\ntype (\n\tT struct{}\n)",
		"constant":   "const C = 1",
		"variable":   "var V = 1",
		"interface":  "// I is one.\ntype I interface{ M() }",
		"with error": "const (\n\tc = 1\n\tD = 2\n)",
		"function":   "// g does.\nfunc f() {}",
		"longer":     "// fs are.\nfunc f() {}",
		"renamed":    "type u struct{}\n\n// M does.\nfunc (u) m() {}",
		"article":    "// A u is one.\ntype u struct{}",
		"in a group": "type (\n\t// V is one.\n\tu struct{}\n)",
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x\n"+src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if len(checkGoFile(fset, "x.go", file)) != 1 {
			t.Errorf("%s: got %v, want one complaint", name, checkGoFile(fset, "x.go", file))
		}
	}
	fset := token.NewFileSet()
	good := "package x\n// F does.\nfunc F() {}\n// Kinds.\nconst (\n\tA = 1\n\tB = 2 // B is two.\n)\nfunc g() {}\n// u: one.\ntype u struct{}\nfunc (u) M() {}\n"
	file, err := parser.ParseFile(fset, "x.go", good, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if bad := checkGoFile(fset, "x.go", file); len(bad) > 0 {
		t.Errorf("complaints about a good file: %v", bad)
	}
}
