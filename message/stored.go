package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/saver/serde"
)

// origin is what a message was read from. It is shared by copies of the message. Its maps are
// those of the message, see Message.
type origin struct {
	typ Type
	// ext is the stored message, if it was stored in Python's form.
	ext *serde.Ext
	// fields are those of ext, or of js.
	fields map[string]any
	// js is the stored message, if it was stored in JavaScript's form.
	js *jsOrigin
}

// ErrNotMessage: a value is not a message, in none of the forms that From reads.
var ErrNotMessage = errors.New("not a message")

const messageModules = "langchain_core.messages."

// class is a class of LangChain's messages.
type class struct {
	typ    Type
	module string
	name   string // without Chunk
}

// classes are LangChain's message classes.
var classes = []class{
	{TypeHuman, "human", "HumanMessage"},
	{TypeAI, "ai", "AIMessage"},
	{TypeSystem, "system", "SystemMessage"},
	{TypeTool, "tool", "ToolMessage"},
	{TypeRemove, "modifier", "RemoveMessage"},
	{TypeFunction, "function", "FunctionMessage"},
	{TypeChat, "chat", "ChatMessage"},
}

func classOf(t Type) (class, bool) {
	i := slices.IndexFunc(classes, func(c class) bool { return c.typ == t })
	if i < 0 {
		return class{}, false
	}
	return classes[i], true
}

// classNamed is the class with a name, which may end in Chunk.
func classNamed(name string) (c class, isChunk, ok bool) {
	name, isChunk = strings.CutSuffix(name, "Chunk")
	i := slices.IndexFunc(classes, func(c class) bool { return c.name == name })
	if i < 0 || isChunk && classes[i].typ == TypeRemove {
		return class{}, false, false
	}
	return classes[i], isChunk, true
}

// EncodeValue implements serde.ValueEncoder: what is stored is the message of LangChain's
// Python. A Type that LangChain does not have is an error.
func (m Message) EncodeValue() (v any, extra int64, err error) {
	if m.IsZero() {
		return nil, 0, nil
	}
	return encode(&Chunk{Message: m}, false)
}

// encode makes the stored form of a message, or of a chunk.
func encode(c *Chunk, isChunk bool) (any, int64, error) {
	cl, ok := classOf(c.Type)
	if !ok || isChunk && c.Type == TypeRemove {
		return nil, 0, fmt.Errorf("%w: its type is %q", ErrNotMessage, c.Type)
	}
	name := cl.name
	if isChunk {
		name += "Chunk"
	}
	o := c.origin
	if o != nil && o.ext != nil && o.typ == c.Type && o.ext.Name == name {
		return o.ext.WithValue(c.update(o.fields, isChunk)), c.memory(), nil
	}
	return serde.NewExt(serde.ExtPydanticV2, messageModules+cl.module, name, c.fresh(isChunk, name), ""), c.memory(), nil
}

// memory is what DecodeValue takes from its meter for what c is stored as, or more.
func (c *Chunk) memory() int64 {
	n := originSize + extraSize*int64(len(c.Extra)) + listSize(toolCallSize, len(c.ToolCalls)) +
		listSize(invalidToolCallSize, len(c.InvalidToolCalls)) + listSize(toolCallChunkSize, len(c.ToolCallChunks))
	details := 0
	if u := c.Usage; u != nil {
		details = usageFields + len(u.InputDetails) + len(u.OutputDetails)
	}
	return n + listSize(detailSize, details)
}

// fresh is the fields of a message that was not stored yet, in LangChain's order.
func (c *Chunk) fresh(isChunk bool, class string) serde.Fields {
	out := make(serde.Fields, 0, len(fields)+len(c.Extra))
	for i := range fields {
		f := &fields[i]
		if !f.has(c.Type, isChunk) {
			continue
		}
		v := f.value(c, nil)
		switch x, isExtra := c.Extra[f.name]; {
		case f.name == "type" && isChunk:
			v = class
		case isExtra && f.isZero(c):
			v = x
		}
		out = append(out, serde.Field{Name: f.name, Value: v})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		if f := fieldNamed(name); f == nil || !f.has(c.Type, isChunk) {
			out = append(out, serde.Field{Name: name, Value: c.Extra[name]})
		}
	}
	return out
}

// update is the fields of a message that was stored as stored: what has changed since is
// replaced.
func (c *Chunk) update(stored map[string]any, isChunk bool) map[string]any {
	out := make(map[string]any, len(stored)+len(c.Extra))
	for name, v := range stored {
		f := fieldNamed(name)
		switch x, isExtra := c.Extra[name]; {
		case f == nil || !f.has(c.Type, isChunk):
			if isExtra {
				out[name] = x
			}
		case isExtra && f.isZero(c):
			out[name] = x
		case f.name == "type":
			out[name] = v
		default:
			out[name] = f.value(c, v)
		}
	}
	for i := range fields { // those that were not stored, and are set now
		f := &fields[i]
		if _, had := stored[f.name]; !had && f.has(c.Type, isChunk) && !f.isZero(c) {
			out[f.name] = f.value(c, nil)
		}
	}
	for name, x := range c.Extra {
		if _, have := out[name]; !have {
			out[name] = x
		}
	}
	return out
}

