package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is one safeguard taken out, as a file describes it:
//
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
// of indentation does not disturb the mutant. There may be several edits.
type mutant struct {
	name  string // of the file, without .mutant
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

const (
	suffix  = ".mutant"
	specDir = "test/mutants/testdata"
)

// loadAll reads the mutants of the repository at root, in the order of names.
func loadAll(root string) ([]*mutant, error) {
	files, err := filepath.Glob(filepath.Join(root, specDir, "*"+suffix))
	if err != nil {
		return nil, err
	}
	var out []*mutant
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		m, err := parse(strings.TrimSuffix(filepath.Base(name), suffix), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no mutants in %s", specDir)
	}
	return out, nil
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
