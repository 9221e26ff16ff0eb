package message

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Type is the kind of a message: who it is from, or what it does. The values are LangChain's.
type Type string

// The types of messages.
const (
	TypeHuman    Type = "human"
	TypeAI       Type = "ai"
	TypeSystem   Type = "system"
	TypeTool     Type = "tool"     // the result of a tool call
	TypeRemove   Type = "remove"   // removes another message from a list; see Add
	TypeFunction Type = "function" // what TypeTool was called before there were ids of calls
	TypeChat     Type = "chat"     // of a role of one's own; see Message.Role
)

// Status says how a tool call ended.
type Status string

// The statuses of tool messages. An empty Status is StatusSuccess.
const (
	StatusSuccess Status = "success"
	StatusError   Status = "error"
)

// Message is a chat message, with the fields of all of LangChain's message classes. Those
// that a type does not have are not stored.
//
// A Message that was read remembers what it was read from, in addition to its fields. So it is
// written with the same bytes, as far as its fields have not changed: the order of keys, and
// whether something was empty or missing, are kept. A copy of it remembers the same. Maps and
// lists of a message that was read are shared with what it remembers, and with copies of it;
// changes in place are seen by all of them, and are written.
//
// The zero Message is no message. It is stored as None.
type Message struct {
	Type Type
	// ID is empty until the message is added to a state; see Add.
	ID string
	// Name is the name of who speaks, or of the tool or function.
	Name string
	// Content is the content, if that is a text. Text returns the text of any content.
	Content string
	// Blocks is the content, if that is a list: each element is a Block or a string. If it
	// is not nil, Content is not stored.
	Blocks []any

	// ToolCalls and InvalidToolCalls are what an AI message asks for, and what it asked for
	// in a form that could not be read.
	ToolCalls        []ToolCall
	InvalidToolCalls []InvalidToolCall
	// Usage is what an AI message cost; nil if that is not known.
	Usage *Usage

	// ToolCallID is the call that a tool message answers. Artifact is a part of the answer
	// that models do not see.
	ToolCallID string
	Artifact   any
	Status     Status

	// Role is the role of a TypeChat message.
	Role string

	// AdditionalKwargs and ResponseMetadata hold what providers send beside the rest.
	AdditionalKwargs map[string]any
	ResponseMetadata map[string]any
	// Extra holds stored fields that have no place above: fields that are not known, and
	// fields whose stored value does not fit. They are written back.
	Extra map[string]any

	origin *origin
}

// Block is a part of a content, in the form of LangChain or of a provider. It has a "type".
type Block = map[string]any

// TextBlock returns a block of text.
func TextBlock(text string) Block { return Block{"type": "text", "text": text} }

// ImageURL returns a block with an image at a URL, which may be a data URL.
func ImageURL(url string) Block {
	return Block{"type": "image_url", "image_url": map[string]any{"url": url}}
}

// Human returns a message from a person.
func Human(text string) Message { return Message{Type: TypeHuman, Content: text} }

// System returns a message that instructs a model.
func System(text string) Message { return Message{Type: TypeSystem, Content: text} }

// AI returns a message from a model.
func AI(text string, calls ...ToolCall) Message {
	return Message{Type: TypeAI, Content: text, ToolCalls: calls}
}

// ToolResult returns the answer to a tool call.
func ToolResult(call ToolCall, text string) Message {
	return Message{Type: TypeTool, Content: text, Name: call.Name, ToolCallID: call.ID}
}

// RemoveAllID is the id of a message that removes all messages before it.
const RemoveAllID = "__remove_all__"

// Remove returns the message that removes the one with this id, or, with RemoveAllID, all
// before it. See Add.
func Remove(id string) Message { return Message{Type: TypeRemove, ID: id} }

// Notice is the message marked as one that a program added to a conversation, and not its person or
// tool: source says which, and data, unless nil, what it says of it. They are LangChain's lc_source
// and lc_data of AdditionalKwargs, and take the place of earlier ones. Models are not told of them.
func (m Message) Notice(source string, data map[string]any) Message {
	m.AdditionalKwargs = maps.Clone(m.AdditionalKwargs)
	if m.AdditionalKwargs == nil {
		m.AdditionalKwargs = map[string]any{}
	}
	m.AdditionalKwargs["lc_source"] = source
	delete(m.AdditionalKwargs, "lc_data")
	if data != nil {
		m.AdditionalKwargs["lc_data"] = data
	}
	return m
}

// Text is the content as text: the text itself, or the texts among the blocks, joined.
func (m Message) Text() string {
	if m.Blocks == nil {
		return m.Content
	}
	var b strings.Builder
	for _, block := range m.Blocks {
		switch x := block.(type) {
		case string:
			b.WriteString(x)
		case map[string]any:
			if text, ok := x["text"].(string); ok && x["type"] == "text" {
				b.WriteString(text)
			}
		}
	}
	return b.String()
}

// String is the message as a line for a person: its type, its text, and the tools that it calls.
// It says nothing of the other fields.
func (m Message) String() string {
	var b strings.Builder
	b.WriteString(string(m.Type) + ":")
	if text := m.Text(); text != "" {
		b.WriteString(" " + text)
	}
	for _, c := range m.ToolCalls {
		args, err := c.ArgsJSON()
		if err != nil {
			args = fmt.Sprint(c.Args)
		}
		b.WriteString(" " + c.Name + "(" + args + ")")
	}
	return b.String()
}

