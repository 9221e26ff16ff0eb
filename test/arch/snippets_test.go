package arch

import (
	"bytes"
	"errors"
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
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// snippet is a block of Go in a page. It is a whole file, or declarations, or
// statements, which are taken for the body of a function that has a ctx and returns an
// error. What it leaves to the reader's mind is declared in a comment of the page that
// readers do not see, right before the block:
//
//	<!-- go: declarations -->
type snippet struct {
	page   string
	line   int
	given  string // declarations
	text   string
	broken bool // the block has no end
}

var (
	snippetStart = regexp.MustCompile("^\\s*```+\\s*(?:go|golang)\\b")
	fence        = regexp.MustCompile("^\\s*```+")
	given        = regexp.MustCompile(`(?s)^(.*?)-->\s*$`)
)

// snippets are the blocks of a page that say they are Go.
func snippets(page, text string) (found []snippet) {
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		if !fence.MatchString(lines[i]) {
			continue
		}
		start, isGo := i, snippetStart.MatchString(lines[i])
		for i++; i < len(lines) && !fence.MatchString(lines[i]); i++ {
		}
		if !isGo {
			continue
		}
		s := snippet{page: page, line: start + 2, text: strings.Join(lines[start+1:min(i, len(lines))], ""), broken: i >= len(lines)}
		before := strings.Split(strings.Join(lines[:start], ""), "<!-- go:")
		if m := given.FindStringSubmatch(before[len(before)-1]); m != nil && len(before) > 1 {
			s.given = m[1]
		}
		found = append(found, s)
	}
	return found
}

// file is the snippet as a file of Go. Line numbers in errors are those of the page.
func (s snippet) file(imports []string) string {
	at := fmt.Sprintf("//line %s:%d\n", s.page, s.line)
	if _, err := parser.ParseFile(token.NewFileSet(), "", s.text, parser.PackageClauseOnly); err == nil {
		return at + s.text
	}
	head := "package snippet\n"
	for _, imp := range imports {
		head += fmt.Sprintf("import %q\n", imp)
	}
	head += s.given + "\n"
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package snippet\n"+s.text, 0); err == nil {
		return head + at + s.text
	}
	return head + "func _(ctx context.Context) error {\n" + at + s.text + "\npanic(ctx)\n}\n"
}

// compiler checks the types of snippets. Packages come from the build cache.
type compiler struct {
	paths    map[string]string // the import path of a package's name
	importer types.Importer
	fset     *token.FileSet
}

// snippetStd are packages of the standard library that a snippet uses without saying so.
var snippetStd = []string{"context", "errors", "fmt", "log", "log/slog", "net/http", "os", "slices", "testing", "time"}

// newCompiler lists the packages that snippets may use: those that programs import, and
// a few of the standard library.
func newCompiler(t *testing.T) *compiler {
	t.Helper()
	paths, exports := map[string]string{}, map[string]string{}
	roots := append([]string{module + "/..."}, snippetStd...)
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.Name}} {{.ImportPath}} {{.Export}}"}, roots...)...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		name, imp := f[0], f[1]
		exports[imp] = f[2]
		own, ok := strings.CutPrefix(imp, module+"/")
		public := ok && !private(own) && !strings.HasPrefix(own, "test/") && !strings.HasPrefix(own, "bench/") && own != "wire/client" && own != "wire/server"
		if name != "main" && (public && path.Base(imp) == name || slices.Contains(snippetStd, imp)) {
			paths[name] = imp
		}
	}
	fset := token.NewFileSet()
	lookup := func(imp string) (io.ReadCloser, error) {
		file := exports[imp]
		if file == "" {
			return nil, fmt.Errorf("no package %s", imp)
		}
		return os.Open(file)
	}
	return &compiler{paths, importer.ForCompiler(fset, "gc", lookup), fset}
}

// check compiles a snippet. A variable or an import that is not used is no error of a
// part of a program.
func (c *compiler) check(s snippet) error {
	if s.broken {
		return fmt.Errorf("%s:%d: the block has no end", s.page, s.line)
	}
	text := s.file(nil)
	whole := strings.HasPrefix(text, "//line")
	file, err := parser.ParseFile(c.fset, "", text, 0)
	if err != nil {
		return err
	}
	if !whole {
		if file, err = parser.ParseFile(c.fset, "", s.file(c.imports(file)), parser.SkipObjectResolution); err != nil {
			return err
		}
	}
	var all []error
	config := types.Config{Importer: c.importer, Error: func(err error) {
		if e := (types.Error{}); whole || !errors.As(err, &e) || !e.Soft {
			all = append(all, err)
		}
	}}
	if _, err := config.Check("snippet", c.fset, []*ast.File{file}, nil); err != nil && len(all) == 0 && whole {
		return err
	}
	return errors.Join(all...)
}

// imports are the packages whose names a file uses and does not declare.
func (c *compiler) imports(file *ast.File) []string {
	used := map[string]bool{}
	for _, id := range file.Unresolved {
		if imp := c.paths[id.Name]; imp != "" {
			used[imp] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// TestSnippetsCompile checks the types of every block of Go in every page.
func TestSnippetsCompile(t *testing.T) {
	c, n := newCompiler(t), 0
	sources(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		for _, s := range snippets(name, string(text)) {
			n++
			if err := c.check(s); err != nil {
				t.Error(err)
			}
		}
	})
	if t.Logf("%d snippets", n); n < 4 {
		t.Errorf("found %d snippets", n)
	}
}

// TestSnippetsNotice shows what the check of a snippet accepts, and what it refuses and where.
func TestSnippetsNotice(t *testing.T) {
	c := newCompiler(t)
	for _, tc := range []struct{ name, page, want string }{
		{"statements", "A\n\n```go\ns, err := disk.Open(\"d\", disk.Options{})\nif err != nil {\n\treturn err\n}\n```\n", ""},
		{"declarations", "```go\nfunc f(ctx context.Context) error { return saver.ErrNotFound }\n```\n", ""},
		{"a whole file", "```go\npackage main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }\n```\n", ""},
		{"what is given", "<!-- go: var s saver.Saver -->\n```go\nreturn s.Put(ctx, saver.Config{}, saver.Checkpoint{}, nil)\n```\n", "p.md:3"},
		{"other languages", "```text\nnot Go\n```\n", ""},
		{"an unknown name", "one\ntwo\n```go\nx := 1\ny = 2\n```\n", "p.md:5"},
		{"an unknown package", "```go\nnowhere.Call()\n```\n", "p.md:2"},
		{"a field that is gone", "```go\n_ = disk.Options{Gone: 1}\n```\n", "p.md:2"},
		{"a syntax error", "```go\nif {\n```\n", "p.md:2"},
		{"an unused import of a program", "```go\npackage main\n\nimport \"fmt\"\n\nfunc main() {}\n```\n", "p.md:4"},
		{"no end", "```go\nx := 1\n", "p.md:2"},
	} {
		var err error
		for _, s := range snippets("p.md", tc.page) {
			err = errors.Join(err, c.check(s))
		}
		if got := fmt.Sprint(err); tc.want == "" && err != nil || tc.want != "" && !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %v, want an error at %q", tc.name, err, tc.want)
		}
	}
}
