package message

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/serde"
)

// unmetered allows any amount of memory.
func unmetered(int64) error { return nil }

// From reads v as a message, as LangGraph reads what a node writes to its messages:
//
//   - a Message, a *Message, or a Chunk, which becomes the message that it makes whole,
//   - a text, which is a message from a human,
//   - the pair of a role and a content, as []any or []string,
//   - a map with "role" or "type", and "content", in LangChain's or OpenAI's form,
//   - a channel.Message, also one that was stored; its Extra goes to AdditionalKwargs, as "extra",
//   - a message of LangChain's that was read from a checkpoint: an *serde.Ext that Python
//     stored, or a map {"lc": 1, …} that JavaScript stored.
//
// From shares memory with v. The error is ErrNotMessage if v is none of these, or is not
// complete.
func From(v any) (Message, error) { return from(v, unmetered) }

func from(v any, meter func(int64) error) (Message, error) {
	switch x := v.(type) {
	case Message:
		return x, x.check()
	case *Message:
		if x != nil {
			return *x, x.check()
		}
	case channel.Message:
		return fromPlain(x)
	case *channel.Message:
		if x != nil {
			return fromPlain(*x)
		}
	case Chunk:
		return x.Whole()
	case *Chunk:
		if x != nil {
			return x.Whole()
		}
	case string:
		return Human(x), nil
	case []string:
		if len(x) == 2 {
			return describe(x[0], x[1], nil)
		}
	case []any:
		if len(x) == 2 {
			if role, ok := x[0].(string); ok {
				return describe(role, x[1], nil)
			}
		}
	case map[string]any:
		if isEnvelope(x) {
			break
		}
		return fromMap(x)
	case *serde.Ext:
	default:
		return Message{}, fmt.Errorf("%w: %s", ErrNotMessage, typeOf(v))
	}
	c, isChunk, err := fromStored(v, meter)
	if err != nil {
		return Message{}, err
	}
	if isChunk {
		return c.Whole()
	}
	return c.Message, nil
}

// fromStored reads a message or a chunk as Python or JavaScript stored it.
func fromStored(v any, meter func(int64) error) (c Chunk, isChunk bool, err error) {
	switch x := v.(type) {
	case *serde.Ext:
		return fromExt(x, meter)
	case map[string]any:
		if isEnvelope(x) {
			return fromEnvelope(x, meter)
		}
	}
	return Chunk{}, false, fmt.Errorf("%w: %s", ErrNotMessage, typeOf(v))
}

// FromList reads a list of messages, or a single one, as From reads each.
func FromList(v any) ([]Message, error) {
	switch x := v.(type) {
	case nil:
		return nil, nil
	case List:
		return checked(x)
	case []Message:
		return checked(x)
	case []channel.Message:
		return fromEach(x)
	case []any:
		return fromEach(x)
	case []Chunk:
		return fromEach(x)
	case []map[string]any:
		return fromEach(x)
	}
	m, err := From(v)
	if err != nil {
		return nil, err
	}
	return []Message{m}, nil
}

