package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// camelCase is a word that has the form of a Go name of two words or more.
var camelCase = regexp.MustCompile(`\b(?:[a-z]+|[A-Z][a-z]+)[A-Z]\w*`)

// foreign are the words of this form that are names of others: comments may have them.
var foreign = []string{"AsyncPostgresSaver", "BaseStore", "BinaryOperatorAggregate", "FlushFileBuffers", "GiB", "JsonPlusSerializer", "MessagePack", "MessagesState",
	"NaNs", "OpenTelemetry", "RemoteGraph", "SplitMix64", "StateGraph", "sBlk", "thinkingConfig", "vLLM"}

// commentWords are the words of the form of a Go name that a file's comments have, with
// where they are. What its code has, as names and in strings, is added to known.
func commentWords(name string, text []byte, known map[string]bool) map[string]token.Position {
	found := map[string]token.Position{}
	fset := token.NewFileSet()
	file := fset.AddFile(name, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	for {
		switch pos, tok, lit := s.Scan(); tok {
		case token.EOF:
			return found
		case token.IDENT:
			known[lit] = true
		case token.STRING:
			for _, w := range camelCase.FindAllString(lit, -1) {
				known[w] = true
			}
		case token.COMMENT:
			if strings.HasPrefix(lit, "//\t") { // code
				continue
			}
			for _, w := range camelCase.FindAllString(lit, -1) {
				found[w] = fset.Position(pos)
			}
		}
	}
}

// unknownWords are the words of comments that name nothing. A word may be a plural.
func unknownWords(found map[string]token.Position, known map[string]bool) (bad []string) {
	for w, at := range found {
		if !known[w] && !known[strings.TrimSuffix(w, "s")] && !slices.Contains(foreign, w) {
			bad = append(bad, fmt.Sprintf("%s: a comment names %s, which is not there", at, w))
		}
	}
	return bad
}

// TestCommentsNameWhatExists: a word in a comment that has the form of a Go name is a name
// in the code of the repository.
func TestCommentsNameWhatExists(t *testing.T) {
	found, known := map[string]token.Position{}, map[string]bool{}
	sources(t, func(name string, text []byte) {
		if strings.HasSuffix(name, ".go") && !strings.Contains(name, "/testdata/") {
			for w, at := range commentWords(name, text, known) {
				found[w] = at
			}
		}
	})
	for _, bad := range unknownWords(found, known) {
		t.Error(bad)
	}
	for _, w := range foreign {
		if _, ok := found[w]; !ok {
			t.Errorf("no comment names %s", w)
		}
	}
}

func TestCommentsNotice(t *testing.T) {
	known := map[string]bool{}
	found := commentWords("x.go", []byte("package x\n\n// writeAll calls flushRest and sendLater, of hereErrors.\n//\tdoNothing()\nfunc writeAll() { flushRest(\"sendLater\", hereError) }\n\n// see TheOther\n"), known)
	if got, want := unknownWords(found, known), []string{"x.go:7:1: a comment names TheOther, which is not there"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// qualifiedName is a word in the form of a name in a package, or of a field or method.
var qualifiedName = regexp.MustCompile(`(?:^|[^\w./"@-])([a-z][A-Za-z0-9]*)\.([A-Z]\w*)`)

// python are names of this form in Python's library.
var python = []string{"decimal.Decimal", "re.UNICODE", "zoneinfo.ZoneInfo"}

// TestCommentsNameInPackages: in x.Name of a comment, x is a package of the repository that declares
// Name, a package that somebody imports, or a name in the code of the same package.
func TestCommentsNameInPackages(t *testing.T) {
	declared := map[string]map[string]bool{} // by the name of a package
	names := map[string]map[string]bool{}    // all of its code, by directory
	imported := map[string]bool{}
	comments := map[string]map[string]token.Position{} // by directory
	sources(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir, pkg := path.Dir(name), strings.TrimSuffix(f.Name.Name, "_test")
		if names[dir] == nil {
			names[dir], comments[dir] = map[string]bool{}, map[string]token.Position{}
		}
		if declared[pkg] == nil {
			declared[pkg] = map[string]bool{}
		}
		for _, imp := range f.Imports {
			imported[path.Base(strings.Trim(imp.Path.Value, `"`))] = !strings.Contains(imp.Path.Value, module)
		}
		for _, d := range f.Decls {
			ast.Inspect(d, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					names[dir][id.Name], declared[pkg][id.Name] = true, true
				}
				return true
			})
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//\t") { // code
					continue
				}
				for _, m := range qualifiedName.FindAllStringSubmatch(c.Text, -1) {
					comments[dir][m[1]+"."+m[2]] = fset.Position(c.Pos())
				}
			}
		}
	})
	for dir, found := range comments {
		for name, at := range found {
			x, sel, _ := strings.Cut(name, ".")
			if !names[dir][x] && !imported[x] && !declared[x][sel] && !slices.Contains(python, name) {
				t.Errorf("%s: a comment names %s, which is not there", at, name)
			}
		}
	}
}
