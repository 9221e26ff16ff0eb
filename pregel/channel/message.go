package channel

import (
	"crypto/rand"
	"fmt"
	"slices"
)

// RemoveAll is the id of a message that removes every message before it.
const RemoveAll = "__remove_all__"

// RoleRemove is the role of a message that removes the one with its id.
const RoleRemove = "remove"

// Message is a chat message. Content is text or a list of content blocks.
type Message struct {
	ID         string         `json:"id,omitempty"`
	Role       string         `json:"role"` // "human", "ai", "system", "tool", "remove", …
	Content    any            `json:"content,omitempty"`
	Name       string         `json:"name,omitempty"`
	ToolCallID string         `json:"tool_call_id,omitempty"`
	Extra      map[string]any `json:"extra,omitempty"`
}

// Identified is a message of any type: one that has an id, by which a stream shows it once.
type Identified interface {
	// MessageID is the id; empty if it has none.
	MessageID() string
	// WithMessageID returns a copy, of the same type, with another id.
	WithMessageID(id string) any
}

// MessageID implements Identified.
func (m Message) MessageID() string { return m.ID }

// WithMessageID implements Identified.
func (m Message) WithMessageID(id string) any { m.ID = id; return m }

// RemoveMessage is the message that removes the one with this id, or, with
// RemoveAll, all before it.
func RemoveMessage(id string) Message { return Message{ID: id, Role: RoleRemove} }

// UnknownMessageError: a message to remove is not in the list.
type UnknownMessageError struct{ ID string }

// Error names the id.
func (e *UnknownMessageError) Error() string {
	return fmt.Sprintf("Attempting to delete a message with an ID that doesn't exist ('%s')", e.ID)
}

// Messages is the channel of a conversation. New messages are appended, a message with a
// known id replaces the old one, and a removal removes one. A removal of an unknown id is an
// UpdateError. newID makes ids for messages without one; nil makes random UUIDs.
func Messages(newID func() string) Channel {
	if newID == nil {
		newID = NewMessageID
	}
	c := FoldAccepted(func(left []Message, right any) ([]Message, error) {
		list, err := messageList(right)
		if err != nil {
			return nil, err
		}
		return AddMessages(left, list, newID)
	}, areMessages)
	c.(*fold[[]Message, any]).reducer = "messages" //nolint:errcheck // FoldAccepted makes no other
	return c
}

// areMessages reports whether messageList can read v.
func areMessages(v any) error {
	_, err := messageList(v)
	return err
}

// messageList reads one message or a list of them, in the forms that LangGraph accepts: a
// Message, a map with its fields, or a text, which stands for a human message. An element of
// a list may also be the pair of a role and a text.
func messageList(v any) ([]Message, error) {
	switch x := v.(type) {
	case []Message:
		return x, nil
	case []any:
		out := make([]Message, len(x))
		for i, e := range x {
			m, err := messageOf(e)
			if err != nil {
				return nil, err
			}
			out[i] = m
		}
		return out, nil
	case Message, *Message, map[string]any, string:
		m, err := messageOf(v)
		return []Message{m}, err
	}
	return Convert[[]Message](v)
}

// messageOf reads one message.
func messageOf(v any) (Message, error) {
	switch x := v.(type) {
	case Message:
		return x, nil
	case *Message:
		if x != nil {
			return *x, nil
		}
	case string:
		return Message{Role: "human", Content: x}, nil
	case []any:
		if len(x) == 2 {
			role, isRole := x[0].(string)
			if text, isText := x[1].(string); isRole && isText {
				return Message{Role: roleOf(role), Content: text}, nil
			}
		}
	case map[string]any:
		m, err := Convert[Message](x)
		if kind, ok := x["type"].(string); ok && m.Role == "" {
			m.Role = kind
		}
		m.Role = roleOf(m.Role)
		return m, err
	}
	return Convert[Message](v)
}

// roleOf is LangChain's name of a role.
func roleOf(role string) string {
	switch role {
	case "user":
		return "human"
	case "assistant":
		return "ai"
	}
	return role
}

// AddMessages merges right into left by id, as LangGraph's add_messages does, and returns a
// new list. Messages without an id get one from newID. What follows RemoveAll is merged into an
// empty list, so that no two have one id and no removal stays; LangGraph takes it as it is.
func AddMessages(left, right []Message, newID func() string) ([]Message, error) {
	named := make([]Message, len(right))
	for i, m := range right {
		if m.ID == "" {
			m.ID = newID()
		}
		named[i] = m
	}
	cleared := false
	for i, m := range slices.Backward(named) {
		if m.Role == RoleRemove && m.ID == RemoveAll {
			left, named, cleared = nil, named[i+1:], true
			break
		}
	}
	merged := append(make([]Message, 0, len(left)+len(named)), left...)
	at := make(map[string]int, len(merged)+len(named))
	for i := range merged {
		if merged[i].ID == "" {
			merged[i].ID = newID()
		}
		at[merged[i].ID] = i
	}
	remove := map[string]bool{}
	for _, m := range named {
		i, known := at[m.ID]
		switch {
		case known && m.Role == RoleRemove:
			remove[m.ID] = true
		case known:
			delete(remove, m.ID)
			merged[i] = m
		case m.Role == RoleRemove && cleared: // it is not there
		case m.Role == RoleRemove:
			return nil, &UnknownMessageError{ID: m.ID}
		default:
			at[m.ID] = len(merged)
			merged = append(merged, m)
		}
	}
	return slices.DeleteFunc(merged, func(m Message) bool { return remove[m.ID] }), nil
}

// NewMessageID returns a random UUID, the default id of a message without one.
func NewMessageID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // crypto/rand never returns an error
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
