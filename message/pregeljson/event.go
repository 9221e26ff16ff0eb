package pregeljson

import "github.com/stele-go/stele/pregel"

// Event is the data of a stream event as JSON. The error is that of Marshal.
func Event(ev pregel.Event) ([]byte, error) {
	data := eventData(ev.Data)
	if len(ev.Interrupts) == 0 && !isStop(ev) {
		return Marshal(data)
	}
	asked := map[string]any{pregel.KeyInterrupt: asks(ev.Interrupts)}
	if m, ok := data.(map[string]any); ok && ev.Mode == pregel.ModeValues {
		for k, v := range m {
			asked[k] = v
		}
		asked[pregel.KeyInterrupt] = asks(ev.Interrupts)
	}
	return Marshal(asked)
}

// isStop reports whether an update tells of a breakpoint: a stop without a question.
func isStop(ev pregel.Event) bool {
	u, ok := ev.Data.(pregel.Update)
	return ok && u.Node == pregel.KeyInterrupt
}

// eventData is what the types of package pregel hold, under LangGraph's names.
func eventData(data any) any {
	switch x := data.(type) {
	case pregel.Update:
		m := map[string]any{x.Node: x.Value}
		if x.Cached {
			m["__metadata__"] = map[string]any{"cached": true}
		}
		return m
	case pregel.MessageEvent:
		return []any{x.Message, x.Metadata}
	case pregel.TaskEvent:
		m := map[string]any{"id": x.ID, "name": x.Name, "input": x.Input, "triggers": x.Triggers}
		if x.Metadata != nil {
			m["metadata"] = x.Metadata
		}
		return m
	case pregel.TaskResult:
		why := x.Err
		if err, ok := why.(error); ok {
			why = FailureOf(err)
		}
		return map[string]any{"id": x.ID, "name": x.Name, "error": why, "result": x.Result, "interrupts": asks(x.Interrupts)}
	case pregel.CheckpointEvent:
		m := map[string]any{"config": config(x.Address), "parent_config": nil, "values": x.Values,
			"metadata": map[string]any(x.Metadata), "next": x.Next, "tasks": eventTasks(x.Tasks)}
		if x.Parent != nil {
			m["parent_config"] = config(*x.Parent)
		}
		return m
	case pregel.ToolEvent:
		m := map[string]any{"event": x.Step, "tool_call_id": x.CallID}
		switch x.Step {
		case pregel.ToolStarted:
			m["tool_name"], m["input"] = x.Name, x.Input
		case pregel.ToolOutput:
			m["delta"] = x.Output
		case pregel.ToolFinished:
			m["output"] = toolOutput(x.Output)
		case pregel.ToolFailed:
			m["message"] = x.Err
		}
		return m
	case pregel.DebugEvent:
		payload := eventData(x.Payload)
		if c, ok := x.Payload.(pregel.CheckpointEvent); ok {
			m := payload.(map[string]any)
			m["checkpoint"], m["parent_checkpoint"] = CheckpointOf(c.Address), nil
			if c.Parent != nil {
				m["parent_checkpoint"] = CheckpointOf(*c.Parent)
			}
		}
		return map[string]any{"step": x.Step, "timestamp": x.Timestamp, "type": x.Type, "payload": payload}
	}
	return data
}

// toolOutput is what a tool answered, with the fields of LangGraph's Command for one.
func toolOutput(v any) any {
	switch x := v.(type) {
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = toolOutput(e)
		}
		return out
	case pregel.Command:
		m := map[string]any{"graph": nil, "update": x.Update, "resume": x.Resume, "goto": x.Goto}
		if x.Graph != "" {
			m["graph"] = x.Graph
		}
		if x.Goto == nil {
			m["goto"] = []any{}
		}
		if pairs, ok := x.Update.(pregel.Pairs); ok {
			update := map[string]any{}
			for _, p := range pairs {
				update[p.Key] = p.Value
			}
			m["update"] = update
		}
		return m
	}
	return v
}

// asks are interrupts as events show them.
func asks(list []pregel.Interrupt) []any {
	out := make([]any, len(list))
	for i, in := range list {
		out[i] = in
	}
	return out
}

// config is an address in LangGraph's form of a run's config.
func config(a pregel.Address) map[string]any {
	c := map[string]any{"thread_id": a.ThreadID, "checkpoint_ns": a.Namespace, "checkpoint_id": a.CheckpointID}
	if len(a.CheckpointMap) > 0 {
		c["checkpoint_map"] = a.CheckpointMap
	}
	return map[string]any{"configurable": c}
}

// eventTasks are the tasks of a checkpoint as events show them.
func eventTasks(list []pregel.TaskState) []any {
	out := make([]any, len(list))
	for i, t := range list {
		m := map[string]any{"id": t.ID, "name": t.Name, "interrupts": asks(t.Interrupts), "state": nil}
		if t.StateAddress != nil {
			m["state"] = config(*t.StateAddress)
		}
		if t.Err != nil {
			m["error"] = failed(t.Err)
		}
		if t.Finished {
			m["result"] = t.Result
		}
		out[i] = m
	}
	return out
}