// DecodeValue implements serde.ValueDecoder. It reads what From reads. A chunk becomes the
// message that Chunk.Whole makes of it.
func (m *Message) DecodeValue(v any, meter func(bytes int64) error) error {
	read, err := from(v, meter)
	if err != nil {
		return err
	}
	*m = read
	return nil
}

// load fills c from stored fields. What does not fit goes to Extra. It takes from meter before
// it allocates.
func (c *Chunk) load(stored map[string]any, isChunk bool, meter func(int64) error) error {
	for name, v := range stored {
		f := fieldNamed(name)
		if f != nil && f.has(c.Type, isChunk) {
			if err := meter(f.memory(v)); err != nil {
				return err
			}
			if f.load(c, v) {
				continue
			}
		}
		if err := meter(extraSize); err != nil {
			return err
		}
		if c.Extra == nil {
			c.Extra = map[string]any{}
		}
		c.Extra[name] = v
	}
	return nil
}

// fromExt reads a message or a chunk that Python stored.
func fromExt(x *serde.Ext, meter func(int64) error) (c Chunk, isChunk bool, err error) {
	if x == nil || !strings.HasPrefix(x.Module, messageModules) {
		return Chunk{}, false, fmt.Errorf("%w: %s", ErrNotMessage, typeOf(x))
	}
	cl, isChunk, ok := classNamed(x.Name)
	stored := x.Fields()
	if !ok || stored == nil {
		return Chunk{}, false, fmt.Errorf("%w: %s", ErrNotMessage, typeOf(x))
	}
	if err := meter(originSize); err != nil {
		return Chunk{}, false, err
	}
	c.Type = cl.typ
	c.origin = &origin{typ: cl.typ, ext: x, fields: stored}
	return c, isChunk, c.load(stored, isChunk, meter)
}

// typeOf names the type of v for an error.
func typeOf(v any) string {
	if x, ok := v.(*serde.Ext); ok {
		switch {
		case x == nil:
			return "nil"
		case x.Data != nil:
			return fmt.Sprintf("extension %d", x.Code)
		}
		return x.Module + "." + x.Name
	}
	return jsontext.Kind(v)
}

// MarshalJSON writes the fields of the message in LangChain's order, as LangGraph's server
// shows messages. It is not the form in which JavaScript stores messages; see EncodeJS.
func (m Message) MarshalJSON() ([]byte, error) {
	if m.IsZero() {
		return []byte("null"), nil
	}
	c := Chunk{Message: m}
	if _, ok := classOf(m.Type); !ok {
		return nil, fmt.Errorf("%w: its type is %q", ErrNotMessage, m.Type)
	}
	return pythonJSON.fields(nil, c.fresh(false, ""), 0)
}

// UnmarshalJSON reads what MarshalJSON writes, and the other forms that From reads.
func (m *Message) UnmarshalJSON(data []byte) error {
	v, err := serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: data})
	if err != nil {
		return err
	}
	stored, ok := v.(map[string]any)
	if kind, isText := stored["type"].(string); ok && isText && (stored["role"] == nil || strings.HasPrefix(strings.ToLower(kind), string(TypeChat))) {
		typ, isChunk := Type(kind), false
		if cl, chunk, ok := classNamed(kind); ok && chunk {
			typ, isChunk = cl.typ, true
		}
		if _, ok := classOf(typ); ok {
			var c Chunk
			c.Type = typ
			if err := c.load(stored, isChunk, unmetered); err != nil {
				return err
			}
			if isChunk {
				*m, err = c.Whole()
				return err
			}
			*m = c.Message
			return nil
		}
	}
	read, err := From(v)
	if err == nil {
		*m = read
	}
	return err
}

// writer writes JSON as a language does: Python tells a float that is a whole number from an
// integer, and JavaScript does not.
type writer int

const (
	pythonJSON writer = iota
	javaScriptJSON
)

// fields writes a JSON object, with its members in their order.
func (w writer) fields(b []byte, list serde.Fields, depth int) ([]byte, error) {
	b = append(b, '{')
	for i, f := range list {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = w.value(append(appendText(b, f.Name), ':'), f.Value, depth+1); err != nil {
			return nil, fmt.Errorf("field %q: %w", f.Name, err)
		}
	}
	return append(b, '}'), nil
}

func (w writer) value(b []byte, v any, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, errNesting
	}
	switch x := v.(type) {
	case serde.Fields:
		return w.fields(b, x, depth)
	case []any:
		if x != nil {
			return w.list(b, x, depth)
		}
		return append(b, "[]"...), nil
	case map[string]any:
		if x == nil {
			return append(b, "{}"...), nil
		}
		list := make(serde.Fields, 0, len(x))
		for _, k := range slices.Sorted(maps.Keys(x)) {
			list = append(list, serde.Field{Name: k, Value: x[k]})
		}
		return w.fields(b, list, depth)
	case string:
		return appendText(b, x), nil
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) { // JSON has none
			return append(b, "null"...), nil
		}
		if w == pythonJSON {
			return append(b, floatText(x)...), nil
		}
	}
	text, err := json.Marshal(v)
	return append(b, text...), err
}

func (w writer) list(b []byte, list []any, depth int) ([]byte, error) {
	b = append(b, '[')
	for i, x := range list {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = w.value(b, x, depth+1); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}
