package savertest

import (
	"github.com/stele-go/stele/saver"
)

func (e *env) deleteThread(thread string) {
	e.Helper()
	e.ok("delete "+thread, e.s.DeleteThread(e.ctx, thread))
}

func (e *env) deleteRuns(runs ...string) saver.Removal {
	e.Helper()
	done, err := e.s.DeleteForRuns(e.ctx, runs, nil)
	e.ok("delete for runs", err)
	return done
}

func (e *env) copyThread(src, dst string) {
	e.Helper()
	e.ok("copy", e.s.CopyThread(e.ctx, src, dst))
}

func (e *env) prune(strategy saver.PruneStrategy, threads ...string) saver.Removal {
	e.Helper()
	done, err := e.s.Prune(e.ctx, threads, strategy)
	e.ok("prune", err)
	return done
}

// runs puts checkpoints 1 to 3 of runs r1 to r3, and one of r1 in a namespace.
func (e *env) runs() {
	e.Helper()
	for n, run := range []string{"r1", "r2", "r3"} {
		st := step{id: id(n + 1), md: saver.Metadata{"run_id": run}}
		if n > 0 {
			st.parent = id(n)
		}
		e.write(e.put(st), "task", "ch", run)
	}
	e.put(step{id: id(4), ns: "child", md: saver.Metadata{"run_id": "r1"}})
	e.put(step{id: id(5), md: saver.Metadata{"source": "input"}})
}