// checked is list, if all of it are messages.
func checked(list []Message) ([]Message, error) {
	for i := range list {
		if err := list[i].check(); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return list, nil
}

// check refuses a message of a type that cannot be stored.
func (m *Message) check() error {
	if _, ok := classOf(m.Type); !ok {
		return fmt.Errorf("%w: its type is %q", ErrNotMessage, m.Type)
	}
	return nil
}

// fromPlain reads a message of package channel, which is stored as a map.
func fromPlain(x channel.Message) (Message, error) {
	if x.Role == channel.RoleRemove {
		return Remove(x.ID), nil
	}
	described := map[string]any{"role": x.Role, "content": x.Content}
	for name, text := range map[string]string{"id": x.ID, "name": x.Name, "tool_call_id": x.ToolCallID} {
		if text != "" {
			described[name] = text
		}
	}
	if x.Extra != nil {
		described["extra"] = x.Extra
	}
	return fromMap(described)
}

func fromEach[T any](list []T) ([]Message, error) {
	out := make([]Message, len(list))
	for i, e := range list {
		m, err := From(e)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		out[i] = m
	}
	return out, nil
}

// fromMap reads a map that describes a message.
func fromMap(described map[string]any) (Message, error) {
	rest := maps.Clone(described)
	role, ok := rest["role"]
	if ok {
		delete(rest, "role")
	} else {
		role = rest["type"]
		delete(rest, "type")
	}
	name, isText := role.(string)
	content, hasContent := rest["content"]
	delete(rest, "content")
	if !isText || !hasContent {
		return Message{}, fmt.Errorf("%w: a map with the keys %q; it needs role or type, and content", ErrNotMessage, sortedKeys(described))
	}
	return describe(name, content, rest)
}

// describe makes a message of a role, a content and further fields. Roles are LangChain's types,
// and OpenAI's names for them. Fields that are not known go to AdditionalKwargs, as LangChain has
// it. It changes rest.
func describe(role string, content any, rest map[string]any) (Message, error) {
	var m Message
	fail := func(format string, args ...any) (Message, error) {
		return Message{}, fmt.Errorf("%w: role %q: %s", ErrNotMessage, role, fmt.Sprintf(format, args...))
	}
	take := func(name string) any {
		v := rest[name]
		delete(rest, name)
		return v
	}
	switch role {
	case "human", "user":
		m.Type = TypeHuman
	case "ai", "assistant":
		m.Type = TypeAI
	case "system", "developer":
		m.Type = TypeSystem
	case "function", "tool", "remove":
		m.Type = Type(role)
	default:
		return fail("use human, user, ai, assistant, function, tool, system or developer")
	}
	if !truthy(content) {
		content = ""
	}
	if n, ok := intOf(content); ok && m.Type == TypeTool {
		content = strconv.FormatInt(n, 10)
	}
	if m.Type != TypeRemove && !m.setContent(content) {
		if list, ok := content.([]any); ok {
			i := slices.IndexFunc(list, func(e any) bool { return !new(Message).setContent([]any{e}) })
			return fail("part %d of the content is %s: use texts and blocks", i, kindOf(list[i]))
		}
		return fail("the content is %s", kindOf(content))
	}
	if v := take("name"); !loadText(&m.Name, v) {
		return fail("the name is %s", kindOf(v))
	}
	id := take("id")
	if n, ok := intOf(id); ok {
		id = strconv.FormatInt(n, 10)
	}
	if !loadText(&m.ID, id) {
		return fail("the id is %s", kindOf(id))
	}
	if err := m.describeTools(take("tool_call_id"), take("tool_calls")); err != nil {
		return fail("%v", err)
	}
	if v := take("response_metadata"); truthy(v) {
		var ok bool
		if m.ResponseMetadata, ok = v.(map[string]any); !ok {
			return fail("response_metadata is %s", kindOf(v))
		}
	}
	if len(rest) > 0 {
		inner, had := rest["additional_kwargs"]
		delete(rest, "additional_kwargs")
		kwargs, ok := inner.(map[string]any)
		if had && !ok {
			return fail("additional_kwargs is %s", kindOf(inner))
		}
		maps.Copy(rest, kwargs)
		m.AdditionalKwargs = rest
	}
	switch m.Type {
	case TypeHuman, TypeAI:
		if example := m.AdditionalKwargs["example"]; example != nil {
			delete(m.AdditionalKwargs, "example")
			if truthy(example) {
				m.extra("example", example)
			}
		}
	case TypeSystem:
		if role == "developer" {
			if m.AdditionalKwargs == nil {
				m.AdditionalKwargs = map[string]any{}
			}
			m.AdditionalKwargs["__openai_role__"] = "developer"
		}
	case TypeTool:
		m.Artifact = m.AdditionalKwargs["artifact"]
		status := m.AdditionalKwargs["status"]
		delete(m.AdditionalKwargs, "artifact")
		delete(m.AdditionalKwargs, "status")
		if status != nil && status != string(StatusSuccess) && status != string(StatusError) {
			return fail("the status is %v", status)
		}
		s, _ := status.(string)
		m.Status = Status(s)
	case TypeFunction:
		if m.Name == "" {
			return fail("it has no name")
		}
	case TypeRemove:
		if m.ID == "" {
			return fail("it has no id")
		}
	}
	if err := m.readKwargs(); err != nil {
		return fail("%v", err)
	}
	return m, nil
}

func (m *Message) extra(name string, v any) {
	if m.Extra == nil {
		m.Extra = map[string]any{}
	}
	m.Extra[name] = v
}

// describeTools sets what a message says of tools: the call that it answers, or its own calls,
// each in LangChain's or OpenAI's form.
func (m *Message) describeTools(callID, calls any) error {
	if n, ok := intOf(callID); ok && m.Type == TypeTool {
		callID = strconv.FormatInt(n, 10)
	}
	switch {
	case m.Type == TypeTool:
		if callID == nil || !loadText(&m.ToolCallID, callID) {
			return fmt.Errorf("tool_call_id is %s", kindOf(callID))
		}
	case callID != nil:
		m.extra("tool_call_id", callID)
	}
	if calls == nil {
		return nil
	}
	list, ok := calls.([]any)
	if !ok {
		return fmt.Errorf("tool_calls is %s", kindOf(calls))
	}
	read := make([]any, len(list))
	for i, e := range list {
		call, ok := e.(map[string]any)
		if !ok {
			return fmt.Errorf("tool call %d is %s", i, kindOf(e))
		}
		if f, ok := call["function"]; ok {
			function, _ := f.(map[string]any)
			args := function["arguments"]
			if text, ok := args.(string); ok {
				var err error
				if args, err = parseJSON(text, false); err != nil {
					return fmt.Errorf("the arguments of tool call %d: %w", i, err)
				}
			}
			id, hasID := call["id"]
			if !hasID {
				return fmt.Errorf("tool call %d has no id", i)
			}
			call = map[string]any{"name": function["name"], "args": args, "id": id, "type": "tool_call"}
		}
		read[i] = call
	}
	if m.Type != TypeAI {
		m.extra("tool_calls", read)
		return nil
	}
	for i, e := range read {
		call := e.(map[string]any) //nolint:errcheck // put there above
		for k := range call {
			if !slices.Contains([]string{"name", "args", "id", "type", "extras"}, k) {
				return fmt.Errorf("tool call %d has the key %q", i, k)
			}
		}
		c, ok := loadToolCall(call)
		if _, hasID := call["id"]; !ok || !hasID {
			return fmt.Errorf("tool call %d needs a name, args and an id", i)
		}
		m.ToolCalls = append(m.ToolCalls, c)
	}
	return nil
}
