package savertest

import (
	"github.com/stele-go/stele/saver"
)

var pruneCases = []testCase{
	{id: "prune", name: "what a delta channel needs stays", fn: func(e *env) {
		e.deltas(6, map[int]any{1: "far", 3: "seed"})
		e.prune(saver.KeepLatest, "t")
		e.listed(saver.Query{ThreadID: "t"}, 6, 5, 4, 3)
		e.history(head, "d", "seed", 3, 4, 5)
		e.write(at(6), "task-6", "d", 6)
		e.put(step{id: id(7), parent: id(6), vers: map[string]any{"d": 7}})
		e.prune(saver.KeepLatest, "t")
		e.history(head, "d", "seed", 3, 4, 5, 6)
	}},
	{id: "prune", name: "a snapshot at the latest frees its ancestors", fn: func(e *env) {
		e.deltas(5, map[int]any{5: "snapshot"})
		e.prune(saver.KeepLatest, "t")
		e.listed(saver.Query{ThreadID: "t"}, 5)
		e.values(e.get(head), map[string]any{"d": "snapshot"})
	}},
	{id: "prune", name: "without a seed, up to the first write", fn: func(e *env) {
		e.chain(1, 2)
		for n := 3; n <= 5; n++ {
			e.put(step{id: id(n), parent: id(n - 1), vers: map[string]any{"d": n}})
			e.write(at(n), "task", "d", n)
		}
		e.prune(saver.KeepLatest, "t")
		e.listed(saver.Query{ThreadID: "t"}, 5, 4, 3)
		e.history(head, "d", "none", 3, 4)
	}},
	{id: "prune", name: "a cleared channel needs nothing", fn: func(e *env) {
		e.chain(1, 2)
		e.write(at(2), "task", "trigger", "go")
		e.put(step{id: id(3), parent: id(2), values: map[string]any{"trigger": "go"}, vers: map[string]any{"trigger": 3}})
		for n := 4; n <= 5; n++ {
			e.put(step{id: id(n), parent: id(n - 1), vers: map[string]any{"trigger": 4}, fresh: map[int][]string{4: {"trigger"}, 5: {}}[n]})
		}
		e.prune(saver.KeepLatest, "t")
		e.listed(saver.Query{ThreadID: "t"}, 5)
	}},
	{id: "prune", name: "two delta channels, the longer walk counts", fn: func(e *env) {
		for n := 1; n <= 6; n++ {
			st := step{id: id(n), vers: map[string]any{"a": n, "b": n}, values: map[string]any{}}
			if n > 1 {
				st.parent = id(n - 1)
			}
			if n == 2 {
				st.values["a"] = "seed a"
			}
			if n == 4 {
				st.values["b"] = "seed b"
			}
			e.put(st)
			e.write(at(n), "task", "a", n, "b", n)
		}
		e.prune(saver.KeepLatest, "t")
		e.listed(saver.Query{ThreadID: "t"}, 6, 5, 4, 3, 2)
		e.history(head, "a", "seed a", 2, 3, 4, 5)
		e.history(head, "b", "seed b", 4, 5)
	}},
	{id: "prune", name: "off the path nothing stays", fn: func(e *env) {
		e.deltas(3, map[int]any{1: "seed"})
		e.put(step{id: id(4), parent: id(1), vers: map[string]any{"d": 40}})
		e.write(at(4), "task", "d", "fork")
		e.put(step{id: id(5), parent: id(4), vers: map[string]any{"d": 50}})
		e.prune(saver.KeepLatest, "t")
		e.listed(saver.Query{ThreadID: "t"}, 5, 4, 1)
		e.history(head, "d", "seed", 1, "fork")
	}},
	{id: "prune", name: "the packets of an old checkpoint stay", fn: func(e *env) {
		e.put(step{v: 3, id: id(1)})
		e.put(step{v: 3, id: id(2), parent: id(1)})
		e.write(at(2), "task", saver.ChannelTasks, "send")
		e.put(step{v: 3, id: id(3), parent: id(2), values: map[string]any{"k": 1}})
		e.prune(saver.KeepLatest, "t")
		e.listed(saver.Query{ThreadID: "t"}, 3, 2)
		e.values(e.get(head), map[string]any{"k": 1, saver.ChannelTasks: []any{"send"}})
	}},
	{id: "prune", name: "a write that was passed over keeps nothing", fn: func(e *env) {
		e.put(step{v: 3, id: id(1)})
		e.write(at(1), "task", "k", "first")
		e.write(at(1), "task", saver.ChannelTasks, "again")
		e.put(step{v: 3, id: id(2), parent: id(1)})
		e.prune(saver.KeepLatest, "t")
		e.listed(saver.Query{ThreadID: "t"}, 2)
	}},
	{id: "prune", name: "writes that wait for their checkpoint stay", fn: func(e *env) {
		e.chain(2, 3)
		e.write(at(4), "task", "ch", "early")
		e.write(at(1), "task", "ch", "of nothing")
		e.prune(saver.KeepLatest, "t")
		e.put(step{id: id(4), parent: id(3)})
		e.pending(e.get(at(4)), "task", "ch", "early")
		e.put(step{id: id(1)})
		e.pending(e.get(at(1)))
	}},
	{id: "prune", name: "pruning again removes no more", fn: func(e *env) {
		e.deltas(6, map[int]any{3: "seed"})
		e.prune(saver.KeepLatest, "t")
		e.unchanged("pruning again", func() { e.prune(saver.KeepLatest, "t") })
	}},
	{id: "prune", name: "values of what went are not found any more", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "first", "b": "kept"}})
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"a": "second"}, vers: map[string]any{"a": 2, "b": 1}, fresh: []string{"a"}})
		e.prune(saver.KeepLatest, "t")
		e.put(step{id: id(3), vers: map[string]any{"a": 1, "b": 1}, fresh: []string{}})
		e.values(e.get(at(3)), map[string]any{"b": "kept"})
	}},
	{id: "runs", name: "what a delta channel of another run needs stays", fn: func(e *env) {
		for n := 1; n <= 5; n++ {
			st := step{id: id(n), vers: map[string]any{"d": n}, values: map[string]any{}, md: saver.Metadata{"run_id": []string{"r1", "r1", "r2", "r2", "r3"}[n-1]}}
			if n > 1 {
				st.parent = id(n - 1)
			}
			if n == 2 {
				st.values["d"] = "seed"
			}
			e.put(st)
			e.write(at(n), "task", "d", n)
		}
		e.deleteRuns("r1")
		e.listed(saver.Query{ThreadID: "t"}, 5, 4, 3, 2)
		e.deleteRuns("r2")
		e.listed(saver.Query{ThreadID: "t"}, 5, 4, 3, 2)
		e.history(head, "d", "seed", 2, 3, 4)
		e.deleteRuns("r1", "r2", "r3")
		e.listed(saver.Query{ThreadID: "t"})
	}},
	{id: "kept", name: "is told, and why", fn: func(e *env) {
		e.deltas(4, map[int]any{1: "far", 2: "seed"})
		for n := 1; n <= 3; n++ {
			e.put(step{id: id(n), parent: map[bool]string{true: id(n - 1)}[n > 1], vers: map[string]any{"d": n},
				values: map[int]map[string]any{1: {"d": "far"}, 2: {"d": "seed"}}[n], md: saver.Metadata{"run_id": "r1"}})
		}
		done := e.deleteRuns("r1")
		e.equal("removed", []int{done.Checkpoints, done.Writes, done.KeptTotal}, []int{1, 1, 2})
		e.equal("kept", done.Kept, []saver.Kept{
			{ThreadID: "t", CheckpointID: id(2), For: id(4), Channel: "d", Reason: saver.KeptInDoubt},
			{ThreadID: "t", CheckpointID: id(3), For: id(4), Channel: "d", Reason: saver.KeptInDoubt},
		})
		e.listed(saver.Query{}, 4, 3, 2)
	}},
	{id: "kept", name: "nothing that a note says is no delta channel", fn: func(e *env) {
		for _, told := range []bool{true, false} {
			e.put(step{id: id(1), vers: map[string]any{"trigger": 1}, md: saver.Metadata{"run_id": "r1"}})
			e.write(at(1), "task", "trigger", "abandoned")
			st := step{id: id(2), parent: id(1), vers: map[string]any{"trigger": 2}, md: saver.Metadata{"run_id": "r2"}}
			if told {
				st.note = &saver.Note{Graph: "g", Deltas: []string{"other"}}
			}
			e.put(st)
			done := e.deleteRuns("r1")
			if told {
				e.equal("removal", []int{done.Checkpoints, done.Writes, done.KeptTotal}, []int{1, 1, 0})
				e.listed(saver.Query{}, 2)
			} else {
				e.equal("removal", []int{done.Checkpoints, done.Writes, done.KeptTotal}, []int{0, 0, 1})
				e.equal("kept", done.Kept, []saver.Kept{{ThreadID: "t", CheckpointID: id(1), For: id(2), Channel: "trigger", Reason: saver.KeptInDoubt}})
			}
		}
	}},
	{id: "kept", name: "what a delta channel needs", fn: func(e *env) {
		for n := 1; n <= 4; n++ {
			e.put(step{id: id(n), parent: map[bool]string{true: id(n - 1)}[n > 1], vers: map[string]any{"a": 1, "d": n, "e": n},
				values: map[int]map[string]any{2: {"d": "seed"}}[n], fresh: []string{"d", "e"}, note: &saver.Note{Deltas: []string{"d", "none"}}})
			e.write(at(n), "task", "d", n, "e", n)
		}
		done := e.prune(saver.KeepLatest, "t", "t")
		e.equal("removed", []int{done.Checkpoints, done.Writes, done.KeptTotal}, []int{1, 2, 2})
		e.equal("kept", done.Kept, []saver.Kept{
			{ThreadID: "t", CheckpointID: id(2), For: id(4), Channel: "d", Reason: saver.KeptForDelta},
			{ThreadID: "t", CheckpointID: id(3), For: id(4), Channel: "d", Reason: saver.KeptForDelta},
		})
		e.history(head, "d", "seed", 2, 3)
		e.equal("the rest", e.prune(saver.PruneAll, "t"), saver.Removal{Checkpoints: 3, Writes: 6})
	}},
	{id: "kept", name: "the packets of an old checkpoint", fn: func(e *env) {
		e.put(step{v: 3, id: id(1)})
		e.write(at(1), "task", saver.ChannelTasks, "send")
		e.put(step{v: 3, id: id(2), parent: id(1), ns: ""})
		done := e.prune(saver.KeepLatest, "t")
		e.equal("kept", done.Kept, []saver.Kept{{ThreadID: "t", CheckpointID: id(1), For: id(2), Channel: saver.ChannelTasks, Reason: saver.KeptForPackets}})
	}},
	{id: "kept", name: "the list is bounded, the count is not", fn: func(e *env) {
		e.deltas(saver.MaxKept+20, map[int]any{1: "seed"})
		done := e.prune(saver.KeepLatest, "t")
		e.equal("kept", []int{len(done.Kept), done.KeptTotal}, []int{saver.MaxKept, saver.MaxKept + 19})
		e.equal("the first", done.Kept[0].CheckpointID, id(1))
	}},
	{id: "runs", name: "unchanged values outlive the run that stored them", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "value"}, md: saver.Metadata{"run_id": "r1"}})
		e.put(step{id: id(2), parent: id(1), vers: map[string]any{"a": 1}, fresh: []string{}, md: saver.Metadata{"run_id": "r2"}})
		e.deleteRuns("r1")
		e.values(e.get(head), map[string]any{"a": "value"})
		e.equal("parent", *e.get(head).Parent, at(1))
		e.put(step{id: id(3), parent: id(2), vers: map[string]any{"a": 1}, fresh: []string{}})
		e.values(e.get(head), map[string]any{"a": "value"})
	}},
}
