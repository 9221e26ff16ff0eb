package savertest

import (
	"errors"

	"github.com/stele-go/stele/saver"
)

var isolationCases = []testCase{
	{id: "isolation", name: "changing what was given changes nothing", fn: func(e *env) {
		list := []any{"a", map[string]any{"b": 1}}
		md := saver.Metadata{"source": "loop", "nested": map[string]any{"k": "v"}}
		req := e.request(step{id: id(1), values: map[string]any{"list": list}, md: md})
		req.Checkpoint.Seen["node"] = map[string]saver.Version{"list": saver.IntVersion(1)}
		req.Checkpoint.Updated = []string{"list"}
		cfg, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
		e.ok("put", err)
		ws := writes("ch", list)
		e.ok("put writes", e.s.PutWrites(e.ctx, cfg, ws, "task", ""))
		before := e.dump()
		list[0], list[1].(map[string]any)["b"] = "changed", 2
		md["source"], md["nested"].(map[string]any)["k"] = "changed", "changed"
		req.Checkpoint.Values["list"] = saver.ValueOf("changed")
		req.Checkpoint.Versions["list"] = saver.IntVersion(9)
		req.Checkpoint.Seen["node"]["list"] = saver.IntVersion(9)
		req.Checkpoint.Updated[0] = "changed"
		req.NewVersions["list"] = saver.IntVersion(9)
		ws[0].Channel = "changed"
		e.equal("the store", e.dump(), before)
	}},
	{id: "isolation", name: "changing what was returned changes nothing", fn: func(e *env) {
		req := e.request(step{id: id(1), values: map[string]any{"list": []any{"a"}, "raw": []byte("raw")}, md: saver.Metadata{"nested": map[string]any{"k": "v"}}})
		req.Checkpoint.Seen["node"] = map[string]saver.Version{"list": saver.IntVersion(1)}
		req.Checkpoint.Updated = []string{"list"}
		_, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
		e.ok("put", err)
		e.put(step{id: id(2), parent: id(1)})
		e.write(at(1), "task", "ch", []byte("raw"))
		before := e.dump()
		for _, tup := range append(e.list(saver.Query{}), e.get(at(1))) {
			e.spoil(tup)
		}
		e.equal("the store", e.dump(), before)
	}},
	{id: "isolation", name: "a tuple is a moment", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "old"}})
		e.write(at(1), "task", "ch", "first")
		tup := e.get(head)
		e.write(at(1), "task-2", "ch", "second")
		e.put(step{id: id(1), values: map[string]any{"a": "new"}, md: saver.Metadata{"source": "fork"}})
		e.equal("metadata", tup.Metadata["source"], "loop")
		e.pending(tup, "task", "ch", "first")
		// The value it was put with, or none once the space is taken back; never the
		// new one.
		if got, err := tup.Checkpoint.Values["a"].Any(); !errors.Is(err, saver.ErrNotFound) {
			e.ok("read a replaced value", err)
			e.equal("a", got, "old")
		}
	}},
}

// spoil overwrites everything of a tuple that can be reached.
func (e *env) spoil(tup *saver.Tuple) {
	e.Helper()
	for channel, v := range tup.Checkpoint.Values {
		typed := e.typed(v)
		for i := range typed.Data {
			typed.Data[i] ^= 0xff
		}
		switch x := e.any(v).(type) {
		case []any:
			x[0] = "changed"
		case []byte:
			x[0] = 'X'
		}
		delete(tup.Checkpoint.Values, channel)
	}
	for i := range tup.PendingWrites {
		typed := e.typed(tup.PendingWrites[i].Value)
		typed.Data[0] ^= 0xff
		tup.PendingWrites[i] = saver.PendingWrite{TaskID: "changed"}
	}
	for _, versions := range tup.Checkpoint.Seen {
		versions["list"] = saver.IntVersion(9)
	}
	for i := range tup.Checkpoint.Updated {
		tup.Checkpoint.Updated[i] = "changed"
	}
	if nested, ok := tup.Metadata["nested"].(map[string]any); ok {
		nested["k"] = "changed"
	}
	if tup.Parent != nil {
		tup.Parent.CheckpointID = "changed"
	}
	clear(tup.Checkpoint.Versions)
	clear(tup.Checkpoint.Seen)
	clear(tup.Metadata)
}
