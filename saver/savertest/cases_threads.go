package savertest

import (
	"context"
	"time"

	"github.com/stele-go/stele/saver"
)

func (e *env) threads(q saver.ThreadQuery) []saver.ThreadInfo {
	e.Helper()
	var all []saver.ThreadInfo
	for info, err := range e.s.Threads(e.ctx, q) {
		e.ok("threads", err)
		all = append(all, info)
	}
	return all
}

// threadIDs checks which threads q selects, in order.
func (e *env) threadIDs(q saver.ThreadQuery, want ...any) {
	e.Helper()
	got := []any{}
	for _, info := range e.threads(q) {
		got = append(got, info.ThreadID)
	}
	e.equal("threads", got, append([]any{}, want...))
}

// waiting checks whether thread t counts as interrupted.
func (e *env) waiting(want bool) {
	e.Helper()
	infos := e.threads(saver.ThreadQuery{Prefix: "t"})
	e.equal("waits", infos[0].Status == saver.StatusWaiting, want)
	e.equal("selected", len(e.threads(saver.ThreadQuery{Prefix: "t", Status: saver.StatusWaiting})) == 1, want)
}

var threadCases = []testCase{
	{id: "threads", name: "by id, with prefix and limit", fn: func(e *env) {
		for _, thread := range []string{"b", "a/2", "a/1", "c", "a"} {
			e.put(step{thread: thread, id: id(1)})
		}
		e.threadIDs(saver.ThreadQuery{}, "a", "a/1", "a/2", "b", "c")
		e.threadIDs(saver.ThreadQuery{Prefix: "a/"}, "a/1", "a/2")
		e.threadIDs(saver.ThreadQuery{Limit: 2}, "a", "a/1")
		e.threadIDs(saver.ThreadQuery{Prefix: "a", Limit: 2}, "a", "a/1")
		e.threadIDs(saver.ThreadQuery{Prefix: "a", Limit: 2, WithoutNotes: true}, "a", "a/1")
		e.threadIDs(saver.ThreadQuery{Prefix: "d"})
		e.deleteThread("a")
		e.threadIDs(saver.ThreadQuery{Prefix: "a"}, "a/1", "a/2")
	}},
	{id: "threads", name: "one thread", fn: func(e *env) {
		for _, thread := range []string{"b", "a/2", "a/1", "a"} {
			e.put(step{thread: thread, id: id(1), md: saver.Metadata{"of": thread}})
		}
		e.threadIDs(saver.ThreadQuery{ThreadID: "a"}, "a")
		e.threadIDs(saver.ThreadQuery{ThreadID: "a/1", Limit: 1}, "a/1")
		e.threadIDs(saver.ThreadQuery{ThreadID: "a/"})
		e.threadIDs(saver.ThreadQuery{ThreadID: "a/1", Prefix: "a"}, "a/1")
		e.threadIDs(saver.ThreadQuery{ThreadID: "a", Prefix: "b"})
		e.threadIDs(saver.ThreadQuery{ThreadID: "b", Prefix: "a"})
		e.threadIDs(saver.ThreadQuery{ThreadID: "a", Metadata: map[string]any{"of": "a"}}, "a")
		e.threadIDs(saver.ThreadQuery{ThreadID: "a", Metadata: map[string]any{"of": "b"}})
		e.threadIDs(saver.ThreadQuery{ThreadID: "a", Status: saver.StatusWaiting})
		for _, info := range e.threads(saver.ThreadQuery{}) {
			one, found, err := saver.ThreadOf(e.ctx, e.s, info.ThreadID)
			e.ok("thread", err)
			e.equal("found", found, true)
			e.equal("as listed", one, info)
			e.threadIDs(saver.ThreadQuery{ThreadID: info.ThreadID, UpdatedSince: info.UpdatedAt}, info.ThreadID)
			e.threadIDs(saver.ThreadQuery{ThreadID: info.ThreadID, UpdatedSince: info.UpdatedAt.Add(time.Microsecond)})
		}
		e.deleteThread("a")
		_, found, err := saver.ThreadOf(e.ctx, e.s, "a")
		e.ok("a deleted thread", err)
		e.equal("found", found, false)
	}},
	{id: "threads", name: "head is the newest of the root namespace", fn: func(e *env) {
		e.chain(1, 2)
		e.put(step{id: id(5), ns: "child"})
		e.put(step{thread: "u", id: id(1), ns: "child"})
		e.write(saver.Config{ThreadID: "w", CheckpointID: id(1)}, "task", "ch", 1)
		var got []any
		for _, info := range e.threads(saver.ThreadQuery{}) {
			got = append(got, info.ThreadID, info.Head)
		}
		e.equal("heads", got, []any{"t", id(2), "u", "", "w", ""})
	}},
	{id: "threads", name: "updated since", fn: func(e *env) {
		e.put(step{thread: "a", id: id(1)})
		first := e.threads(saver.ThreadQuery{})[0].UpdatedAt
		e.equal("precision", []any{first.Equal(first.Truncate(time.Microsecond)), first.Location() == time.UTC, first.IsZero()}, []any{true, true, false})
		later := func(thread string, write func()) {
			before := e.threads(saver.ThreadQuery{Prefix: "a"})[0].UpdatedAt
			for _, info := range e.threads(saver.ThreadQuery{}) {
				before = maxTime(before, info.UpdatedAt)
			}
			time.Sleep(2 * time.Millisecond)
			write()
			e.threadIDs(saver.ThreadQuery{UpdatedSince: before.Add(time.Microsecond)}, thread)
			e.threadIDs(saver.ThreadQuery{UpdatedSince: e.threads(saver.ThreadQuery{Prefix: thread})[0].UpdatedAt}, thread)
		}
		later("b", func() { e.put(step{thread: "b", id: id(1)}) })
		later("a", func() { e.write(saver.Config{ThreadID: "a", CheckpointID: id(1)}, "task", "ch", 1) })
		later("b", func() { e.put(step{thread: "b", id: id(0), ns: "child"}) })
		e.threadIDs(saver.ThreadQuery{UpdatedSince: first}, "a", "b")
	}},
	{id: "threads", name: "by metadata of any checkpoint", fn: func(e *env) {
		e.put(step{thread: "a", id: id(1), md: saver.Metadata{"user": "ada", "n": 1}})
		e.put(step{thread: "a", id: id(2), parent: id(1), md: saver.Metadata{"user": "bob"}})
		e.put(step{thread: "b", id: id(1), md: saver.Metadata{"user": "bob", "n": "1"}})
		e.put(step{thread: "b", id: id(2), ns: "child:1", md: saver.Metadata{"user": "ada", "tags": []any{"x", map[string]any{"deep": int64(2)}}}})
		e.put(step{thread: "c", id: id(1)})
		e.write(saver.Config{ThreadID: "w", CheckpointID: id(1)}, "task", "ch", 1)
		by := func(filter map[string]any, want ...any) {
			e.Helper()
			e.threadIDs(saver.ThreadQuery{Metadata: filter}, want...)
		}
		by(map[string]any{"user": "ada"}, "a", "b")
		by(map[string]any{"user": "ada", "n": 1.0}, "a")
		by(map[string]any{"user": "bob", "n": 1}) // not of one checkpoint
		by(map[string]any{"n": "1"}, "b")
		by(map[string]any{"tags": []any{"x", map[string]any{"deep": 2}}}, "b")
		by(map[string]any{"user": nil}, "c") // a thread of writes alone has no metadata
		by(map[string]any{"user": "eve"})
		by(map[string]any{}, "a", "b", "c", "w")
		e.threadIDs(saver.ThreadQuery{Prefix: "b", Metadata: map[string]any{"user": "ada"}}, "b")
		e.threadIDs(saver.ThreadQuery{Limit: 1, Metadata: map[string]any{"user": "ada"}}, "a")
		e.deleteThread("a")
		by(map[string]any{"user": "ada"}, "b")
		for _, bad := range []map[string]any{{"": 1}, {"a/b": 1}, {"a": make(chan int)}} {
			for _, err := range e.s.Threads(e.ctx, saver.ThreadQuery{Metadata: bad}) {
				e.fails("a filter that cannot be", err, saver.ErrInvalid)
			}
		}
	}},
	{id: "threads", name: "interrupted, resumed, finished", fn: func(e *env) {
		e.chain(1, 1)
		e.put(step{thread: "other", id: id(1)})
		e.waiting(false)
		e.write(at(1), "task", saver.ChannelInterrupt, "ask")
		e.waiting(true)
		e.write(at(1), saver.NullTaskID, saver.ChannelResume, "answer")
		e.waiting(false)
		e.write(at(1), "task", saver.ChannelInterrupt, "ask again", saver.ChannelResume, []any{"answer"})
		e.waiting(true)
		e.write(at(1), "task", saver.ChannelResume, []any{"answer", "second"}, "ch", "done")
		e.waiting(false)
		e.put(step{id: id(2), parent: id(1)})
		e.waiting(false)
	}},
	{id: "threads", name: "interrupted only at the head of the root", fn: func(e *env) {
		e.chain(1, 2)
		e.write(at(1), "task", saver.ChannelInterrupt, "old")
		e.put(step{id: id(3), ns: "child"})
		e.write(saver.Config{ThreadID: "t", Namespace: "child", CheckpointID: id(3)}, "task", saver.ChannelInterrupt, "child")
		e.waiting(false)
		e.write(at(2), "task-1", saver.ChannelInterrupt, "a")
		e.write(at(2), "task-2", saver.ChannelInterrupt, "b")
		e.write(at(2), "task-1", "ch", "done without an answer")
		e.waiting(true)
		e.write(at(2), "task-2", saver.ChannelError, "failed")
		e.waiting(false)
	}},
	{id: "threads", name: "a copy is written when it is made", fn: func(e *env) {
		e.chain(1, 1)
		e.write(at(1), "task", saver.ChannelInterrupt, "ask")
		time.Sleep(2 * time.Millisecond)
		e.ok("copy", e.s.CopyThread(e.ctx, "t", "u"))
		infos := e.threads(saver.ThreadQuery{})
		e.equal("copied", []any{infos[1].Head, infos[1].Status, infos[1].UpdatedAt.After(infos[0].UpdatedAt)}, []any{id(1), saver.StatusWaiting, true})
	}},
	{id: "threads", name: "removing is not writing", fn: func(e *env) {
		e.chain(1, 3)
		before := e.threads(saver.ThreadQuery{})
		time.Sleep(2 * time.Millisecond)
		_, err := e.s.Prune(e.ctx, []string{"t"}, saver.KeepLatest)
		e.ok("prune", err)
		_, err = e.s.DeleteForRuns(e.ctx, []string{"r"}, nil)
		e.ok("delete for runs", err)
		e.ok("delete another", e.s.DeleteThread(e.ctx, "u"))
		e.equal("threads", e.threads(saver.ThreadQuery{}), before)
	}},
	{id: "threads", name: "a listing ends when its context does", fn: func(e *env) {
		for _, thread := range []string{"a", "b", "c"} {
			e.put(step{thread: thread, id: id(1)})
		}
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		var got []error
		for _, err := range e.s.Threads(ctx, saver.ThreadQuery{}) {
			got = append(got, err)
			cancel()
		}
		e.equal("yields", len(got), 2)
		e.ok("first", got[0])
		e.fails("second", got[1], context.Canceled)
	}},
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
