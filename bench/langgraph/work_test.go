package main

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/stele-go/stele/saver/disk"
)

// What is timed must be the same work on both sides: nodes run, checkpoints and
// writes stored, result. testdata/work.json is what LangGraph did, recorded by
// the -work flag; check.sh records it again and compares.
func TestBothSidesDoTheSameWork(t *testing.T) {
	text, err := os.ReadFile("testdata/work.json")
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]work{}
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	rows, err := options{graphs: names()}.rows()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(recorded) {
		t.Errorf("%d rows, %d recorded", len(rows), len(recorded))
	}
	for _, r := range rows {
		t.Run(r.key(), func(t *testing.T) {
			q := r.request()
			q.Work, q.Dir, q.sync = true, t.TempDir(), disk.SyncNever
			got, err := q.answer(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			want, ok := recorded[r.key()]
			if !ok {
				t.Fatal("not recorded")
			}
			if got != want {
				t.Errorf("stele did %+v, LangGraph %+v", got, want)
			}
			// The table divides by these.
			// Each turn's input takes a step of its own; the first is step -1.
			if steps := want.Step + 2 - r.w.Turns; r.k.saver != "none" && steps != r.w.Steps {
				t.Errorf("%d supersteps declared, the newest checkpoint is of step %d", r.w.Steps, want.Step)
			}
			if inputs := r.w.Turns; want.Tasks+inputs != r.w.Tasks {
				t.Errorf("%d tasks counted with %d that take input, %d declared", want.Tasks, inputs, r.w.Tasks)
			}
		})
	}
}
