package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// repo is the tree as it is now. All names are relative to root, with slashes.
type repo struct {
	root     string
	commit   string              // what passed names, once diff has read it
	packages map[string]*pkg     // by directory, of all modules
	checks   map[string][]string // what each script with a section says are its inputs
}

// pkg is what one package consists of and needs.
type pkg struct {
	ImportPath, Dir                                      string
	Imports, TestImports, XTestImports                   []string
	EmbedPatterns, TestEmbedPatterns, XTestEmbedPatterns []string
}

// open reads the packages and scripts of the repository around dir.
func open(dir string) (*repo, error) {
	r := &repo{root: dir, packages: map[string]*pkg{}}
	top, err := r.git("rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	r.root = strings.TrimSpace(top)
	workspaces, err := r.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "go.work", "*/go.work")
	if err != nil {
		return nil, err
	}
	for _, workspace := range zeroed(workspaces) {
		for _, system := range []string{"linux", "darwin", "windows"} {
			if err := r.list(path.Dir(workspace), system); err != nil {
				return nil, err
			}
		}
	}
	return r, r.readChecks()
}

// list adds the packages of a workspace as they are on a system, each with the imports it has
// there.
func (r *repo) list(workspace, system string) error {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,EmbedPatterns,TestEmbedPatterns,XTestEmbedPatterns", "work")
	cmd.Dir = filepath.Join(r.root, workspace)
	cmd.Env = append(os.Environ(), "GOOS="+system, "PWD="+cmd.Dir) // a path through a link is another
	out, err := r.output(cmd)
	if err != nil {
		return err
	}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		p := &pkg{}
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read what go list says: %w", err)
		}
		dir, err := filepath.Rel(r.root, p.Dir)
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		if have := r.packages[dir]; have != nil {
			p.Imports = append(p.Imports, have.Imports...)
			p.TestImports = append(p.TestImports, have.TestImports...)
			p.XTestImports = append(p.XTestImports, have.XTestImports...)
			p.EmbedPatterns = append(p.EmbedPatterns, have.EmbedPatterns...)
			p.TestEmbedPatterns = append(p.TestEmbedPatterns, have.TestEmbedPatterns...)
			p.XTestEmbedPatterns = append(p.XTestEmbedPatterns, have.XTestEmbedPatterns...)
		}
		r.packages[dir] = p
	}
}

var (
	section = regexp.MustCompile(`(?m)^# Section: `)
	inputs  = regexp.MustCompile(`(?m)^# Inputs: (.*)$`)
)

// readChecks finds the scripts that are sections. An input that is not there would
// leave its check out for ever: it is an error.
func (r *repo) readChecks() error {
	names, err := r.git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.sh")
	if err != nil {
		return err
	}
	r.checks = map[string][]string{}
	for _, name := range zeroed(names) {
		text, err := os.ReadFile(filepath.Join(r.root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			return err
		}
		if !section.Match(text) {
			continue
		}
		r.checks[name] = nil
		for _, m := range inputs.FindAllSubmatch(text, -1) {
			for _, input := range strings.Fields(string(m[1])) {
				if _, err := os.Stat(filepath.Join(r.root, filepath.FromSlash(input))); err != nil {
					return fmt.Errorf("%s names an input that is not there: %w", name, err)
				}
				r.checks[name] = append(r.checks[name], input)
			}
		}
	}
	return nil
}

// diff returns the files that differ from those of the commit that passed, or why
// nothing can be said.
func (r *repo) diff() (files []string, why string, err error) {
	text, err := os.ReadFile(filepath.Join(r.root, passed))
	if errors.Is(err, os.ErrNotExist) {
		return nil, "there is no " + passed, nil
	}
	if err != nil {
		return nil, "", err
	}
	r.commit = strings.TrimSpace(string(text))
	if !regexp.MustCompile(`^[0-9a-f]{40,64}$`).MatchString(r.commit) {
		return nil, passed + " names no commit", nil
	}
	// The command fails for a commit that is not there as well, as in a shallow clone.
	if _, err := r.git("merge-base", "--is-ancestor", r.commit, "HEAD"); err != nil {
		return nil, "the commit of " + passed + " is no ancestor, or not there", nil
	}
	// A file that moved is one that is gone and one that is new.
	tracked, err := r.git("diff", "--name-only", "--no-renames", "-z", r.commit)
	if err != nil {
		return nil, "", err
	}
	untracked, err := r.git("ls-files", "-z", "--others", "--exclude-standard")
	if err != nil {
		return nil, "", err
	}
	for _, name := range append(zeroed(tracked), zeroed(untracked)...) {
		if name != passed && !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	if len(files) == 0 {
		return nil, "nothing changed since " + r.commit, nil
	}
	return files, "", nil
}

// git runs git in the repository and returns its output.
func (r *repo) git(args ...string) (string, error) {
	return r.output(exec.Command("git", args...))
}

func (r *repo) output(cmd *exec.Cmd) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if cmd.Dir == "" {
		cmd.Dir = r.root
	}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", path.Base(cmd.Path), err, errs.String())
	}
	return out.String(), nil
}

// zeroed splits a list of names of which each ends with a zero byte.
func zeroed(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return c == 0 })
}
