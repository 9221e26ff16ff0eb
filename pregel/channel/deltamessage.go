package channel

import (
	"maps"
	"slices"

	"github.com/stele-go/stele/saver/serde"
)

// Namer is a channel that gives ids to messages before their write is stored. A delta channel
// reads its stored writes many times. If a message got its id only then, it would have a
// different id each time.
type Namer interface {
	Channel
	// Name returns value with an id for each message that has none. value
	// itself is not changed.
	Name(value any) any
}

// DeltaMessages is Messages as a Delta channel: checkpoints store the messages that were
// written, not the whole conversation. It accepts messages, lists of them, and maps that
// describe one. A message with a known id replaces the old one. A removal removes one, and a
// removal of an unknown id does nothing. A removal of RemoveAll removes all that is before it.
// newID makes ids for messages without one; nil makes random UUIDs. frequency is that of
// Delta.
func DeltaMessages(frequency int, newID func() string) Channel {
	c := Delta(frequency, foldMessages).(*delta[[]Message, any])
	c.newID, c.messagesOnly, c.accepts, c.reducer = newID, true, areMessages, "messages"
	return c
}

// foldMessages is the reducer of DeltaMessages.
func foldMessages(state []Message, writes []any) ([]Message, error) {
	return FoldByID(state, writes, messageList, func(m Message) (string, bool) { return m.ID, m.Role == RoleRemove })
}

// FoldByID is LangGraph's reducer of a delta channel of messages, for messages of any type. It
// appends the messages of writes to those of state. One with the id of another takes its
// place, or removes it; one without an id is always appended, and the removal of an id that is
// not there does nothing. The last removal of RemoveAll among them drops state, and all that was
// written before it. list reads a write, and key tells the id of a message, and whether
// it is a removal. state is not changed. An error is one of list's.
func FoldByID[M any](state []M, writes []any, list func(write any) ([]M, error), key func(M) (id string, removes bool)) ([]M, error) {
	var written []M
	for _, w := range writes {
		messages, err := list(w)
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			if id, removes := key(m); removes && id == RemoveAll {
				state, written = nil, nil
			} else {
				written = append(written, m)
			}
		}
	}
	at := make(map[string]int, len(state))
	for i, m := range state {
		if id, _ := key(m); id != "" {
			at[id] = i
		}
	}
	merged := slices.Clone(state)
	removed := map[int]bool{}
	for _, m := range written {
		id, removes := key(m)
		i, known := at[id]
		switch {
		case id == "":
			merged = append(merged, m)
		case known && removes:
			removed[i] = true
			delete(at, id)
		case known:
			merged[i] = m
		case !removes:
			at[id] = len(merged)
			merged = append(merged, m)
		}
	}
	kept := make([]M, 0, len(merged))
	for i, m := range merged {
		if !removed[i] {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

// Name implements Namer. In a channel of messages, a map that describes a message becomes a
// Message. In other channels it does so only in a list; a single map gets an id.
func (c *delta[T, W]) Name(value any) any {
	if c.name != nil {
		return c.name(value)
	}
	if ow, ok := serde.AsOverwrite(value); ok {
		if named, changed := c.nameList(ow.Value, c.messagesOnly); changed {
			return serde.Overwrite{Value: named}
		}
		return value
	}
	if described, ok := value.(map[string]any); ok && isMessageMap(described) {
		if m, err := messageOf(described); err == nil && c.messagesOnly {
			return c.named(m)
		}
		if id, _ := described["id"].(string); id == "" {
			out := maps.Clone(described)
			out["id"] = c.nextID()
			return out
		}
		return value
	}
	named, _ := c.nameList(value, true)
	return named
}

// nameList gives ids to the messages that v is or holds, and reports whether it made a copy.
// With inMaps, maps in a list that describe a message count as messages.
func (c *delta[T, W]) nameList(v any, inMaps bool) (any, bool) {
	switch x := v.(type) {
	case Message:
		return c.named(x), x.ID == ""
	case *Message:
		if x != nil && x.ID == "" {
			return c.named(*x), true
		}
	case []Message:
		if !slices.ContainsFunc(x, func(m Message) bool { return m.ID == "" }) {
			return v, false
		}
		out := make([]Message, len(x))
		for i, m := range x {
			out[i] = c.named(m)
		}
		return out, true
	case []map[string]any:
		list := make([]any, len(x))
		for i, e := range x {
			list[i] = e
		}
		if out, changed := c.nameList(list, inMaps); changed {
			return out, true
		}
	case []any:
		var out []any
		for i, e := range x {
			n, changed := c.nameElement(e, inMaps)
			if changed && out == nil {
				out = slices.Clone(x)
			}
			if changed {
				out[i] = n
			}
		}
		if out != nil {
			return out, true
		}
	}
	return v, false
}

func (c *delta[T, W]) nameElement(e any, inMaps bool) (any, bool) {
	switch x := e.(type) {
	case Message, *Message:
		return c.nameList(e, inMaps)
	case map[string]any:
		if inMaps && isMessageMap(x) {
			if m, err := messageOf(x); err == nil {
				return c.named(m), true
			}
		}
	}
	return e, false
}

func (c *delta[T, W]) named(m Message) Message {
	if m.ID == "" {
		m.ID = c.nextID()
	}
	return m
}

func (c *delta[T, W]) nextID() string {
	if c.newID != nil {
		return c.newID()
	}
	return NewMessageID()
}

// isMessageMap reports whether a map describes a message: by its role, or by the
// type that LangChain writes.
func isMessageMap(v map[string]any) bool {
	role, _ := v["role"].(string)
	kind, _ := v["type"].(string)
	return messageRoles[role] || messageTypes[kind]
}

var (
	messageRoles = map[string]bool{"user": true, "human": true, "assistant": true, "ai": true, "tool": true, "system": true, "function": true, RoleRemove: true}
	messageTypes = map[string]bool{"human": true, "ai": true, "tool": true, "system": true, "function": true, "remove": true}
)