var removeCases = []testCase{
	{id: "DEL-01", name: "delete a thread", fn: func(e *env) {
		e.chain(1, 3)
		e.put(step{id: id(4), ns: "child:1"})
		e.write(at(3), "task", "ch", "v")
		e.deleteThread("t")
		e.gone(head)
		e.gone(at(2))
		e.gone(saver.Config{ThreadID: "t", Namespace: "child:1"})
		e.listed(saver.Query{ThreadID: "t"})
		e.listed(saver.Query{})
	}},
	{id: "DEL-01", name: "writes do not come back", fn: func(e *env) {
		e.chain(1, 1)
		e.write(at(1), "task", "ch", "v")
		e.deleteThread("t")
		e.put(step{id: id(1)})
		e.pending(e.get(head))
	}},
	{id: "DEL-01", name: "values do not come back", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"k": "old"}})
		e.deleteThread("t")
		e.put(step{id: id(2), vers: map[string]any{"k": 1}, fresh: []string{}})
		e.values(e.get(head), map[string]any{})
	}},
	{id: "DEL-02", name: "other threads stay", fn: func(e *env) {
		e.chain(1, 2)
		e.put(step{thread: "t2", id: id(3)})
		e.put(step{thread: "t0", id: id(4)})
		e.deleteThread("t")
		e.listed(saver.Query{}, 4, 3)
	}},
	{id: "DEL-02", name: "an unknown thread", fn: func(e *env) {
		e.chain(1, 1)
		e.unchanged("deleting an unknown thread", func() { e.deleteThread("unknown") })
	}},
	{id: "DEL-03", name: "delete for runs", fn: func(e *env) {
		e.runs()
		e.deleteRuns("r1")
		e.listed(saver.Query{ThreadID: "t"}, 5, 3, 2)
		e.pending(e.get(at(2)), "task", "ch", "r2")
		e.put(step{id: id(1)})
		e.pending(e.get(at(1)))
	}},
	{id: "DEL-03", name: "delete for several runs in all threads", fn: func(e *env) {
		e.runs()
		e.put(step{thread: "u", id: id(6), md: saver.Metadata{"run_id": "r2"}})
		e.deleteRuns("r1", "r2")
		e.listed(saver.Query{}, 5, 3)
		e.gone(saver.Config{ThreadID: "u"})
	}},
	{id: "DEL-03", name: "delete for runs under a lease, in its thread", fn: func(e *env) {
		e.runs()
		e.copyThread("t", "u")
		lease := e.owns("u")
		defer lease.Release()
		done, err := e.s.DeleteForRuns(e.ctx, []string{"r1"}, lease)
		e.ok("delete for runs", err)
		e.equal("checkpoints", done.Checkpoints, 2)
		e.listed(saver.Query{ThreadID: "u"}, 5, 3, 2)
		e.listed(saver.Query{ThreadID: "t"}, 5, 4, 3, 2, 1)
		e.deleteRuns("r1") // the others are still found
		e.listed(saver.Query{ThreadID: "t"}, 5, 3, 2)
	}},
	{id: "DEL-04", name: "no run, unknown runs, no name", fn: func(e *env) {
		e.runs()
		e.unchanged("deleting nothing", func() {
			e.deleteRuns()
			e.deleteRuns("r9")
			e.deleteRuns("")
		})
	}},
	{id: "DEL-05", name: "copy a thread", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": 1}, md: saver.Metadata{"step": 1}})
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"b": 2}, vers: map[string]any{"a": 1, "b": 1}, fresh: []string{"b"}})
		e.put(step{id: id(3), ns: "child", values: map[string]any{"c": 3}})
		e.write(at(2), "task", "ch", "v")
		e.write(at(7), "task", "ch", "early")
		e.copyThread("t", "copy")
		e.listed(saver.Query{ThreadID: "copy"}, 3, 2, 1)
		e.equal("metadata", e.get(saver.Config{ThreadID: "copy", CheckpointID: id(1)}).Metadata, saver.Metadata{"step": 1})
		tup := e.get(saver.Config{ThreadID: "copy"})
		e.values(tup, map[string]any{"a": 1, "b": 2})
		e.pending(tup, "task", "ch", "v")
		e.equal("parent", *tup.Parent, saver.Config{ThreadID: "copy", CheckpointID: id(1)})
		e.values(e.get(saver.Config{ThreadID: "copy", Namespace: "child"}), map[string]any{"c": 3})
		e.put(step{thread: "copy", id: id(7)})
		e.pending(e.get(saver.Config{ThreadID: "copy"}), "task", "ch", "early")
	}},
	{id: "DEL-06", name: "the source stays, and the two live apart", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": 1}})
		e.copyThread("t", "copy")
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"a": "source"}, vers: map[string]any{"a": 2}})
		e.put(step{thread: "copy", id: id(2), parent: id(1), values: map[string]any{"a": "copy"}, vers: map[string]any{"a": 2}})
		e.write(at(1), "task", "ch", "source")
		e.values(e.get(head), map[string]any{"a": "source"})
		e.values(e.get(saver.Config{ThreadID: "copy"}), map[string]any{"a": "copy"})
		e.pending(e.get(saver.Config{ThreadID: "copy", CheckpointID: id(1)}))
		e.deleteThread("t")
		e.values(e.get(saver.Config{ThreadID: "copy", CheckpointID: id(1)}), map[string]any{"a": 1})
	}},
	{id: "DEL-06", name: "an unknown source, an occupied target", fn: func(e *env) {
		e.chain(1, 1)
		e.write(saver.Config{ThreadID: "w", CheckpointID: id(1)}, "task", "ch", "v")
		e.unchanged("copies that cannot be", func() {
			e.copyThread("unknown", "copy")
			e.fails("copy onto itself", e.s.CopyThread(e.ctx, "t", "t"), saver.ErrThreadExists)
			e.fails("copy onto writes", e.s.CopyThread(e.ctx, "t", "w"), saver.ErrThreadExists)
			e.fails("unknown onto a thread", e.s.CopyThread(e.ctx, "unknown", "t"), saver.ErrThreadExists)
		})
		e.gone(saver.Config{ThreadID: "copy"})
	}},
	{id: "DEL-07", name: "prune to the latest of each namespace", fn: func(e *env) {
		e.chain(1, 4)
		for n := 5; n <= 6; n++ {
			e.put(step{id: id(n), ns: "child:1"})
		}
		e.chainIn("u", 7, 9)
		e.write(at(4), "task", "ch", "v")
		e.write(at(3), "task", "ch", "old")
		e.prune(saver.KeepLatest, "t", "u")
		e.listed(saver.Query{}, 9, 6, 4)
		e.pending(e.get(head), "task", "ch", "v")
		e.put(step{id: id(3)})
		e.pending(e.get(at(3)))
	}},
	{id: "DEL-07", name: "the latest reads as before", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"old": "kept", "gone": 1}})
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"new": 2}, vers: map[string]any{"old": 1, "gone": 2, "new": 1}, fresh: []string{"gone", "new"}})
		e.prune(saver.KeepLatest, "t")
		e.listed(saver.Query{ThreadID: "t"}, 2)
		e.values(e.get(head), map[string]any{"old": "kept", "new": 2})
		e.put(step{id: id(3), parent: id(2), vers: map[string]any{"old": 1, "new": 1}, fresh: []string{}})
		e.values(e.get(head), map[string]any{"old": "kept", "new": 2})
	}},
	{id: "DEL-08", name: "prune everything", fn: func(e *env) {
		e.chain(1, 3)
		e.chainIn("u", 4, 5)
		e.prune(saver.PruneAll, "t")
		e.listed(saver.Query{}, 5, 4)
	}},
	{id: "DEL-08", name: "prune nothing", fn: func(e *env) {
		e.chain(1, 3)
		e.unchanged("pruning nothing", func() {
			e.prune(saver.KeepLatest)
			e.prune(saver.PruneAll)
			e.prune(saver.KeepLatest, "unknown")
			e.prune(saver.PruneAll, "unknown")
		})
	}},
}

// chainIn is chain in another thread.
func (e *env) chainIn(thread string, from, to int) {
	e.Helper()
	for n := from; n <= to; n++ {
		st := step{thread: thread, id: id(n)}
		if n > from {
			st.parent = id(n - 1)
		}
		e.put(st)
	}
}
