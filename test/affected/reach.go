package main

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// reason says what of a package changed.
type reason int

const (
	tests reason = iota + 1 // its test files: nobody imports them
	code                    // anything else
)

// self decides what is checked. A change of it is checked by everything.
const self = "test/affected"

// everything is the plan without knowledge.
func (r *repo) everything() map[string]reason {
	all := map[string]reason{}
	for dir := range r.packages {
		all[dir] = code
	}
	return all
}

// changes are the packages that the files belong to. If anything could depend on one of
// the files, all packages changed, and why says so.
func (r *repo) changes(files []string) (changed map[string]reason, why string) {
	changed = map[string]reason{}
	for _, file := range files {
		dirs, what := r.owners(file)
		if decides(file) || len(dirs) == 0 && !r.isRead(file) {
			return r.everything(), file + " changed"
		}
		for _, dir := range dirs {
			changed[dir] = max(changed[dir], what)
		}
	}
	return changed, ""
}

// decides says whether a file has a say in what is built, or in what is checked.
func decides(file string) bool {
	return under(file, ".ci") || under(file, self) || slices.Contains([]string{"go.mod", "go.sum", "go.work", "go.work.sum"}, path.Base(file))
}

// owners are the packages that a file is part of.
func (r *repo) owners(file string) ([]string, reason) {
	var dirs []string
	for dir, p := range r.packages {
		if under(file, dir) && p.embeds(strings.TrimPrefix(file, dir+"/")) {
			dirs = append(dirs, dir)
		}
	}
	// Tests of other packages read what lies in testdata, those of importers above all.
	if dir, _, ok := strings.Cut("./"+file, "/testdata/"); ok {
		return append(dirs, r.have(path.Clean(dir))...), code
	}
	if !strings.HasSuffix(file, ".go") {
		return dirs, code
	}
	if dirs = append(dirs, r.have(path.Dir(file))...); len(dirs) == 1 && strings.HasSuffix(file, "_test.go") {
		return dirs, tests
	}
	return dirs, code
}

// have is the directory if there is a package in it.
func (r *repo) have(dir string) []string {
	if r.packages[dir] == nil {
		return nil
	}
	return []string{dir}
}

// embeds says whether a file, or a directory it is in, is one that the package embeds.
func (p *pkg) embeds(file string) bool {
	for _, pattern := range slices.Concat(p.EmbedPatterns, p.TestEmbedPatterns, p.XTestEmbedPatterns) {
		for name := file; name != "."; name = path.Dir(name) {
			if ok, err := path.Match(strings.TrimPrefix(pattern, "all:"), name); ok && err == nil {
				return true
			}
		}
	}
	return false
}

// isRead says whether it is known who reads a file that is part of no package: pages are
// read by tests, and what lies below a script's directory, or an input of it, by that
// script. The package of a source may be gone: what that changes is not known.
func (r *repo) isRead(file string) bool {
	if strings.HasSuffix(file, ".go") {
		return false
	}
	if strings.HasSuffix(file, ".md") {
		return true
	}
	for script, inputs := range r.checks {
		for _, in := range slices.Concat(inputs, []string{path.Dir(script)}) {
			if in != "." && under(file, in) {
				return true
			}
		}
	}
	return false
}

// reach adds to the changed packages those that reach one: by what they import, in any
// number of steps, or by what their tests do.
func (r *repo) reach(changed map[string]reason) map[string]reason {
	affected, stale := map[string]reason{}, map[string]bool{} // stale by import path
	for dir, what := range changed {
		affected[dir] = what
		if what == code {
			stale[r.packages[dir].ImportPath] = true
		}
	}
	isStale := func(path string) bool { return stale[path] }
	for again := true; again; {
		again = false
		for dir, p := range r.packages {
			if !stale[p.ImportPath] && slices.ContainsFunc(p.Imports, isStale) {
				affected[dir], stale[p.ImportPath], again = code, true, true
			}
		}
	}
	for dir, p := range r.packages {
		if affected[dir] == 0 && (slices.ContainsFunc(p.TestImports, isStale) || slices.ContainsFunc(p.XTestImports, isStale)) {
			affected[dir] = tests
		}
	}
	return affected
}

// nearOf are the affected packages of the parts of the tree that changed, and of test.
func nearOf(changed, affected map[string]reason) map[string]reason {
	part := func(dir string) string { first, _, _ := strings.Cut(dir, "/"); return first }
	parts := map[string]bool{"test": true}
	for dir := range changed {
		parts[part(dir)] = true
	}
	near := maps.Clone(affected)
	maps.DeleteFunc(near, func(dir string, _ reason) bool { return !parts[part(dir)] })
	return near
}

// touched are the scripts that have something to check.
func (r *repo) touched(files []string, affected map[string]reason) []string {
	var out []string
	for script, inputs := range r.checks {
		isInput := func(name string) bool {
			return slices.ContainsFunc(inputs, func(in string) bool { return under(name, in) })
		}
		isFile := func(file string) bool { return isInput(file) || under(file, path.Dir(script)) }
		if slices.ContainsFunc(files, isFile) || slices.ContainsFunc(names(affected), isInput) {
			out = append(out, script)
		}
	}
	slices.Sort(out)
	return out
}
