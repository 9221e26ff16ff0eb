package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// passed is the file with the commit on which everything passed. It says nothing about
// the code, so that a change of it is none.
const passed = ".ci/passed"

func main() {
	all := flag.Bool("all", false, "everything, whatever changed")
	flag.Parse()
	if err := run(".", *all, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "affected:", err)
		os.Exit(1)
	}
}

// run prints the plan for the repository around dir, and to reason what it comes from.
func run(dir string, all bool, out, reason io.Writer) error {
	r, err := open(dir)
	if err != nil {
		return err
	}
	changed, files, why := r.everything(), []string(nil), "asked for"
	if !all {
		if files, why, err = r.diff(); err != nil {
			return err
		}
		if why == "" {
			changed, why = r.changes(files)
		}
	}
	affected, near := changed, changed
	checks := names(r.checks)
	if why == "" {
		affected = r.reach(changed)
		near = nearOf(changed, affected)
		checks = r.touched(files, affected)
		fmt.Fprintf(reason, "since %s: %d files changed, in %d packages; %d of %d packages and %d of %d scripts are affected\n",
			r.commit, len(files), len(changed), len(affected), len(r.packages), len(checks), len(r.checks))
	} else {
		fmt.Fprintf(reason, "everything: %s\n", why)
	}
	var plan bytes.Buffer
	for _, part := range []struct {
		kind  string
		names []string
	}{{"every", names(r.packages)}, {"changed", names(changed)}, {"affected", names(affected)}, {"near", names(near)}, {"check", checks}} {
		for _, name := range part.names {
			fmt.Fprintln(&plan, part.kind, name)
		}
	}
	_, err = out.Write(plan.Bytes())
	return err
}

func names[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// under says whether a file is the path, or below it.
func under(file, path string) bool {
	return path == "." || file == path || strings.HasPrefix(file, path+"/")
}
