package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var (
	inCode   = regexp.MustCompile("`((?:stele |--)[^`\n␀]*)`|(?m)^\\$ (stele .*)$")
	longFlag = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
)

// wrongCommand says what a command line of a page names that is not there. A line
// without a command is only flags: some command must have each.
func wrongCommand(line string) string {
	root := (&app{}).root()
	root.InitDefaultCompletionCmd()
	commands := root.Commands()
	for _, c := range root.Commands() {
		commands = append(commands, c.Commands()...)
	}
	if args := strings.Fields(line); args[0] == "stele" {
		found, rest, err := root.Find(args[1:])
		if err != nil || found == root {
			return "no such command"
		}
		if n := len(rest); found.Args != nil && !strings.Contains(line, "--") && n > 0 && !strings.ContainsAny(line, "|;&…") {
			if err := found.Args(found, rest); err != nil {
				return err.Error()
			}
		}
		commands = []*cobra.Command{found}
	}
	for _, m := range longFlag.FindAllStringSubmatch(line, -1) {
		has := false
		for _, c := range commands {
			has = has || c.Flag(m[1]) != nil || c.InheritedFlags().Lookup(m[1]) != nil
		}
		if !has {
			return "no flag --" + m[1]
		}
	}
	return ""
}

// TestDocsNameCommands: every command and flag of stele that a page names is there.
func TestDocsNameCommands(t *testing.T) {
	n := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "node_modules" {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" || filepath.Base(path) == "CHANGELOG.md" || strings.Contains(path, "parity") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range inCode.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(path, "../../wire/") && !strings.HasPrefix(m[1]+m[2], "stele ") {
				continue // a flag of another command
			}
			n++
			if wrong := wrongCommand(m[1] + m[2]); wrong != "" {
				t.Errorf("%s: %q: %s", path, m[1]+m[2], wrong)
			}
		}
		return nil
	})
	if t.Logf("%d commands", n); err != nil || n < 40 {
		t.Errorf("%d commands: %v", n, err)
	}
	for line, wrong := range map[string]bool{
		"stele gone": true, "stele verify --gone store": true, "stele diff store": true, "--gone": true,
		"stele erase store --filter a=b --yes": false, "stele stats --json store": false, "--checkpoint": false,
	} {
		if got := wrongCommand(line); (got != "") != wrong {
			t.Errorf("%s: %q", line, got)
		}
	}
}