// IsZero reports whether m is the zero Message.
func (m Message) IsZero() bool { return m.Type == "" && reflect.ValueOf(m).IsZero() }

// content is the content as it is stored.
func (m *Message) content() any {
	if m.Blocks != nil {
		return m.Blocks
	}
	return m.Content
}

// setContent is the reverse of content. ok is false if v is no content.
func (m *Message) setContent(v any) (ok bool) {
	switch x := v.(type) {
	case string:
		m.Content, m.Blocks = x, nil
		return true
	case []any:
		for _, e := range x {
			switch e.(type) {
			case string, map[string]any:
			default:
				return false
			}
		}
		if x == nil {
			x = []any{}
		}
		m.Content, m.Blocks = "", x
		return true
	}
	return false
}

// Equal reports whether a and b have equal fields. Empty and nil maps and lists are equal,
// except that Blocks which are not nil differ from a text. What a and b were read from does
// not count.
func Equal(a, b Message) bool {
	if (a.Blocks == nil) != (b.Blocks == nil) || a.Blocks == nil && a.Content != b.Content {
		return false
	}
	if (a.Usage == nil) != (b.Usage == nil) || a.Usage != nil && !a.Usage.equal(*b.Usage) {
		return false
	}
	return a.Type == b.Type && a.ID == b.ID && a.Name == b.Name && a.ToolCallID == b.ToolCallID && a.Role == b.Role &&
		a.status() == b.status() &&
		same(a.Blocks, b.Blocks) &&
		slices.EqualFunc(a.ToolCalls, b.ToolCalls, ToolCall.equal) &&
		slices.Equal(a.InvalidToolCalls, b.InvalidToolCalls) &&
		same(a.Artifact, b.Artifact) &&
		same(a.AdditionalKwargs, b.AdditionalKwargs) && same(a.ResponseMetadata, b.ResponseMetadata) && same(a.Extra, b.Extra)
}

func (m *Message) status() Status {
	if m.Status == "" {
		return StatusSuccess
	}
	return m.Status
}

// same is DeepEqual for which an empty map or list equals a nil one.
func same(a, b any) bool {
	if isEmpty(a) && isEmpty(b) {
		return true
	}
	return reflect.DeepEqual(a, b)
}

func isEmpty(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(x) == 0
	case []any:
		return len(x) == 0
	}
	return false
}

// MessageID is the id; it makes Message a channel.Identified.
func (m Message) MessageID() string { return m.ID }

// WithMessageID returns a copy of m with another id.
func (m Message) WithMessageID(id string) any { m.ID = id; return m }

// ToolCall is a request of a model to run a tool. Message.MarshalJSON and package pregeljson write
// it as LangChain does. It has no MarshalJSON, which a struct that embeds it would have too, so that
// its other fields were lost.
type ToolCall struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
	// ID links the call to its result, Message.ToolCallID.
	ID string `json:"id"`
}

// ArgsJSON is the arguments as a JSON object, with keys sorted, so that the same call has the same
// text each time. The error is that of encoding/json: of a NaN, say.
func (c ToolCall) ArgsJSON() (string, error) {
	if c.Args == nil {
		return "{}", nil
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(c.Args); err != nil {
		return "", fmt.Errorf("the arguments of tool call %q: %w", c.ID, err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// EncodeValue implements serde.ValueEncoder: what is stored is LangChain's tool call.
func (c ToolCall) EncodeValue() (v any, extra int64, err error) {
	return toolCallValue(c, nil), 0, nil
}

// DecodeValue implements serde.ValueDecoder.
func (c *ToolCall) DecodeValue(v any, _ func(bytes int64) error) error {
	m, _ := v.(map[string]any)
	if args, has := m["args"]; has && args == nil { // as encoding/json writes a call without arguments
		m = maps.Clone(m)
		m["args"] = map[string]any{}
	}
	read, ok := loadToolCall(m)
	if !ok {
		return fmt.Errorf("no tool call: %s", typeOf(v))
	}
	*c = read
	return nil
}

func (c ToolCall) equal(d ToolCall) bool {
	return c.Name == d.Name && c.ID == d.ID && same(c.Args, d.Args)
}

// InvalidToolCall is a request to run a tool whose arguments could not be read.
type InvalidToolCall struct {
	Name  string `json:"name"`
	Args  string `json:"args"` // as the model sent them
	ID    string `json:"id"`
	Error string `json:"error"` // why, if that is known
}

// Usage counts the tokens of a call of a model. The details are by kind: "audio",
// "cache_creation" and "cache_read" of the input, "audio" and "reasoning" of the output, and
// others that a provider has.
type Usage struct {
	InputTokens   int64            `json:"input_tokens"`
	OutputTokens  int64            `json:"output_tokens"`
	TotalTokens   int64            `json:"total_tokens"`
	InputDetails  map[string]int64 `json:"input_token_details,omitempty"`
	OutputDetails map[string]int64 `json:"output_token_details,omitempty"`
}

func (u Usage) equal(v Usage) bool {
	return u.InputTokens == v.InputTokens && u.OutputTokens == v.OutputTokens && u.TotalTokens == v.TotalTokens &&
		maps.Equal(u.InputDetails, v.InputDetails) && maps.Equal(u.OutputDetails, v.OutputDetails)
}
