package savertest

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/saver"
)

// conflict checks that err is a ConflictError with these heads.
func (e *env) conflict(err error, expected, found string) {
	e.Helper()
	e.fails("put", err, saver.ErrConflict)
	var c *saver.ConflictError
	if !errors.As(err, &c) {
		e.Fatalf("error %v (%T) is no ConflictError", err, err)
	}
	e.equal("conflict", []any{c.ThreadID, c.Expected, c.Head}, []any{"t", expected, found})
}

// putIf is put on the condition that the head is expected.
func (e *env) putIf(expected string, st step) error {
	e.Helper()
	req := e.request(st)
	req.Config.ExpectHead = saver.Head(expected)
	_, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
	return err
}

func (e *env) putRequest(req saver.PutRequest) (saver.Config, error) {
	e.Helper()
	return e.s.PutRequest(e.ctx, req)
}

var conflictCases = []testCase{
	{id: "expect head", name: "one of two writers wins", fn: func(e *env) {
		e.chain(1, 1)
		e.ok("first", e.putIf(id(1), step{id: id(2), parent: id(1), values: map[string]any{"a": "first"}}))
		e.unchanged("the loser", func() {
			e.conflict(e.putIf(id(1), step{id: id(3), parent: id(1), values: map[string]any{"a": "second"}}), id(1), id(2))
		})
		e.ok("the loser, on the new head", e.putIf(id(2), step{id: id(3), parent: id(2)}))
	}},
	{id: "expect head", name: "of an empty thread", fn: func(e *env) {
		e.conflict(e.putIf(id(1), step{id: id(2), parent: id(1)}), id(1), "")
		e.listed(saver.Query{})
		e.ok("expecting nothing", e.putIf("", step{id: id(1)}))
		e.conflict(e.putIf("", step{id: id(2)}), "", id(1))
	}},
	{id: "expect head", name: "of the namespace", fn: func(e *env) {
		e.chain(1, 3)
		e.ok("first of a namespace", e.putIf("", step{id: id(1), ns: "child"}))
		e.ok("second", e.putIf(id(1), step{id: id(2), ns: "child", parent: id(1)}))
		e.conflict(e.putIf(id(2), step{id: id(4)}), id(2), id(3))
	}},
	{id: "expect head", name: "the head is the greatest id", fn: func(e *env) {
		e.chain(1, 3)
		e.put(step{id: id(0)})
		e.ok("put again on the head", e.putIf(id(3), step{id: id(3), md: saver.Metadata{"again": true}}))
		e.conflict(e.putIf(id(0), step{id: id(4)}), id(0), id(3))
	}},
	{id: "expect head", name: "many writers, one head", fn: func(e *env) {
		e.chain(1, 1)
		won := 0
		for _, err := range e.concurrently(16, func(i int) error {
			return e.putIf(id(1), step{id: id(100 + i), parent: id(1), values: map[string]any{"writer": i}})
		}) {
			switch {
			case err == nil:
				won++
			default:
				e.fails("put", err, saver.ErrConflict)
			}
		}
		e.equal("winners", won, 1)
		e.equal("checkpoints", len(e.list(saver.Query{ThreadID: "t"})), 2)
	}},
	{id: "request", name: "checkpoint and writes in one step", fn: func(e *env) {
		e.chain(1, 1)
		req := e.request(step{id: id(2), parent: id(1), values: map[string]any{"a": 1}})
		req.Writes = []saver.TaskWrites{
			{TaskID: "new", TaskPath: "p", Writes: writes("ch", "on the new one")},
			{CheckpointID: id(1), TaskID: "old", Writes: writes("ch", "on the parent", "ch2", 2)},
			{TaskID: "none"},
		}
		cfg, err := e.putRequest(req)
		e.ok("put", err)
		e.equal("config", cfg, at(2))
		e.values(e.get(head), map[string]any{"a": 1})
		e.pending(e.get(head), "new", "ch", "on the new one")
		e.pending(e.get(at(1)), "old", "ch", "on the parent", "old", "ch2", 2)
	}},
	{id: "request", name: "all or nothing", fn: func(e *env) {
		e.chain(1, 2)
		base := func() saver.PutRequest {
			req := e.request(step{id: id(3), parent: id(2), values: map[string]any{"a": 1}})
			req.Writes = []saver.TaskWrites{{TaskID: "task", Writes: writes("ch", 1)}, {CheckpointID: id(1), TaskID: "task", Writes: writes("ch", 2)}}
			return req
		}
		e.unchanged("refused requests", func() {
			req := base()
			req.Config.ExpectHead = saver.Head(id(1))
			_, err := e.putRequest(req)
			e.conflict(err, id(1), id(2))
			req = base()
			req.Writes[1].TaskID = ""
			_, err = e.putRequest(req)
			e.fails("no task", err, saver.ErrInvalid)
			req = base()
			req.Writes[1].Writes = []saver.Write{{Channel: "ch"}}
			_, err = e.putRequest(req)
			e.fails("no value", err, saver.ErrInvalid)
			req = base()
			req.Writes[1].Writes = writes("ch", make(chan int))
			if _, err = e.putRequest(req); err == nil {
				e.Fatalf("a channel was serialized")
			}
			for _, from := range []saver.Config{{ThreadID: "u", CheckpointID: id(1)}, {ThreadID: "t", Namespace: "n", CheckpointID: id(1)}, {ThreadID: "t"}} {
				req = base()
				req.ValuesFrom = &from
				_, err = e.putRequest(req)
				e.fails(fmt.Sprintf("values from %+v", from), err, saver.ErrInvalid)
			}
			req, missing := base(), at(9)
			req.ValuesFrom = &missing
			_, err = e.putRequest(req)
			e.fails("values from nowhere", err, saver.ErrNotFound)
		})
		_, err := e.putRequest(base())
		e.ok("the request itself", err)
		e.pending(e.get(at(1)), "task", "ch", 2)
	}},
}
