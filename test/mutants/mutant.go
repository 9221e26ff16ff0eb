package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one safeguard taken out, as a section of an archive describes it:
//
//	-- group-gap --
//	# What is lost, in a sentence or two.
//	test: wal TestCrash
//	env: CRASH_STATES=3000
//	in: wal Log.commitBatch
//	--- old
//	err == nil && l.opts.Mode == SyncAlways
//	--- new
//	false
//
// "test" names the package and the test that must fail; "env", which may be left
// out, is set for that test. "in" names a package directory and a function or
// method of it, whichever file that is in today: in its body the old text must occur
// exactly once. Leading white space of each line does not count, so that a change
// of indentation does not disturb the mutant. There may be several edits, all in the
// package beside whose sources the archive lies.
type mutant struct {
	name  string // of the section
	about string
	pkg   string // of the test
	test  string
	env   []string
	edits []edit
}

// edit is one replacement.
type edit struct {
	dir, fn  string
	old, new string
}

// archive is what holds the mutants of a package, below its directory. It has the form of
// txtar: a line "-- NAME --" begins each section.
const archive = "/testdata/mutants.txtar"

// loadAll reads the mutants of the repository at root, in the order of names.
func loadAll(root string) ([]*mutant, error) {
	byName := map[string]*mutant{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		dir, ok := strings.CutSuffix(filepath.ToSlash(file), archive)
		if err != nil || !ok {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if dir, err = filepath.Rel(root, filepath.FromSlash(dir)); err != nil {
			return err
		}
		if err := parseAll(filepath.ToSlash(dir), string(text), byName); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(byName) == 0 {
		return nil, errors.New("no package has mutants")
	}
	var out []*mutant
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		out = append(out, byName[name])
	}
	return out, nil
}

var heading = regexp.MustCompile(`(?m)^-- (.*) --\n`)

// parseAll adds the mutants of an archive, which are those of package dir.
func parseAll(dir, text string, byName map[string]*mutant) error {
	at := heading.FindAllStringSubmatchIndex(text, -1)
	if len(at) == 0 || at[0][0] != 0 {
		return errors.New("it does not begin with the name of a mutant")
	}
	for i, h := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		m, err := parse(text[h[2]:h[3]], text[h[1]:end])
		if err != nil {
			return fmt.Errorf("%s: %w", text[h[2]:h[3]], err)
		}
		if byName[m.name] != nil {
			return fmt.Errorf("%s is there twice", m.name)
		}
		for _, e := range m.edits {
			if e.dir != dir {
				return fmt.Errorf("%s changes %s: it belongs into %s%s", m.name, e.dir, e.dir, archive)
			}
		}
		byName[m.name] = m
	}
	return nil
}

func parse(name, text string) (*mutant, error) {
	m := &mutant{name: name}
	var into *string // the text being read, or nil between edits
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		key, rest, _ := strings.Cut(line, " ")
		switch {
		case key == "in:":
			dir, fn, ok := strings.Cut(rest, " ")
			if !ok {
				return nil, fmt.Errorf("line %d: want a directory and a function", i+1)
			}
			m.edits = append(m.edits, edit{dir: dir, fn: fn})
			into = nil
		case line == "--- old", line == "--- new":
			if len(m.edits) == 0 {
				return nil, fmt.Errorf("line %d: an edit begins with its place", i+1)
			}
			e := &m.edits[len(m.edits)-1]
			if into = &e.old; line == "--- new" {
				into = &e.new
			}
		case into != nil:
			*into += line + "\n"
		case key == "#":
			m.about = strings.TrimSpace(m.about + " " + rest)
		case key == "test:":
			m.pkg, m.test, _ = strings.Cut(rest, " ")
		case key == "env:":
			m.env = append(m.env, rest)
		default:
			return nil, fmt.Errorf("line %d: %q is none of #, test:, env:, in:, --- old, --- new", i+1, line)
		}
	}
	return m, m.check()
}

func (m *mutant) check() error {
	switch {
	case m.about == "":
		return errors.New("it does not say what is lost")
	case m.pkg == "" || m.test == "":
		return errors.New("it names no test")
	case len(m.edits) == 0:
		return errors.New("it changes nothing")
	}
	for i, e := range m.edits {
		if strings.TrimSpace(e.old) == "" || e.old == e.new {
			return fmt.Errorf("edit %d changes nothing", i+1)
		}
	}
	return nil
}
