package savertest

import (
	"fmt"

	"github.com/stele-go/stele/saver"
)

var writeCases = []testCase{
	{id: "WRT-01", name: "one write", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		e.write(cfg, "task", "ch", "v")
		e.pending(e.get(cfg), "task", "ch", "v")
	}},
	{id: "WRT-02", name: "several writes of a task", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		e.write(cfg, "task", "ch1", "v1", "ch2", 2, "ch3", nil)
		e.pending(e.get(cfg), "task", "ch1", "v1", "task", "ch2", 2, "task", "ch3", nil)
	}},
	{id: "WRT-02", name: "one channel written twice by a task", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		e.write(cfg, "task", "ch", "v1", "ch", "v2")
		e.pending(e.get(cfg), "task", "ch", "v1", "task", "ch", "v2")
	}},
	{id: "WRT-03", name: "several tasks", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		e.write(cfg, "task-2", "ch", "two")
		e.write(cfg, "task-1", "ch", "one")
		e.pending(e.get(cfg), "task-1", "ch", "one", "task-2", "ch", "two")
	}},
	{id: "WRT-04", name: "task path is stored, and comes first in the order", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		for i, path := range []string{"~__pregel_push, 0000000002", "~__pregel_pull, b", "~__pregel_pull, a"} {
			e.ok("put writes", e.s.PutWrites(e.ctx, cfg, writes("ch", i, "ch", i), fmt.Sprint("task-", i), path))
		}
		tup := e.get(cfg)
		e.pending(tup, "task-2", "ch", 2, "task-2", "ch", 2, "task-1", "ch", 1, "task-1", "ch", 1, "task-0", "ch", 0, "task-0", "ch", 0)
		e.equal("path", tup.PendingWrites[0].TaskPath, "~__pregel_pull, a")
		e.equal("index", []any{tup.PendingWrites[0].Index, tup.PendingWrites[1].Index}, []any{0, 1})
	}},
	{id: "WRT-05", name: "writing again adds nothing", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		e.write(cfg, "task", "ch", "v")
		e.write(cfg, "task", "ch", "v")
		e.pending(e.get(cfg), "task", "ch", "v")
	}},
	{id: "WRT-06", name: "special channels", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		e.write(cfg, "task", saver.ChannelError, "something went wrong")
		e.write(cfg, "task", saver.ChannelInterrupt, map[string]any{"reason": "human_input"})
		tup := e.get(cfg)
		e.pending(tup, "task", saver.ChannelInterrupt, map[string]any{"reason": "human_input"}, "task", saver.ChannelError, "something went wrong")
		e.equal("indexes", []any{tup.PendingWrites[0].Index, tup.PendingWrites[1].Index}, []any{-3, -1})
	}},
	{id: "WRT-07", name: "namespaces are apart", fn: func(e *env) {
		root := e.put(step{id: id(1)})
		child := e.put(step{id: id(1), ns: "child:1"})
		e.write(root, "task", "ch", "root")
		e.write(child, "task", "ch", "child")
		e.pending(e.get(root), "task", "ch", "root")
		e.pending(e.get(child), "task", "ch", "child")
	}},
	{id: "WRT-08", name: "a new checkpoint starts without", fn: func(e *env) {
		e.chain(1, 1)
		e.write(at(1), "task", "ch", "v")
		e.put(step{id: id(2), parent: id(1)})
		e.pending(e.get(head))
		e.pending(e.get(at(1)), "task", "ch", "v")
	}},
	{id: "WRT-09", name: "first value on a channel, last on a special one", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		e.write(cfg, "task", "ch", "first", saver.ChannelError, "first")
		e.write(cfg, "task", "ch", "second", saver.ChannelError, "second", "more", "third")
		e.pending(e.get(cfg), "task", saver.ChannelError, "second", "task", "ch", "first", "task", "more", "third")
	}},
	{id: "WRT-09", name: "the rule goes by index, not by channel", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		e.write(cfg, "task", "a", 1, saver.ChannelInterrupt, "i", "b", 2)
		e.write(cfg, "task", "x", 9, "y", 8, "z", 7, "w", 6)
		tup := e.get(cfg)
		e.pending(tup, "task", saver.ChannelInterrupt, "i", "task", "a", 1, "task", "y", 8, "task", "b", 2, "task", "w", 6)
		for i, want := range []int{-3, 0, 1, 2, 3} {
			e.equal("index", tup.PendingWrites[i].Index, want)
		}
	}},
	{id: "WRT-09", name: "one call with the same special channel twice", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		e.write(cfg, "task", saver.ChannelResume, "first", saver.ChannelResume, "second")
		e.pending(e.get(cfg), "task", saver.ChannelResume, "second")
	}},
	{id: "writes", name: "before their checkpoint", fn: func(e *env) {
		e.write(at(1), "task", "ch", "early")
		e.gone(at(1))
		e.listed(saver.Query{ThreadID: "t"})
		e.put(step{id: id(1)})
		e.pending(e.get(head), "task", "ch", "early")
	}},
	{id: "writes", name: "stay when their checkpoint is put again", fn: func(e *env) {
		e.chain(1, 1)
		e.write(at(1), "task", "ch", "v")
		e.put(step{id: id(1), md: saver.Metadata{"source": "fork"}})
		e.pending(e.get(head), "task", "ch", "v")
	}},
	{id: "writes", name: "none at all", fn: func(e *env) {
		e.chain(1, 1)
		e.unchanged("an empty call", func() { e.ok("put writes", e.s.PutWrites(e.ctx, at(1), nil, "task", "")) })
	}},
	{id: "writes", name: "many tasks in task order", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		var want []any
		for i := range 100 {
			e.write(cfg, fmt.Sprintf("task-%03d", (i*37)%100), "ch", (i*37)%100)
			want = append(want, fmt.Sprintf("task-%03d", i), "ch", i)
		}
		e.pending(e.get(cfg), want...)
	}},
}
