package savertest

import (
	"github.com/stele-go/stele/saver"
)

// uuid is a thread id that is not a string.
type uuid string

// String implements fmt.Stringer.
func (u uuid) String() string { return string(u) }

var specificCases = []testCase{
	{id: "SAV-01", name: "scalars of the config become metadata", fn: func(e *env) {
		req := e.request(step{id: id(1), md: saver.Metadata{"source": "loop", "step": 1, "taken": "metadata"}})
		req.Config.Metadata = map[string]any{"run_id": "my_run_id", "taken": "config", "both": "config", "list": []any{1}}
		req.Config.Configurable = map[string]any{
			"thread_id": "t", "checkpoint_ns": "", "__super_private_key": "private", "both": "configurable",
			"user_id": "u1", "n": 7, "ok": true, "ratio": 0.5, "object": map[string]any{}, "langgraph_step": 3,
		}
		cfg, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
		e.ok("put", err)
		e.equal("metadata", e.get(cfg).Metadata, saver.Metadata{
			"source": "loop", "step": 1, "taken": "metadata", "run_id": "my_run_id", "both": "config",
			"user_id": "u1", "n": 7, "ok": true, "ratio": 0.5,
		})
		e.filtered(map[string]any{"user_id": "u1"}, 1)
		e.filtered(map[string]any{"__super_private_key": "private"})
	}},
	{id: "SAV-02", name: "null characters vanish from metadata", fn: func(e *env) {
		cfg := e.put(step{id: id(1), md: saver.Metadata{"my_key": "\x00abc"}, values: map[string]any{"k": "\x00kept"}})
		e.equal("metadata", e.get(cfg).Metadata, saver.Metadata{"my_key": "abc"})
		e.filtered(map[string]any{"my_key": "abc"}, 1)
		e.values(e.get(cfg), map[string]any{"k": "\x00kept"})
	}},
	{id: "SAV-03", name: "packets of old checkpoints", fn: func(e *env) {
		e.put(step{v: 3, id: id(1), values: map[string]any{"k": 1}})
		e.write(at(1), "task-2", saver.ChannelTasks, "send-3", "k", 5)
		e.write(at(1), "task-1", saver.ChannelTasks, "send-1", saver.ChannelTasks, "send-2")
		e.put(step{v: 3, id: id(2), parent: id(1), values: map[string]any{"k": 2}, vers: map[string]any{"k": 2, "old": 1}})
		want := map[string]any{"k": 2, saver.ChannelTasks: []any{"send-1", "send-2", "send-3"}}
		for how, tup := range map[string]*saver.Tuple{"get": e.get(head), "list": e.list(saver.Query{Limit: 1})[0]} {
			e.values(tup, want)
			e.equal("version by "+how, tup.Checkpoint.Versions[saver.ChannelTasks], saver.IntVersion(2))
		}
		e.values(e.get(at(1)), map[string]any{"k": 1})
		e.equal("versions of the parent", len(e.get(at(1)).Checkpoint.Versions), 1)
		e.put(step{v: 4, id: id(3), parent: id(1)})
		e.values(e.get(at(3)), map[string]any{})
	}},
	{id: "SAV-03", name: "a version is minted where there is none", fn: func(e *env) {
		e.put(step{v: 1, id: id(1)})
		e.write(at(1), "task", saver.ChannelTasks, "send")
		e.put(step{v: 1, id: id(2), parent: id(1)})
		tup := e.get(head)
		e.values(tup, map[string]any{saver.ChannelTasks: []any{"send"}})
		seq, ok := tup.Checkpoint.Versions[saver.ChannelTasks].Seq()
		e.equal("integer part", []any{seq, ok}, []any{int64(1), true})
	}},
	{id: "SAV-04", name: "a checkpoint without values", fn: func(e *env) {
		req := e.request(step{id: id(1)})
		req.Checkpoint.Values, req.Checkpoint.Versions, req.Checkpoint.Seen, req.NewVersions = nil, nil, nil, nil
		cfg, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, nil, nil)
		e.ok("put", err)
		tup := e.get(cfg)
		if tup.Checkpoint.Values == nil || tup.Checkpoint.Versions == nil || tup.Metadata == nil {
			e.Fatalf("nil maps in %+v", tup)
		}
		e.values(tup, map[string]any{})
	}},
	{id: "SAV-09", name: "thread ids that are no strings", fn: func(e *env) {
		for want, given := range map[string]any{"7f0f5200-24f1-6000-8000-bde4e02ab92b": uuid("7f0f5200-24f1-6000-8000-bde4e02ab92b"), "42": 42} {
			cfg, err := saver.ConfigFromMap(map[string]any{"thread_id": given})
			e.ok("config", err)
			req := e.request(step{id: id(1)})
			_, err = e.s.Put(e.ctx, cfg, req.Checkpoint, req.Metadata, req.NewVersions)
			e.ok("put", err)
			e.equal("thread", e.get(saver.Config{ThreadID: want}).Config.ThreadID, want)
		}
	}},
	{id: "versions", name: "mint", fn: func(e *env) {
		for current, want := range map[saver.Version]int64{
			{}: 1, saver.IntVersion(4): 5, saver.FloatVersion(2.5): 3, saver.StringVersion("00000000000000000000000000000009.0.5"): 10,
		} {
			next, err := e.s.NextVersion(current, "ch")
			e.ok("next version", err)
			seq, ok := next.Seq()
			e.equal("after "+current.String(), []any{seq, ok, next.Kind(), len(next.String()) >= 49}, []any{want, true, saver.VersionString, true})
		}
		a, _ := e.s.NextVersion(saver.Version{}, "ch")
		b, _ := e.s.NextVersion(saver.Version{}, "ch")
		if a == b {
			e.Fatalf("two forks got the same version %s", a)
		}
		_, err := e.s.NextVersion(saver.StringVersion("x.1"), "ch")
		e.fails("next of a bad version", err, saver.ErrInvalid)
	}},
	{id: "sync", name: "sync", fn: func(e *env) {
		e.chain(1, 2)
		e.ok("sync", e.s.Sync(e.ctx))
		e.listed(saver.Query{ThreadID: "t"}, 2, 1)
	}},
}
