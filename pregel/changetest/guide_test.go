package changetest

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// guideRows are the changes of the guide's first table, and the cases of each; none: TestChangedAgent, or a test of pregel,
// has them.
var guideRows = map[string][]string{
	"add a field": {"add a field"}, "rename a field": {"rename fields", "rename fields, with aliases"}, "remove a field": {"remove fields"},
	"change the type of a field": {"wider types", "a narrower type that fits", "another type", "another type of what is appended", "another type in a struct",
		"another type inside", "another type, with a migration", "another type of what is appended, with a migration"},
	"add, change or remove a reducer": {"reducers", "no reducers", "a list becomes a delta channel"},
	"add a node":                      {"add a node"},
	"rename a node":                   {"rename a node", "rename the node that asks", "rename the first node", "rename the worker", "rename the nodes that wait", "rename a node inside"},
	"remove a node":                   {"remove a node", "remove the worker", "remove the graph inside"},
	"split a node":                    {"split a node"},
	"change the nodes of a join, add an edge that joins before a node": {"one more for a join", "no join", "one more way to a node"},
	"move a breakpoint":                                               {"a breakpoint more", "a breakpoint in place of a question"},
	"move a question to another node":                                 {"the question in another node"},
	"change what a question shows, or the schema of its answer":       {"other words of a question", "other words of a question, with a migration"},
	"change the input of a worker or of a node that gets packets":     {"an argument more", "another argument", "another argument, with a migration"},
	"change the waits of a body, or their order":                      {"another order of waits", "no waits"},
	"change the type of a signal":                                     {"another type of a signal"},
	"change a call, or its input, in a body":                          {"another input of a call", "another call", "no call"},
	"change the result of a call":                                     {"another field in the result of a call", "another type of the result of a call"},
	"run another graph inside a body, or in another order":            nil, // TestGraphsInsideABodyChanged
	"make a graph of a node that has made calls":                      nil, // TestNodeBecomesAGraph
	"make a node of a graph":                                          nil, // the same
	"change the arguments of a tool, while a call waits for approval": nil,
	"change the model of an agent":                                    nil,
}

// TestGuideHasItsCases: each change that the guide tells of is tried, and what is tried stands there.
func TestGuideHasItsCases(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/changes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| change | by default |")
	table, _, _ = strings.Cut(table, "\n\n")
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(table, -1) {
		rows = append(rows, m[1])
	}
	slices.Sort(rows)
	if want := slices.Sorted(maps.Keys(guideRows)); !slices.Equal(rows, want) {
		t.Errorf("the guide has the rows\n%q\nand the cases are of\n%q", rows, want)
	}
	named := []string{"nothing"}
	for _, cases := range guideRows {
		named = append(named, cases...)
	}
	var tried []string
	for _, c := range changes {
		tried = append(tried, c.name)
	}
	slices.Sort(named)
	slices.Sort(tried)
	if !slices.Equal(named, tried) {
		t.Errorf("the rows name\n%q\nand tried are\n%q", named, tried)
	}
}
