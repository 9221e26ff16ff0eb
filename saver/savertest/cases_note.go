package savertest

import (
	"context"
	"slices"

	"github.com/stele-go/stele/saver"
)

// noted checks the note of the checkpoint that cfg names, read alone and in a listing.
func (e *env) noted(cfg saver.Config, want *saver.Note) {
	e.Helper()
	tup := e.get(cfg)
	e.equal("note", tup.Note, want)
	for _, listed := range e.list(saver.Query{ThreadID: tup.Config.ThreadID, Namespace: saver.InNamespace(cfg.Namespace), CheckpointID: tup.Config.CheckpointID}) {
		e.equal("listed note", listed.Note, want)
	}
}

// status checks the status, the graph and the next nodes that Threads reports of thread t.
func (e *env) status(want saver.Status, graph string, next ...string) {
	e.Helper()
	infos := e.threads(saver.ThreadQuery{Prefix: "t"})
	e.equal("threads", len(infos), 1)
	e.equal("status, graph and next", []any{infos[0].Status, infos[0].Graph, infos[0].Next}, []any{want, graph, next})
	for _, asked := range []saver.Status{saver.StatusDone, saver.StatusWaiting, saver.StatusFailed, saver.StatusUnfinished} {
		selected := len(e.threads(saver.ThreadQuery{Prefix: "t", Status: asked})) == 1
		e.equal("selected by "+string(asked), selected, asked == want)
	}
}

// goesOn is the note of a checkpoint upon which node runs.
func goesOn(node string) *saver.Note { return &saver.Note{Graph: "g", Next: []string{node}} }

