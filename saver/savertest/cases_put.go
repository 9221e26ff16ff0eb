package savertest

import (
	"github.com/stele-go/stele/saver"
)

var putCases = []testCase{
	{id: "CHK-01", name: "put returns the config of the checkpoint", fn: func(e *env) {
		req := e.request(step{ns: "n:1", id: id(1), values: map[string]any{"k": "v"}})
		req.Config.Configurable = map[string]any{"user_id": "u"}
		req.Config.Metadata = map[string]any{"origin": "test"}
		got, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
		e.ok("put", err)
		e.equal("config", got, saver.Config{ThreadID: "t", Namespace: "n:1", CheckpointID: id(1)})
	}},
	{id: "CHK-02", name: "round trip", fn: func(e *env) {
		cfg := e.put(step{id: id(1), values: map[string]any{"msg": "hello"}})
		tup := e.get(cfg)
		e.equal("id", tup.Checkpoint.ID, id(1))
		e.equal("config", tup.Config, cfg)
		e.values(tup, map[string]any{"msg": "hello"})
	}},
	{id: "CHK-03", name: "values keep their types", fn: func(e *env) {
		want := map[string]any{
			"str": "hello", "int": 42, "list": []any{1, 2, 3}, "dict": map[string]any{"nested": map[string]any{"a": 1}},
			"bytes": []byte{0, 1, 2}, "none": nil, "float": 1.5, "bool": true, "empty": []any{}, "text": "",
		}
		e.values(e.get(e.put(step{id: id(1), values: want})), want)
	}},
	{id: "CHK-04", name: "channel versions", fn: func(e *env) {
		vers := map[string]any{"a": 1, "b": "00000000000000000000000000000003.0.25", "c": 1.5}
		tup := e.get(e.put(step{id: id(1), vers: vers}))
		for channel, want := range vers {
			e.equal("version of "+channel, tup.Checkpoint.Versions[channel], e.version(want))
		}
		seq, ok := tup.Checkpoint.Versions["b"].Seq()
		e.equal("integer part", []any{seq, ok}, []any{int64(3), true})
	}},
	{id: "CHK-05", name: "versions seen", fn: func(e *env) {
		req := e.request(step{id: id(1)})
		want := map[string]map[string]saver.Version{
			"node1": {"a": saver.IntVersion(1), "b": saver.IntVersion(2)}, "node2": {"a": saver.StringVersion("3.5")}, "__input__": {},
		}
		req.Checkpoint.Seen = want
		cfg, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
		e.ok("put", err)
		e.equal("seen", e.get(cfg).Checkpoint.Seen, want)
	}},
	{id: "CHK-06", name: "metadata", fn: func(e *env) {
		want := saver.Metadata{"source": "loop", "step": 3, "custom": "x", "parents": map[string]any{"": id(7)}, "score": 0.5, "tags": []any{"a", 1}, "none": nil}
		e.equal("metadata", e.get(e.put(step{id: id(1), md: want})).Metadata, want)
	}},
	{id: "CHK-07", name: "namespaces", fn: func(e *env) {
		root := e.put(step{id: id(1), values: map[string]any{"k": "root"}})
		child := e.put(step{ns: "child:abc", id: id(2), values: map[string]any{"k": "child"}})
		e.equal("namespaces", []any{root.Namespace, child.Namespace}, []any{"", "child:abc"})
		e.equal("namespaces read", []any{e.get(root).Config.Namespace, e.get(child).Config.Namespace}, []any{"", "child:abc"})
		e.values(e.get(head), map[string]any{"k": "root"})
		e.values(e.get(saver.Config{ThreadID: "t", Namespace: "child:abc"}), map[string]any{"k": "child"})
	}},
	{id: "CHK-08", name: "every checkpoint stays retrievable", fn: func(e *env) {
		e.chain(1, 5)
		for n := 1; n <= 5; n++ {
			e.equal("step", e.get(at(n)).Metadata["step"], n)
		}
	}},
	{id: "CHK-09", name: "threads are apart", fn: func(e *env) {
		for _, thread := range []string{"a", "b"} {
			e.put(step{thread: thread, id: id(1), values: map[string]any{"k": thread}})
		}
		for _, thread := range []string{"a", "b"} {
			e.values(e.get(saver.Config{ThreadID: thread}), map[string]any{"k": thread})
		}
	}},
	{id: "CHK-10", name: "parent", fn: func(e *env) {
		e.chain(1, 2)
		if p := e.get(at(1)).Parent; p != nil {
			e.Fatalf("first checkpoint has parent %+v", *p)
		}
		p := e.get(at(2)).Parent
		if p == nil {
			e.Fatalf("second checkpoint has no parent")
		}
		e.equal("parent", *p, at(1))
	}},
	{id: "CHK-10", name: "a re-put replaces checkpoint, metadata and parent", fn: func(e *env) {
		e.chain(1, 3)
		e.put(step{id: id(3), parent: id(1), values: map[string]any{"k": "new"}, md: saver.Metadata{"source": "fork"}})
		tup := e.get(head)
		e.equal("parent", *tup.Parent, at(1))
		e.equal("metadata", tup.Metadata, saver.Metadata{"source": "fork"})
		e.values(tup, map[string]any{"k": "new"})
		e.put(step{id: id(3)})
		if p := e.get(at(3)).Parent; p != nil {
			e.Fatalf("parent %+v survives a re-put without one", *p)
		}
		e.listed(saver.Query{ThreadID: "t"}, 3, 2, 1)
	}},
	{id: "CHK-11", name: "an unchanged channel keeps its value", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "v1", "b": "v2"}})
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"a": "v1_updated", "b": "v2"}, vers: map[string]any{"a": 2, "b": 1}, fresh: []string{"a"}})
		e.values(e.get(at(2)), map[string]any{"a": "v1_updated", "b": "v2"})
		e.values(e.get(at(1)), map[string]any{"a": "v1", "b": "v2"})
	}},
	{id: "CHK-11", name: "only new versions store values", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "stored"}})
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"a": "not new"}, fresh: []string{}})
		e.values(e.get(at(2)), map[string]any{"a": "stored"})
	}},
	{id: "CHK-12", name: "a new channel joins the old ones", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "v1"}})
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"a": "v1", "b": "new_channel"}, fresh: []string{"b"}})
		e.values(e.get(at(2)), map[string]any{"a": "v1", "b": "new_channel"})
		e.values(e.get(at(1)), map[string]any{"a": "v1"})
	}},
	{id: "CHK-13", name: "a removed channel has no value", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "v1", "b": "v2"}})
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"a": "v1_updated"}, vers: map[string]any{"a": 2}})
		e.values(e.get(at(2)), map[string]any{"a": "v1_updated"})
	}},
	{id: "CHK-14", name: "run id", fn: func(e *env) {
		tup := e.get(e.put(step{id: id(1), md: saver.Metadata{"source": "loop", "run_id": "run-1"}}))
		e.equal("run id", tup.Metadata.RunID(), "run-1")
	}},
	{id: "CHK-15", name: "what is not there is not found", fn: func(e *env) {
		e.gone(head)
		e.gone(at(1))
		e.put(step{id: id(1)})
		e.gone(at(2))
		e.gone(saver.Config{ThreadID: "u"})
		e.gone(saver.Config{ThreadID: "t", Namespace: "child"})
		e.listed(saver.Query{ThreadID: "u"})
	}},
	{id: "CHK-16", name: "newest or named", fn: func(e *env) {
		for n := range 3 {
			e.put(step{id: id(n), md: saver.Metadata{"step": n}})
		}
		e.equal("newest", e.get(head).Metadata["step"], 2)
		e.equal("named", e.get(at(1)).Metadata["step"], 1)
	}},
	{id: "CHK-16", name: "newest is the greatest id, not the last put", fn: func(e *env) {
		for _, n := range []int{2, 3, 1} {
			e.put(step{id: id(n)})
		}
		e.equal("newest", e.get(head).Config.CheckpointID, id(3))
	}},
	{id: "CHK-17", name: "the newest is of the namespace asked for", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"k": "root"}})
		e.put(step{id: id(1), ns: "child:1", values: map[string]any{"k": "child"}})
		e.put(step{id: id(2), ns: "child:1", values: map[string]any{"k": "child 2"}})
		e.values(e.get(head), map[string]any{"k": "root"})
		e.values(e.get(saver.Config{ThreadID: "t", Namespace: "child:1", CheckpointID: id(1)}), map[string]any{"k": "child"})
		e.gone(at(2))
	}},
	{id: "CHK-18", name: "pending writes show in get and list", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		e.write(cfg, "task", "ch", "v")
		e.pending(e.get(head), "task", "ch", "v")
		e.pending(e.list(saver.Query{ThreadID: "t"})[0], "task", "ch", "v")
	}},
	{id: "CHK-18", name: "no pending writes are an empty list", fn: func(e *env) {
		cfg := e.put(step{id: id(1)})
		if w := e.get(cfg).PendingWrites; w == nil || len(w) != 0 {
			e.Fatalf("pending writes %#v, want an empty list", w)
		}
	}},
	{id: "CHK-19", name: "every field comes back as given", fn: func(e *env) {
		req := e.request(step{v: 1, id: id(1), values: map[string]any{"k": "v"}})
		req.Checkpoint.Updated = []string{"a", "k"}
		cfg, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
		e.ok("put", err)
		got := e.get(cfg).Checkpoint
		e.equal("v", got.V, 1)
		e.equal("id", got.ID, id(1))
		e.equal("ts", got.TS, req.Checkpoint.TS)
		e.equal("versions", got.Versions, req.Checkpoint.Versions)
		e.equal("seen", got.Seen, req.Checkpoint.Seen)
		e.equal("updated", got.Updated, req.Checkpoint.Updated)
	}},
	{id: "CHK-19", name: "unknown updated channels stay unknown", fn: func(e *env) {
		for n, want := range [][]string{nil, {}} {
			req := e.request(step{id: id(n)})
			req.Checkpoint.Updated = want
			cfg, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
			e.ok("put", err)
			if got := e.get(cfg).Checkpoint.Updated; (got == nil) != (want == nil) || len(got) != 0 {
				e.Fatalf("updated %#v, want %#v", got, want)
			}
		}
	}},
}
