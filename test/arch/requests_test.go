package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ignored are fields of requests that the server takes and does nothing about, with the reason.
var ignored = map[string]string{
	"POST /assistants max_concurrency":                 kept,
	"POST /assistants recursion_limit":                 kept,
	"POST /assistants tags":                            kept,
	"PATCH /assistants/{assistant_id} max_concurrency": kept,
	"PATCH /assistants/{assistant_id} recursion_limit": kept,
	"PATCH /assistants/{assistant_id} tags":            kept,
	"POST /threads/{thread_id}/runs on_disconnect":     "nobody is connected to a run in the background, as in LangGraph",
	"POST /runs on_disconnect":                         "the same",
	"POST /runs/batch on_disconnect":                   "the same",
	"POST /runs/batch if_not_exists":                   "a run without a thread makes one",
}

const kept = "it is kept as a part of config, and its runs read it"

// TestFieldsOfRequestsAreRead: each field that an operation of the server takes is looked at by its handler,
// or what that calls.
func TestFieldsOfRequestsAreRead(t *testing.T) {
	var files []*ast.File
	c := newCompiler(t)
	dir := filepath.Join(root, "server")
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if isTestFile(name) {
			continue
		}
		f, err := parser.ParseFile(c.fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	_, info := typed(t, c.fset, module+"/server", files, c.importer)
	g := &reach{info: info, bodies: map[types.Object]ast.Node{}}
	for _, f := range files {
		g.add(f)
	}
	seen, commands := 0, 0
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			parts := map[string]ast.Expr{}
			for _, e := range lit.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if id, ok := kv.Key.(*ast.Ident); ok {
						parts[id.Name] = kv.Value
					}
				}
			}
			handle, path := parts["handle"], ""
			switch {
			case parts["method"] == nil || parts["in"] == nil:
				return true
			case handle != nil:
				path, _ = strconv.Unquote(parts["path"].(*ast.BasicLit).Value)
			default: // a command of protocol v2
				handle = parts["do"]
				commands++
			}
			method, _ := strconv.Unquote(parts["method"].(*ast.BasicLit).Value)
			fields, read := g.texts(parts["in"], true), g.texts(handle, false)
			maps.Copy(read, g.texts(parts["in"], false)) // what checks how fields fit together
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				seen++
				at := strings.Join(strings.Fields(method+" "+path+" "+name), " ")
				if (ignored[at] == "") == read[name] {
					continue
				}
				t.Errorf("%s: read %v, %q", at, read[name], ignored[at])
			}
			return false
		})
	}
	if seen < 230 || commands < 8 {
		t.Errorf("%d fields were looked for, of %d commands", seen, commands)
	}
}

// reach finds the texts that code of a package can come to.
type reach struct {
	info   *types.Info
	bodies map[types.Object]ast.Node // of functions, and what variables begin with
}

func (g *reach) add(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				g.bodies[g.info.Defs[d.Name]] = d.Body
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					for i, name := range s.Names {
						if i < len(s.Values) {
							g.bodies[g.info.Defs[name]] = s.Values[i]
						}
					}
				case *ast.TypeSpec:
					g.bodies[g.info.Defs[s.Name]] = s.Type
				}
			}
		}
	}
}

// texts are the texts in n and in all that it leads to. named: only those that name a field of a shape;
// else all others, and the names of fields in tags.
func (g *reach) texts(n ast.Node, named bool) map[string]bool {
	found, seen := map[string]bool{}, map[types.Object]bool{}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			f, ok := n.Fun.(*ast.Ident)
			if !ok || f.Name != "need" && f.Name != "may" || g.bodies[g.info.Uses[f]] == nil {
				return true
			}
			if name, err := strconv.Unquote(n.Args[0].(*ast.BasicLit).Value); named && err == nil {
				found[name] = true
			}
			ast.Inspect(n.Args[1], visit)
			return false
		case *ast.Ident:
			if o := g.info.Uses[n]; o != nil && !seen[o] {
				seen[o] = true
				if f, ok := o.(*types.Func); ok {
					o = f.Origin()
				}
				if b := g.bodies[o]; b != nil {
					ast.Inspect(b, visit)
				}
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && !named {
				s, _ := strconv.Unquote(n.Value)
				_, tag, _ := strings.Cut(s, `json:"`)
				tag, _, _ = strings.Cut(strings.TrimSuffix(tag, `"`), ",")
				found[s], found[tag] = true, true
			}
		}
		return true
	}
	ast.Inspect(n, visit)
	return found
}