var noteCases = []testCase{
	{id: "note", name: "comes back as it was put", fn: func(e *env) {
		notes := []*saver.Note{
			nil, {}, {Graph: "LangGraph"}, {Graph: "my graph", Next: []string{"agent"}, Version: "v 2"},
			{Graph: "g", Next: []string{"ü", "", "agent", "a"}, Stop: saver.StopBreakpoint},
			{Graph: "LangGraph", Next: []string{"ch"}, Stop: saver.StopSteps, Deltas: []string{"ch", "other"}},
			{Version: "a\x00b"}, {Graph: "ch", Version: "ch"}, {Next: []string{"a\x00b"}, Deltas: []string{"", "ch", "messages"}},
		}
		for n, note := range notes {
			cfg := e.put(step{id: id(n + 1), values: map[string]any{"ch": n}, note: note})
			e.noted(cfg, note)
			e.values(e.get(cfg), map[string]any{"ch": n})
		}
	}},
	{id: "note", name: "is no part of LangGraph's data", fn: func(e *env) {
		st := step{id: id(1), values: map[string]any{"ch": 1}, md: saver.Metadata{"source": "loop", "step": 3}}
		e.put(st)
		plain := e.get(head)
		st.note = &saver.Note{Graph: "g", Next: []string{"n"}, Stop: saver.StopBreakpoint, Deltas: []string{"ch"}}
		e.put(st)
		tup := e.get(head)
		e.equal("metadata", tup.Metadata, plain.Metadata)
		e.equal("versions", tup.Checkpoint.Versions, plain.Checkpoint.Versions)
		e.equal("seen and updated", []any{tup.Checkpoint.Seen, tup.Checkpoint.Updated, tup.Checkpoint.V, tup.Checkpoint.TS},
			[]any{plain.Checkpoint.Seen, plain.Checkpoint.Updated, plain.Checkpoint.V, plain.Checkpoint.TS})
		e.values(tup, map[string]any{"ch": 1})
		e.pending(tup)
	}},
	{id: "note", name: "is the caller's to change afterwards", fn: func(e *env) {
		note := &saver.Note{Graph: "g", Next: []string{"n"}, Deltas: []string{"d"}, Version: "v"}
		cfg := e.put(step{id: id(1), note: note})
		note.Next[0], note.Deltas[0] = "changed", "changed"
		read := e.get(cfg).Note
		e.equal("note", read, &saver.Note{Graph: "g", Next: []string{"n"}, Deltas: []string{"d"}, Version: "v"})
		read.Next[0] = "changed by a reader"
		e.noted(cfg, &saver.Note{Graph: "g", Next: []string{"n"}, Deltas: []string{"d"}, Version: "v"})
	}},
	{id: "note", name: "another put replaces it", fn: func(e *env) {
		e.put(step{id: id(1), note: goesOn("one")})
		e.status(saver.StatusUnfinished, "g", "one")
		e.put(step{id: id(1), note: goesOn("two")})
		e.noted(head, goesOn("two"))
		e.status(saver.StatusUnfinished, "g", "two")
		e.put(step{id: id(1)})
		e.noted(head, nil)
		e.status(saver.StatusUnknown, "")
	}},
	{id: "note", name: "each namespace has its own", fn: func(e *env) {
		child := saver.Config{ThreadID: "t", Namespace: "child:1"}
		e.put(step{id: id(1), note: goesOn("root")})
		e.put(step{id: id(2), ns: "child:1", note: &saver.Note{Graph: "inner"}})
		e.noted(head, goesOn("root"))
		e.noted(child, &saver.Note{Graph: "inner"})
		e.status(saver.StatusUnfinished, "g", "root")
	}},
	{id: "note", name: "what cannot be is refused", fn: func(e *env) {
		e.put(step{id: id(1), note: goesOn("n")})
		long := string(make([]byte, 2000))
		e.unchanged("bad notes", func() {
			for _, bad := range []*saver.Note{{Stop: "later"}, {Deltas: []string{"b", "a"}}, {Deltas: []string{"a", "a"}}} {
				_, err := e.tryPut(step{id: id(2), note: bad})
				e.fails("put", err, saver.ErrInvalid)
			}
			for _, bad := range []*saver.Note{{Graph: long}, {Next: []string{long}}, {Deltas: []string{long}}, {Version: long}} {
				_, err := e.tryPut(step{id: id(2), note: bad})
				e.fails("put", err, saver.ErrTooLarge)
			}
		})
	}},
	{id: "note", name: "a copy has it", fn: func(e *env) {
		e.put(step{id: id(1), note: goesOn("n")})
		e.ok("copy", e.s.CopyThread(e.ctx, "t", "copy"))
		e.put(step{id: id(2), parent: id(1), note: &saver.Note{Graph: "g"}})
		e.noted(saver.Config{ThreadID: "copy"}, goesOn("n"))
		e.noted(head, &saver.Note{Graph: "g"})
	}},
	{id: "note", name: "goes with its checkpoint", fn: func(e *env) {
		e.put(step{id: id(1), note: goesOn("old")})
		e.put(step{id: id(2), parent: id(1), note: goesOn("new")})
		_, err := e.s.Prune(e.ctx, []string{"t"}, saver.KeepLatest)
		e.ok("prune", err)
		e.put(step{id: id(1)})
		e.noted(at(1), nil)
		e.noted(head, goesOn("new"))
		e.deleteThread("t")
		e.put(step{id: id(2)})
		e.noted(head, nil)
	}},
	{id: "note", name: "the life of a run", fn: func(e *env) {
		e.put(step{id: id(1), note: goesOn("agent")})
		e.status(saver.StatusUnfinished, "g", "agent")
		e.write(at(1), "task", "ch", "v")
		e.status(saver.StatusUnfinished, "g", "agent")
		e.put(step{id: id(2), parent: id(1), note: &saver.Note{Graph: "g", Next: []string{"ask", "other"}}})
		e.write(at(2), "other", "ch", "v")
		e.write(at(2), "task", saver.ChannelInterrupt, "ask")
		e.status(saver.StatusWaiting, "g", "ask", "other")
		e.write(at(2), saver.NullTaskID, saver.ChannelResume, "answer")
		e.status(saver.StatusUnfinished, "g", "ask", "other")
		e.write(at(2), "task", saver.ChannelError, "failed")
		e.status(saver.StatusFailed, "g", "ask", "other")
		e.write(at(2), "task", "ch", "done")
		e.status(saver.StatusUnfinished, "g", "ask", "other")
		e.put(step{id: id(3), parent: id(2), note: &saver.Note{Graph: "g"}})
		e.status(saver.StatusDone, "")
		e.write(at(3), "input", "ch", "the next checkpoint has it")
		e.status(saver.StatusDone, "")
		e.write(at(3), saver.NullTaskID, "branch:to:agent", nil)
		e.status(saver.StatusUnfinished, "g")
		e.write(at(3), "task", saver.ChannelInterrupt, "ask")
		e.status(saver.StatusWaiting, "g")
	}},
	{id: "note", name: "a failure ends what its task waits for", fn: func(e *env) {
		e.put(step{id: id(1), note: goesOn("n")})
		e.write(at(1), "task", saver.ChannelInterrupt, "sleeps")
		e.status(saver.StatusWaiting, "g", "n")
		e.write(at(1), "task", saver.ChannelError, "failed", saver.ChannelInterrupt, []any{})
		e.status(saver.StatusFailed, "g", "n")
		e.write(at(1), "task", saver.ChannelInterrupt, "the question that refused its answer", saver.ChannelError, "refused")
		e.status(saver.StatusWaiting, "g", "n")
	}},
	{id: "note", name: "why a run stops", fn: func(e *env) {
		e.put(step{id: id(1), note: &saver.Note{Graph: "g", Next: []string{"n"}, Stop: saver.StopBreakpoint}})
		e.status(saver.StatusWaiting, "g", "n")
		e.write(at(1), "task", "ch", "v")
		e.status(saver.StatusUnfinished, "g", "n")
		e.put(step{id: id(2), parent: id(1), note: &saver.Note{Graph: "g", Next: []string{"n"}, Stop: saver.StopSteps}})
		e.status(saver.StatusFailed, "g", "n")
		e.write(at(2), "task", "ch", "v")
		e.status(saver.StatusUnfinished, "g", "n")
		e.put(step{id: id(3), parent: id(2)})
		e.status(saver.StatusUnknown, "")
		e.write(at(3), "task", saver.ChannelError, "failed")
		e.status(saver.StatusFailed, "")
	}},
	{id: "note", name: "writes before their checkpoint count", fn: func(e *env) {
		e.put(step{id: id(1), note: &saver.Note{Graph: "g"}})
		e.write(at(2), "task", saver.ChannelError, "failed")
		e.status(saver.StatusDone, "")
		e.put(step{id: id(2), parent: id(1), note: goesOn("n")})
		e.status(saver.StatusFailed, "g", "n")
	}},
	{id: "note", name: "an unknown status is refused", fn: func(e *env) {
		for _, err := range e.s.Threads(e.ctx, saver.ThreadQuery{Status: "lost"}) {
			e.fails("threads", err, saver.ErrInvalid)
		}
	}},
}

