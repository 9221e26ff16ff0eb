package traces

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
)

// TestTypedTraces plays the scenarios whose graphs package graph makes through the typed
// face, and compares them with LangGraph's traces.
func TestTypedTraces(t *testing.T) {
	equal, ran, programs := 0, 0, map[string]bool{}
	var past []string
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
		if notTyped[name] != "" {
			continue
		}
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
			golden := d
			if d == pregel.Async {
				golden = pregel.Sync
			}
			want, err := os.ReadFile(filepath.Join("golden", name+"."+string(golden)+".jsonl"))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Run(name+"/"+string(d), func(t *testing.T) {
				tr := newTrace(t, name, d, 0, inMemory)
				tr.typed = &typedUse{made: map[*pregel.Graph]typedGraph{}}
				scenarios[name](tr)
				if len(tr.typed.made) == 0 {
					return // another builder makes its graph
				}
				tr.dump()
				ran++
				programs[name] = true
				for _, call := range tr.typed.untyped {
					past = append(past, name+": "+call)
				}
				if compare(t, normalise(name, d, tr.lines), normalise(name, d, strings.Split(strings.TrimSpace(string(want)), "\n"))) {
					equal++
				}
			})
		}
	}
	if len(programs) < 131 {
		t.Errorf("%d programs went through the typed face", len(programs))
	}
	slices.Sort(past)
	fmt.Printf("typed: %d programs, traces: %d equal, %d different; not typed: %d programs\n", len(programs), equal, ran-equal, len(notTyped))
	for _, call := range slices.Compact(past) {
		fmt.Println("past the typed face:", call)
	}
	for _, name := range slices.Sorted(maps.Keys(notTyped)) {
		fmt.Printf("not typed: %s: %s\n", name, notTyped[name])
	}
}
