package savertest

import (
	"github.com/stele-go/stele/saver"
)

func (e *env) tryWrite(cfg saver.Config) error {
	e.Helper()
	return e.s.PutWrites(e.ctx, cfg, writes("ch", "late"), "late", "")
}

// refused checks that calls which hang on deleted data are refused, and that
// they write nothing.
func (e *env) refused(call func() error) {
	e.Helper()
	e.unchanged("a call on a deleted thread", func() { e.fails("call", call(), saver.ErrThreadDeleted) })
}

var deletedCases = []testCase{
	{id: "deleted", name: "late writes are refused", fn: func(e *env) {
		e.chain(1, 3)
		e.put(step{id: id(4), ns: "child"})
		e.deleteThread("t")
		for _, cfg := range []saver.Config{at(1), at(3), at(9), {ThreadID: "t", Namespace: "child", CheckpointID: id(4)},
			{ThreadID: "t", Namespace: "new", CheckpointID: id(9)}} {
			e.refused(func() error { return e.tryWrite(cfg) })
		}
		e.ok("another thread", e.tryWrite(saver.Config{ThreadID: "t2", CheckpointID: id(1)}))
	}},
	{id: "deleted", name: "a late checkpoint is refused", fn: func(e *env) {
		e.chain(1, 3)
		e.deleteThread("t")
		e.refused(func() error { _, err := e.tryPut(step{id: id(4), parent: id(3)}); return err })
		e.refused(func() error { _, err := e.tryPut(step{id: id(4), parent: id(9)}); return err })
		e.refused(func() error { _, err := e.tryPut(step{id: id(4), ns: "child", parent: id(3)}); return err })
		e.refused(func() error { return e.putIf(id(3), step{id: id(4), parent: id(3)}) })
		e.gone(head)
	}},
	{id: "deleted", name: "a checkpoint without a parent starts anew", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "old", "b": "old"}})
		e.write(at(1), "task", "ch", "old")
		e.deleteThread("t")
		e.ok("first of the new life", e.putIf("", step{id: id(5), values: map[string]any{"a": "new"}, vers: map[string]any{"a": 1, "b": 1}, fresh: []string{"a"}}))
		e.values(e.get(head), map[string]any{"a": "new"})
		e.put(step{id: id(6), parent: id(5), vers: map[string]any{"a": 1}, fresh: []string{}})
		e.values(e.get(head), map[string]any{"a": "new"})
		e.listed(saver.Query{}, 6, 5)
		e.ok("writes of the new life", e.tryWrite(at(6)))
	}},
	{id: "deleted", name: "the old run does not reach into the new life", fn: func(e *env) {
		e.chain(1, 3)
		e.deleteThread("t")
		e.put(step{id: id(5)})
		e.refused(func() error { return e.tryWrite(at(2)) })
		e.refused(func() error { return e.tryWrite(at(3)) })
		e.refused(func() error { return e.tryWrite(saver.Config{ThreadID: "t", Namespace: "child", CheckpointID: id(3)}) })
		e.refused(func() error { _, err := e.tryPut(step{id: id(4), parent: id(3)}); return err })
		e.ok("writes before a newer checkpoint", e.tryWrite(at(6)))
		e.put(step{id: id(2)}) // an old id in the new life
		e.ok("writes to it", e.tryWrite(at(2)))
		e.put(step{id: id(7), parent: id(2)})
	}},
	{id: "deleted", name: "deleted twice, both lives are remembered", fn: func(e *env) {
		e.chain(1, 8)
		e.deleteThread("t")
		e.put(step{id: id(2)})
		e.deleteThread("t")
		e.put(step{id: id(3)})
		e.refused(func() error { return e.tryWrite(at(8)) })
		e.refused(func() error { return e.tryWrite(at(2)) })
		e.ok("above both", e.tryWrite(at(9)))
	}},
	{id: "deleted", name: "a thread of writes alone", fn: func(e *env) {
		e.ok("writes", e.tryWrite(at(3)))
		e.deleteThread("t")
		e.refused(func() error { return e.tryWrite(at(3)) })
		e.put(step{id: id(4)})
		e.refused(func() error { return e.tryWrite(at(3)) })
		e.ok("above it", e.tryWrite(at(5)))
	}},
	{id: "deleted", name: "a thread that was never there is not remembered", fn: func(e *env) {
		e.deleteThread("t")
		e.ok("writes", e.tryWrite(at(1)))
		e.put(step{id: id(3), parent: id(2)})
		e.equal("a parent that is not there", *e.get(at(3)).Parent, at(2))
	}},
	{id: "deleted", name: "prune to nothing is deletion", fn: func(e *env) {
		e.chain(1, 3)
		e.prune(saver.PruneAll, "t")
		e.refused(func() error { return e.tryWrite(at(9)) })
		e.refused(func() error { _, err := e.tryPut(step{id: id(4), parent: id(3)}); return err })
		e.put(step{id: id(5)})
		e.refused(func() error { return e.tryWrite(at(3)) }) // its ids are remembered
	}},
	{id: "deleted", name: "pruning to the latest is not", fn: func(e *env) {
		e.chain(1, 3)
		e.prune(saver.KeepLatest, "t")
		e.ok("writes to a pruned checkpoint", e.tryWrite(at(1)))
		e.put(step{id: id(4), parent: id(2)})
	}},
	{id: "deleted", name: "nor is deleting runs", fn: func(e *env) {
		e.put(step{id: id(1), md: saver.Metadata{"run_id": "r"}})
		e.deleteRuns("r")
		e.listed(saver.Query{})
		e.put(step{id: id(2), parent: id(1)})
		e.ok("writes", e.tryWrite(at(1)))
	}},
	{id: "deleted", name: "a copy to the id ends the memory", fn: func(e *env) {
		e.chain(1, 3)
		e.put(step{thread: "u", id: id(7)})
		e.deleteThread("t")
		e.copyThread("unknown", "t")
		e.refused(func() error { return e.tryWrite(at(2)) })
		e.copyThread("u", "t")
		e.ok("writes", e.tryWrite(at(2)))
		e.put(step{id: id(4), parent: id(3)})
		e.listed(saver.Query{ThreadID: "t"}, 7, 4)
	}},
	{id: "deleted", name: "a request may start anew, but not write to the old", fn: func(e *env) {
		e.chain(1, 3)
		e.deleteThread("t")
		req := e.request(step{id: id(4)})
		req.Writes = []saver.TaskWrites{{TaskID: "task", Writes: writes("ch", 1)}, {CheckpointID: id(3), TaskID: "task", Writes: writes("ch", 2)}}
		e.refused(func() error { _, err := e.putRequest(req); return err })
		req.Writes = req.Writes[:1]
		_, err := e.putRequest(req)
		e.ok("put", err)
		e.pending(e.get(head), "task", "ch", 1)
	}},
}