// attempt counts an attempt at the checkpoint cfg names, and checks the number.
func (e *env) attempt(cfg saver.Config, want int) {
	e.Helper()
	n, err := e.s.CountAttempt(e.ctx, cfg)
	e.ok("count attempt", err)
	e.equal("attempts", n, want)
}

var attemptCases = []testCase{
	{id: "attempts", name: "are counted for each checkpoint", fn: func(e *env) {
		e.chain(1, 2)
		e.put(step{id: id(2), ns: "child"})
		e.attempt(at(1), 1)
		e.attempt(at(2), 1)
		e.attempt(head, 2)
		e.attempt(saver.Config{ThreadID: "t", Namespace: "child"}, 1)
		e.attempt(at(2), 3)
		e.attempt(at(1), 2)
		e.chain(2, 2)
		e.attempt(at(2), 4)
	}},
	{id: "attempts", name: "are not seen", fn: func(e *env) {
		e.chain(1, 2)
		e.write(at(2), "task", "ch", "v")
		before := e.get(head)
		e.attempt(head, 1)
		after := e.get(head)
		e.equal("metadata", after.Metadata, before.Metadata)
		e.pending(after, "task", "ch", "v")
		e.listed(saver.Query{}, 2, 1)
		e.deltasFrom(3, 3, nil)
		e.attempt(head, 1)
	}},
	{id: "attempts", name: "go with their checkpoint", fn: func(e *env) {
		e.chain(1, 3)
		for n := 1; n <= 3; n++ {
			e.attempt(at(n), 1)
		}
		_, err := e.s.Prune(e.ctx, []string{"t"}, saver.KeepLatest)
		e.ok("prune", err)
		e.chain(1, 1)
		e.attempt(at(1), 1)
		e.attempt(at(3), 2)
		e.deleteThread("t")
		e.listed(saver.Query{})
		e.chain(3, 3)
		e.attempt(at(3), 1)
	}},
	{id: "attempts", name: "a copy has them", fn: func(e *env) {
		e.chain(1, 1)
		e.attempt(at(1), 1)
		e.ok("copy", e.s.CopyThread(e.ctx, "t", "copy"))
		e.attempt(saver.Config{ThreadID: "copy"}, 2)
		e.attempt(at(1), 2)
	}},
	{id: "attempts", name: "at what is not there", fn: func(e *env) {
		e.chain(1, 1)
		e.write(at(2), "task", "ch", "early")
		cancelled, cancel := context.WithCancel(e.ctx)
		cancel()
		e.unchanged("attempts that cannot be", func() {
			for _, cfg := range []saver.Config{at(2), {ThreadID: "u"}, {ThreadID: "t", Namespace: "child"}} {
				_, err := e.s.CountAttempt(e.ctx, cfg)
				e.fails("count attempt", err, saver.ErrNotFound)
			}
			_, err := e.s.CountAttempt(e.ctx, saver.Config{})
			e.fails("count attempt", err, saver.ErrInvalid)
			_, err = e.s.CountAttempt(cancelled, at(1))
			e.fails("count attempt", err, context.Canceled)
		})
		e.attempt(at(1), 1)
	}},
	{id: "attempts", name: "at once", fn: func(e *env) {
		e.chain(1, 1)
		const many = 16
		got := make(chan int, many)
		for range many {
			go func() {
				n, _ := e.s.CountAttempt(e.ctx, at(1))
				got <- n
			}()
		}
		var all []int
		for range many {
			all = append(all, <-got)
		}
		slices.Sort(all)
		for i, n := range all {
			e.equal("number", n, i+1)
		}
	}},
}
