package runs

import (
	"fmt"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/serde"
)

// eventData encodes what an event of a graph says, as LangGraph's streams show it.
func eventData(codec serde.Serializer, ev pregel.Event) (serde.Typed, error) {
	data := plain(ev.Data)
	if m, ok := data.(map[string]any); ok && len(ev.Interrupts) > 0 && ev.Mode == pregel.ModeValues {
		with := map[string]any{"__interrupt__": interrupts(ev.Interrupts)}
		for k, v := range m {
			with[k] = v
		}
		data = with
	} else if len(ev.Interrupts) > 0 {
		data = map[string]any{"__interrupt__": interrupts(ev.Interrupts)}
	}
	return codec.Encode(data)
}

// plain is what the types of package pregel hold, under LangGraph's names.
func plain(data any) any {
	switch x := data.(type) {
	case pregel.Update:
		return map[string]any{x.Node: plain(x.Value)}
	case pregel.RepeatedWrites:
		return map[string]any{"$writes": x.Writes}
	case pregel.MessageEvent:
		return []any{x.Message, x.Metadata}
	case pregel.TaskEvent:
		return map[string]any{"id": x.ID, "name": x.Name, "input": x.Input, "triggers": x.Triggers, "metadata": x.Metadata}
	case pregel.TaskResult:
		return map[string]any{"id": x.ID, "name": x.Name, "error": failure(x.Err), "result": repeated(x.Result), "interrupts": interrupts(x.Interrupts)}
	case pregel.CheckpointEvent:
		m := map[string]any{"checkpoint": address(x.Address), "parent_checkpoint": nil, "values": plain(x.Values),
			"metadata": map[string]any(x.Metadata), "next": x.Next, "tasks": tasks(x.Tasks)}
		if x.Parent != nil {
			m["parent_checkpoint"] = address(*x.Parent)
		}
		return m
	case pregel.DebugEvent:
		return map[string]any{"step": x.Step, "timestamp": x.Timestamp, "type": x.Type, "payload": plain(x.Payload)}
	}
	return data
}

func repeated(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = plain(v)
	}
	return out
}

func failure(err any) any {
	if err == nil {
		return nil
	}
	return fmt.Sprint(err)
}

func interrupts(list []pregel.Interrupt) []any {
	out := make([]any, len(list))
	for i, in := range list {
		out[i] = map[string]any{"id": in.ID, "value": in.Value}
	}
	return out
}

func address(a pregel.Address) map[string]any {
	return map[string]any{"thread_id": a.ThreadID, "checkpoint_ns": a.Namespace, "checkpoint_id": a.CheckpointID}
}

func tasks(list []pregel.TaskState) []any {
	out := make([]any, len(list))
	for i, t := range list {
		out[i] = map[string]any{"id": t.ID, "name": t.Name, "error": failure(t.Err), "interrupts": interrupts(t.Interrupts), "result": plain(t.Result)}
	}
	return out
}

// text is a text as the data of an event.
func text(q Queue, s string) serde.Typed {
	typed, err := q.Serializer().Encode(s)
	if err != nil { // a text can always be encoded
		return serde.Typed{Kind: serde.KindNull}
	}
	return typed
}
