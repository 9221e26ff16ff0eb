package savertest

import (
	"github.com/stele-go/stele/saver"
)

var forkCases = []testCase{
	{id: "forks", name: "never mix at an equal version", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "root"}})
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"a": "left"}, vers: map[string]any{"a": 2}})
		e.put(step{id: id(3), parent: id(1), values: map[string]any{"a": "right"}, vers: map[string]any{"a": 2}})
		e.values(e.get(at(2)), map[string]any{"a": "left"})
		e.values(e.get(at(3)), map[string]any{"a": "right"})
		for n := 2; n <= 3; n++ {
			e.put(step{id: id(n + 2), parent: id(n), vers: map[string]any{"a": 2}, fresh: []string{}})
		}
		e.values(e.get(at(4)), map[string]any{"a": "left"})
		e.values(e.get(at(5)), map[string]any{"a": "right"})
	}},
	{id: "forks", name: "an empty channel and a value at an equal version", fn: func(e *env) {
		e.put(step{id: id(1), vers: map[string]any{"a": 1}})
		e.put(step{id: id(2), values: map[string]any{"a": "value"}})
		e.put(step{id: id(3), parent: id(1), vers: map[string]any{"a": 1}, fresh: []string{}})
		e.put(step{id: id(4), parent: id(2), vers: map[string]any{"a": 1}, fresh: []string{}})
		e.values(e.get(at(3)), map[string]any{})
		e.values(e.get(at(4)), map[string]any{"a": "value"})
	}},
	{id: "forks", name: "a re-put does not reach what others read", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "first"}})
		e.put(step{id: id(2), parent: id(1), vers: map[string]any{"a": 1}, fresh: []string{}})
		e.put(step{id: id(1), values: map[string]any{"a": "second"}})
		e.values(e.get(at(1)), map[string]any{"a": "second"})
		e.values(e.get(at(2)), map[string]any{"a": "first"})
	}},
	{id: "forks", name: "a re-put without values keeps its own", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "value"}})
		e.put(step{id: id(1), vers: map[string]any{"a": 1}, fresh: []string{}, md: saver.Metadata{"source": "fork"}})
		e.values(e.get(at(1)), map[string]any{"a": "value"})
	}},
	{id: "forks", name: "a copy beside the original finds its values", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "old", "b": "same"}})
		e.put(step{id: id(2), parent: id(1), values: map[string]any{"a": "new"}, vers: map[string]any{"a": 2, "b": 1}, fresh: []string{"a"}})
		e.put(step{id: id(3), parent: id(1), vers: map[string]any{"a": 2, "b": 1}, fresh: []string{}})
		e.values(e.get(at(3)), map[string]any{"a": "new", "b": "same"})
	}},
	{id: "forks", name: "without a parent, the value stored last at the version", fn: func(e *env) {
		e.put(step{id: id(2), values: map[string]any{"a": "earlier"}})
		e.put(step{id: id(1), values: map[string]any{"a": "later"}})
		e.put(step{id: id(3), parent: id(2), vers: map[string]any{"a": 1}, fresh: []string{}})
		e.put(step{id: id(4), vers: map[string]any{"a": 1}, fresh: []string{}})
		e.values(e.get(at(4)), map[string]any{"a": "later"})
		e.put(step{id: id(5), vers: map[string]any{"a": 7}, fresh: []string{}})
		e.values(e.get(at(5)), map[string]any{})
		e.put(step{id: id(6), vers: map[string]any{"a": "1"}, fresh: []string{}}) // a string is not an integer
		e.values(e.get(at(6)), map[string]any{})
	}},
	{id: "forks", name: "namespaces do not lend values", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "root"}})
		e.put(step{id: id(2), ns: "child", vers: map[string]any{"a": 1}, fresh: []string{}})
		e.values(e.get(saver.Config{ThreadID: "t", Namespace: "child"}), map[string]any{})
	}},
	{id: "forks", name: "values from another checkpoint", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "mine"}})
		e.put(step{id: id(2), values: map[string]any{"a": "other"}})
		req := e.request(step{id: id(3), parent: id(2), vers: map[string]any{"a": 1}, fresh: []string{}})
		from := at(1)
		req.ValuesFrom = &from
		_, err := e.s.PutRequest(e.ctx, req)
		e.ok("put", err)
		e.values(e.get(at(3)), map[string]any{"a": "mine"})
		e.equal("parent", *e.get(at(3)).Parent, at(2))
	}},
	{id: "empty", name: "an emptied channel stays empty", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "value", "b": 1}})
		e.put(step{id: id(2), parent: id(1), vers: map[string]any{"a": 2, "b": 1}, fresh: []string{"a"}})
		e.values(e.get(at(2)), map[string]any{"b": 1})
		e.put(step{id: id(3), parent: id(2), vers: map[string]any{"a": 2, "b": 1}, fresh: []string{}})
		e.values(e.get(at(3)), map[string]any{"b": 1})
		e.equal("version", e.get(at(3)).Checkpoint.Versions["a"], saver.IntVersion(2))
	}},
	{id: "empty", name: "a channel emptied at the version it had a value at", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": "value"}})
		e.put(step{id: id(1), vers: map[string]any{"a": 1}})
		e.values(e.get(at(1)), map[string]any{})
		e.put(step{id: id(2), vers: map[string]any{"a": 1}, fresh: []string{}})
		e.values(e.get(at(2)), map[string]any{})
	}},
	{id: "empty", name: "a stored nil is a value", fn: func(e *env) {
		e.put(step{id: id(1), values: map[string]any{"a": nil}})
		e.put(step{id: id(2), parent: id(1), vers: map[string]any{"a": 1}, fresh: []string{}})
		e.values(e.get(at(2)), map[string]any{"a": nil})
	}},
	{id: "values", name: "large", fn: func(e *env) {
		big := make([]byte, 3<<20)
		for i := range big {
			big[i] = byte(i * i >> 3)
		}
		cfg := e.put(step{id: id(1), values: map[string]any{"big": big, "text": string(make([]byte, 1<<20))}})
		e.write(cfg, "task", "big", big)
		tup := e.get(cfg)
		e.equal("value", string(e.any(tup.Checkpoint.Values["big"]).([]byte)) == string(big), true)
		e.equal("write", string(e.any(tup.PendingWrites[0].Value).([]byte)) == string(big), true)
		e.equal("text", len(e.any(tup.Checkpoint.Values["text"]).(string)), 1<<20)
	}},
	{id: "values", name: "names of every kind", fn: func(e *env) {
		weird := []string{"", " ", "a\x00b", "\x00", "\xff\xfe", "a|b:c", "ü", "a/../b", "\x01", "\x00\x01"}
		for i, thread := range weird[1:] {
			for j, ns := range weird {
				vals := map[string]any{}
				for k, channel := range weird {
					vals[channel] = []any{i, j, k}
				}
				cfg := e.put(step{thread: thread, ns: ns, id: "id" + ns, values: vals})
				e.write(cfg, "task"+ns, ns, thread)
			}
		}
		for i, thread := range weird[1:] {
			for j, ns := range weird {
				tup := e.get(saver.Config{ThreadID: thread, Namespace: ns})
				e.equal("id", tup.Checkpoint.ID, "id"+ns)
				for k, channel := range weird {
					e.equal("value", e.any(tup.Checkpoint.Values[channel]), []any{i, j, k})
				}
				e.equal("write", []any{tup.PendingWrites[0].TaskID, tup.PendingWrites[0].Channel}, []any{"task" + ns, ns})
			}
		}
	}},
}
