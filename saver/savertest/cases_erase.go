package savertest

import (
	"strings"

	"github.com/stele-go/stele/saver"
)

func (e *env) erase(threads ...string) {
	e.Helper()
	e.ok("erase "+strings.Join(threads, ", "), e.s.(saver.Eraser).Erase(e.ctx, threads...))
}

var eraseCases = []testCase{
	{id: "erase", name: "nothing of the thread is left, others stay", needs: PowerEraser, fn: func(e *env) {
		e.heavy("t", 1, 3)
		e.put(step{ns: "sub", id: id(4), md: saver.Metadata{"run_id": "r"}})
		e.heavy("t2", 1, 2)
		e.erase("t")
		e.listed(saver.Query{ThreadID: "t"})
		e.gone(head)
		e.listed(saver.Query{ThreadID: "t2"}, 2, 1)
		e.unchanged("erasing again, or nobody", func() { e.erase("t"); e.erase("nobody") })
	}},
	{id: "erase", name: "several threads in one call", needs: PowerEraser, fn: func(e *env) {
		for _, thread := range []string{"t", "u", "v", "t2"} {
			e.heavy(thread, 1, 2)
		}
		e.erase("v", "t", "nobody", "v", "u")
		for _, thread := range []string{"t", "u", "v"} {
			e.listed(saver.Query{ThreadID: thread})
			e.refused(func() error {
				return e.tryWrite(saver.Config{ThreadID: thread, CheckpointID: id(1)})
			})
		}
		e.listed(saver.Query{ThreadID: "t2"}, 2, 1)
		e.unchanged("erasing none", func() { e.erase() })
	}},
	{id: "erase", name: "late writes are refused, a new life is not", needs: PowerEraser, fn: func(e *env) {
		e.heavy("t", 1, 3)
		e.erase("t")
		e.refused(func() error { return e.tryWrite(at(3)) })
		e.refused(func() error { return e.tryWrite(at(9)) })
		e.refused(func() error { _, err := e.tryPut(step{id: id(4), parent: id(3)}); return err })
		e.put(step{id: id(5), values: map[string]any{"a": "new"}})
		e.refused(func() error { return e.tryWrite(at(2)) })
		e.ok("a write to the new life", e.tryWrite(at(5)))
		e.put(step{id: id(6), parent: id(5)})
		e.listed(saver.Query{}, 6, 5)
	}},
	{id: "erase", name: "a thread deleted before is erased as well", needs: PowerEraser, fn: func(e *env) {
		e.heavy("t", 1, 3)
		e.deleteThread("t")
		e.erase("t")
		e.refused(func() error { return e.tryWrite(at(9)) })
		e.refused(func() error { _, err := e.tryPut(step{id: id(4), parent: id(3)}); return err })
	}},
	{id: "erase", name: "bad ids are refused", needs: PowerEraser, fn: func(e *env) {
		e.heavy("t", 1, 2)
		e.unchanged("bad ids", func() {
			e.fails("no id", e.s.(saver.Eraser).Erase(e.ctx, ""), saver.ErrInvalid)
			e.fails("long id", e.s.(saver.Eraser).Erase(e.ctx, strings.Repeat("x", 1<<20)), saver.ErrTooLarge)
			e.fails("a bad id after a good one", e.s.(saver.Eraser).Erase(e.ctx, "t", ""), saver.ErrInvalid)
		})
	}},
	{id: "erase", name: "an erased id may become a copy", fn: func(e *env) {
		s, ok := e.s.(saver.Eraser)
		if !ok {
			return // the cases above say so
		}
		e.heavy("src", 1, 2)
		e.ok("erase", s.Erase(e.ctx, "t"))
		e.ok("copy", e.s.CopyThread(e.ctx, "src", "t"))
		e.ok("a write to the copy", e.tryWrite(at(9)))
		e.listed(saver.Query{ThreadID: "t"}, 2, 1)
	}},
	{id: "erase", name: "a copy keeps what it shares", fn: func(e *env) {
		s, ok := e.s.(saver.Eraser)
		if !ok {
			return
		}
		e.heavy("t", 1, 2)
		e.ok("copy", e.s.CopyThread(e.ctx, "t", "copy"))
		e.ok("erase", s.Erase(e.ctx, "t"))
		e.listed(saver.Query{ThreadID: "copy"}, 2, 1)
		e.values(e.get(saver.Config{ThreadID: "copy", CheckpointID: id(1)}), map[string]any{"v": noise("t" + id(1))})
	}},
}
