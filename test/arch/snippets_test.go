package arch

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// snippet is a block of Go in a page. One that begins with a package clause is a file of its own. All others
// of a page are one file: the first block has the imports, and a later one may use what an earlier one
// declares. So a reader sees all that a snippet needs.
type snippet struct {
	line   int
	text   string
	broken bool // the block has no end
}

var (
	snippetStart = regexp.MustCompile("^\\s*```+\\s*(?:go|golang)\\b")
	fence        = regexp.MustCompile("^\\s*```+")
)

// snippets are the blocks of a page that say they are Go.
func snippets(text string) (found []snippet) {
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		if !fence.MatchString(lines[i]) {
			continue
		}
		start, isGo := i, snippetStart.MatchString(lines[i])
		for i++; i < len(lines) && !fence.MatchString(lines[i]); i++ {
		}
		if isGo {
			found = append(found, snippet{line: start + 2, text: strings.Join(lines[start+1:min(i, len(lines))], ""), broken: i >= len(lines)})
		}
	}
	return found
}

// compiler checks the types of snippets. Packages come from the build cache.
type compiler struct {
	importer types.Importer
	fset     *token.FileSet
}

// newCompiler lists the packages that snippets may import: those of this repository, and what they import.
func newCompiler(t *testing.T) *compiler {
	t.Helper()
	exports := map[string]string{}
	cmd := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", module+"/...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 {
			exports[f[0]] = f[1]
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
	return &compiler{importer.ForCompiler(fset, "gc", lookup), fset}
}

// checkPage compiles the snippets of a page. Line numbers in errors are those of the page.
func (c *compiler) checkPage(page string, blocks []snippet) error {
	var all []error
	together := "package page\n"
	for _, s := range blocks {
		text := fmt.Sprintf("//line %s:%d\n%s", page, s.line, s.text)
		_, err := parser.ParseFile(token.NewFileSet(), "", s.text, parser.PackageClauseOnly)
		if tidy, err := format.Source([]byte(s.text)); err == nil && string(tidy) != s.text {
			all = append(all, fmt.Errorf("%s:%d: gofmt would change the block", page, s.line))
		}
		switch {
		case s.broken:
			all = append(all, fmt.Errorf("%s:%d: the block has no end", page, s.line))
		case err == nil:
			all = append(all, c.check(text))
		default:
			together += text
		}
	}
	return errors.Join(append(all, c.check(together))...)
}

// check compiles a file, as the compiler of Go does, and refuses packages that are not for programs.
func (c *compiler) check(text string) error {
	file, err := parser.ParseFile(c.fset, "", text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	var all []error
	for _, imp := range file.Imports {
		own, ok := strings.CutPrefix(strings.Trim(imp.Path.Value, `"`), module+"/")
		if ok && (private(own) || strings.HasPrefix(own, "test/") || strings.HasPrefix(own, "bench/")) {
			all = append(all, fmt.Errorf("%s: %s is not for programs", c.fset.Position(imp.Pos()), own))
		}
	}
	config := types.Config{Importer: c.importer, Error: func(err error) { all = append(all, err) }}
	_, _ = config.Check("page", c.fset, []*ast.File{file}, nil) // what is wrong is in all
	return errors.Join(all...)
}

// TestSnippetsCompile compiles every block of Go in every page.
func TestSnippetsCompile(t *testing.T) {
	c, n := newCompiler(t), 0
	sources(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		found := snippets(string(text))
		n += len(found)
		if err := c.checkPage(name, found); err != nil {
			t.Error(err)
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
		{"declarations", "```go\nimport (\n\t\"context\"\n\n\t\"github.com/stele-go/stele/saver\"\n)\n\nfunc f(context.Context) error { return saver.ErrNotFound }\n```\n", ""},
		{"a whole file", "```go\npackage main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println() }\n```\n", ""},
		{"what an earlier block declares", "```go\ntype T struct{}\n```\n\n```go\nvar t T\n```\n", ""},
		{"other languages", "```text\nnot Go\n```\n", ""},
		{"statements", "```go\nx := 1\n```\n", "p.md:2"},
		{"an unknown name", "one\ntwo\n```go\nvar x = 1\nvar y = z\n```\n", "p.md:5"},
		{"a package without its import", "```go\nvar s disk.Options\n```\n", "p.md:2"},
		{"an import that nothing uses", "```go\nimport \"fmt\"\n```\n", "p.md:2"},
		{"an unknown package", "```go\nimport \"nowhere\"\n\nvar x = nowhere.X\n```\n", "p.md:2"},
		{"a package that is not for programs", "```go\nimport \"github.com/stele-go/stele/wal\"\n\nvar x wal.Log\n```\n", "p.md:2"},
		{"a field that is gone", "```go\nimport \"github.com/stele-go/stele/saver/disk\"\n\nvar o = disk.Options{Gone: 1}\n```\n", "p.md:4"},
		{"an unused import of a program", "```go\npackage main\n\nimport \"fmt\"\n\nfunc main() {}\n```\n", "p.md:4"},
		{"not formatted", "```go\nvar x  = 1\n```\n", "p.md:2"},
		{"no end", "```go\nvar x = 1\n", "p.md:2"},
	} {
		got := fmt.Sprint(c.checkPage("p.md", snippets(tc.page)))
		if tc.want == "" && got != "<nil>" || tc.want != "" && !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %v, want an error at %q", tc.name, got, tc.want)
		}
	}
}
