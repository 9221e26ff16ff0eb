package traces

import (
	"fmt"
	"reflect"
	"sort"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

func errText(v any) any {
	switch x := v.(type) {
	case nil:
		return nil
	case error:
		return x.Error()
	}
	return fmt.Sprint(v)
}

func snapshot(s *pregel.StateSnapshot) map[string]any {
	ids, tasks := []any{}, []any{}
	for _, in := range s.Interrupts {
		ids = append(ids, in.ID)
	}
	for _, t := range s.Tasks {
		var state any
		switch {
		case t.State != nil:
			state = snapshot(t.State)
		case t.StateAddress != nil:
			state = place(t.StateAddress)
		}
		ints := []any{}
		for _, in := range t.Interrupts {
			ints = append(ints, canon(in))
		}
		tasks = append(tasks, map[string]any{"id": t.ID, "name": t.Name, "path": canon(t.Path), "error": errText(t.Err),
			"interrupts": ints, "result": canon(t.Result), "state": state})
	}
	return map[string]any{"values": canon(s.Values), "next": append([]string{}, s.Next...), "config": place(&s.Address), "parent": place(s.Parent),
		"metadata": canon(map[string]any(s.Metadata)), "interrupts": ids, "tasks": tasks}
}

func placeOf(c *saver.Config) any {
	if c == nil {
		return nil
	}
	return place(&pregel.Address{ThreadID: c.ThreadID, Namespace: c.Namespace, CheckpointID: c.CheckpointID})
}

func place(c *pregel.Address) any {
	if c == nil {
		return nil
	}
	m := map[string]any{"thread_id": c.ThreadID}
	if c.Namespace != "" {
		m["checkpoint_ns"] = c.Namespace
	}
	if c.CheckpointID != "" {
		m["checkpoint_id"] = c.CheckpointID
	}
	if len(c.CheckpointMap) > 0 {
		m["checkpoint_map"] = c.CheckpointMap
	}
	return m
}

func canonInterrupts(list []pregel.Interrupt) []any {
	out := []any{}
	for _, in := range list {
		out = append(out, canon(in))
	}
	return out
}

func canon(v any) any {
	switch x := v.(type) {
	case nil:
		return nil
	case pregel.Interrupt:
		in := map[string]any{"id": x.ID, "value": canon(x.Value)}
		if x.ResponseSchema != nil {
			in["response_schema"] = canon(x.ResponseSchema)
		}
		return map[string]any{"$interrupt": in}
	case pregel.Send:
		return map[string]any{"$send": []any{x.Node, canon(x.Arg)}}
	case channel.Message:
		return canonMessage(x.ID, x.Role, x.Content)
	case map[string]any:
		if x["role"] != nil && (x["id"] != nil || x["content"] != nil) { // a message, as it is stored
			return canonMessage(x["id"], x["role"], x["content"])
		}
	case pregel.Overwrite:
		return map[string]any{"$overwrite": canon(x.Value)}
	case serde.DeltaSnapshot:
		return map[string]any{"$snapshot": canon(x.Value)}
	case serde.Set:
		out := canonList(reflect.ValueOf(x))
		sort.Slice(out, func(i, j int) bool { return fmt.Sprint(out[i]) < fmt.Sprint(out[j]) })
		return map[string]any{"$set": out}
	case pregel.RepeatedWrites:
		return map[string]any{"$writes": canon(x.Writes)}
	case pregel.Pairs:
		m := map[string]any{}
		for _, p := range x {
			m[p.Key] = canon(p.Value)
		}
		return m
	case error:
		return map[string]any{"$error": x.Error()}
	}
	rv := reflect.ValueOf(v)
	switch rv.Kind() {
	case reflect.Map:
		if rv.IsNil() {
			return nil
		}
		m := map[string]any{}
		for it := rv.MapRange(); it.Next(); {
			m[fmt.Sprint(it.Key().Interface())] = canon(it.Value().Interface())
		}
		return m
	case reflect.Slice:
		if rv.IsNil() {
			return nil
		}
		return canonList(rv)
	}
	return v
}

func canonList(rv reflect.Value) []any {
	out := make([]any, rv.Len())
	for i := range out {
		out[i] = canon(rv.Index(i).Interface())
	}
	return out
}
