package traces

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
)

func TestMain(m *testing.M) {
	killedChild() // does not return if this process is one
	// Thousands of small stores are opened and thrown away.
	debug.SetGCPercent(800)
	debug.SetMemoryLimit(1 << 30)
	goleak.VerifyTestMain(m)
}

func inMemory(random func() float64) saver.Saver { return memory.New(memory.Options{Random: random}) }

// onDisk is a saver in a directory. Power loss is not at stake, so nothing waits
// for the device.
func onDisk(t *testing.T) func(random func() float64) saver.Saver {
	return func(random func() float64) saver.Saver {
		d, err := disk.Open(t.TempDir(), disk.Options{Sync: disk.SyncNever, Random: random})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	}
}

// TestTraces compares every scenario with LangGraph's own trace, line by line.
// Async must store and show what Sync does.
func TestTraces(t *testing.T) {
	equal, ran, lines := 0, 0, 0
	for _, n := range normalisers {
		n.uses.Store(0)
	}
	for _, name := range slices.Sorted(maps.Keys(scenarios)) {
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
			check := func(t *testing.T, open func(func() float64) saver.Saver) {
				ran++
				tr := newTrace(t, name, d, 0, open)
				scenarios[name](tr)
				tr.dump()
				if compare(t, normalise(name, d, tr.lines), normalise(name, d, strings.Split(strings.TrimSpace(string(want)), "\n"))) {
					equal++
					lines += len(tr.lines)
				}
			}
			t.Run(name+"/"+string(d), func(t *testing.T) { check(t, inMemory) })
			t.Run(name+"/"+string(d)+"/disk", func(t *testing.T) { check(t, onDisk(t)) })
		}
	}
	golden, err := filepath.Glob("golden/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range golden {
		name, _, _ := strings.Cut(filepath.Base(f), ".")
		if scenarios[name] == nil {
			t.Errorf("%s has no scenario in Go", f)
		}
	}
	used := 0
	for _, n := range normalisers {
		used += int(n.uses.Load())
	}
	shown, of := behavioursShown(t)
	fmt.Printf("scenarios: %d of %d, traces: %d equal, %d different, normalised: %d (graphs: %d, lines: %d)\n", shown, of, equal, ran-equal, used, len(scenarios), lines)
}

func compare(t *testing.T, got, want []string) bool {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g == w || sameJSON(g, w) {
			continue
		}
		var x, y any
		_ = json.Unmarshal([]byte(g), &x) // what is no JSON is shown as null
		_ = json.Unmarshal([]byte(w), &y)
		t.Errorf("line %d differs (-LangGraph +stele):\n%s", i+1, cmp.Diff(y, x))
		return false
	}
	return true
}
