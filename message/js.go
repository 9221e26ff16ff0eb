package message

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/stele-go/stele/saver/serde"
)

// LangChain's JavaScript stores a message as JSON, under serde.KindJSON:
//
//	{"lc":1,"type":"constructor","id":["langchain_core","messages","HumanMessage"],"kwargs":{"content":"hi", …}}
//
// Its fields have the names that they have in Python, and stand in the order in which the
// program gave them.

// jsOrigin is a message as JavaScript stored it.
type jsOrigin struct {
	id     string // text of "id"
	fields []jsField
}

type jsField struct{ name, text string }

// isEnvelope reports whether v is an object as LangChain stores it in JSON.
func isEnvelope(v map[string]any) bool {
	lc, ok := intOf(v["lc"])
	_, isList := v["id"].([]any)
	return ok && lc == 1 && v["type"] == "constructor" && isList
}

// isUndefined reports whether v is what JavaScript stores for undefined.
func isUndefined(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	lc, ok := intOf(m["lc"])
	return ok && lc == 2 && m["type"] == "undefined"
}

// fromEnvelope reads a message or a chunk that JavaScript stored.
func fromEnvelope(v map[string]any, meter func(int64) error) (c Chunk, isChunk bool, err error) {
	id, _ := v["id"].([]any)
	stored, ok := v["kwargs"].(map[string]any)
	if len(id) == 0 || !ok {
		return Chunk{}, false, fmt.Errorf("%w: a constructor without kwargs", ErrNotMessage)
	}
	name, _ := id[len(id)-1].(string)
	cl, isChunk, ok := classNamed(name)
	if !ok {
		return Chunk{}, false, fmt.Errorf("%w: a constructor of %q", ErrNotMessage, name)
	}
	known := make(map[string]any, len(stored))
	if err := meter(64 + 128*int64(len(stored))); err != nil {
		return Chunk{}, false, err
	}
	for k, x := range stored {
		if !isUndefined(x) {
			known[k] = x
		}
	}
	c.Type = cl.typ
	return c, isChunk, c.load(known, isChunk, meter)
}

// DecodeJS reads a list of messages, or a single one, that LangChain's JavaScript stored: the
// data of a value of serde.KindJSON. EncodeJS writes messages that have not changed with the
// same bytes. A chunk becomes the message that it makes whole.
//
// The error is ErrNotMessage if data is JSON and something else, and serde.ErrMalformed if it
// is not JSON, or nests too deep.
func DecodeJS(data []byte) ([]Message, error) {
	// The codec bounds the memory, and knows what is malformed.
	v, err := serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: data})
	if err != nil {
		return nil, err
	}
	texts := []string{string(data)}
	values := []any{v}
	if list, ok := v.([]any); ok {
		if texts, err = elementsOf(string(data)); err != nil {
			return nil, err
		}
		values = list
	}
	out := make([]Message, len(values))
	for i, x := range values {
		m, ok := x.(map[string]any)
		if !ok || !isEnvelope(m) || len(texts) != len(values) {
			return nil, fmt.Errorf("%w: element %d", ErrNotMessage, i)
		}
		c, isChunk, err := fromEnvelope(m, unmetered)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if isChunk {
			if out[i], err = c.Whole(); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			continue
		}
		js, err := readOrigin(texts[i])
		if err != nil {
			return nil, err
		}
		c.origin = &origin{typ: c.Type, js: js}
		out[i] = c.Message
	}
	return out, nil
}

// readOrigin reads the parts of a constructor as texts.
func readOrigin(text string) (*jsOrigin, error) {
	parts, err := membersOf(text)
	if err != nil {
		return nil, err
	}
	js := &jsOrigin{fields: []jsField{}} // without fields is not without an origin
	for _, p := range parts {
		switch p.name {
		case "id":
			js.id = p.text
		case "kwargs":
			if js.fields, err = membersOf(p.text); err != nil {
				return nil, err
			}
		}
	}
	return js, nil
}

// elementsOf is the elements of a JSON list, as texts.
func elementsOf(text string) ([]string, error) {
	p := jsonParser{text: text}
	if p.next() != '[' {
		return nil, &syntaxError{p.off}
	}
	p.off++
	var out []string
	if p.next() == ']' {
		return out, nil
	}
	for {
		p.space()
		from := p.off
		if _, err := p.value(); err != nil {
			return nil, err
		}
		out = append(out, text[from:p.off])
		if b := p.next(); b == ']' {
			return out, nil
		} else if b != ',' {
			return nil, &syntaxError{p.off}
		}
		p.off++
	}
}

// membersOf is the members of a JSON object, as texts, in their order. Of equal names the last
// has the place of the first, as in JavaScript.
func membersOf(text string) ([]jsField, error) {
	p := jsonParser{text: text}
	if p.next() != '{' {
		return nil, &syntaxError{p.off}
	}
	p.off++
	out := []jsField{}
	at := map[string]int{}
	if p.next() == '}' {
		return out, nil
	}
	for {
		if p.next() != '"' {
			return nil, &syntaxError{p.off}
		}
		name, err := p.str()
		if err != nil {
			return nil, err
		}
		if p.next() != ':' {
			return nil, &syntaxError{p.off}
		}
		p.off++
		p.space()
		from := p.off
		if _, err := p.value(); err != nil {
			return nil, err
		}
		if i, twice := at[name]; twice {
			out[i].text = text[from:p.off]
		} else {
			at[name] = len(out)
			out = append(out, jsField{name, text[from:p.off]})
		}
		if b := p.next(); b == '}' {
			return out, nil
		} else if b != ',' {
			return nil, &syntaxError{p.off}
		}
		p.off++
	}
}

// EncodeJS writes messages as LangChain's JavaScript stores a list of them: the data of a value
// of serde.KindJSON. A message that DecodeJS has read is written with the same bytes, as far as
// it has not changed. The error names the field that JSON cannot hold.
func EncodeJS(list []Message) ([]byte, error) {
	b := []byte{'['}
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendJS(b, &Chunk{Message: list[i]}); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return append(b, ']'), nil
}

func appendJS(b []byte, c *Chunk) ([]byte, error) {
	cl, ok := classOf(c.Type)
	if !ok {
		return nil, fmt.Errorf("%w: its type is %q", ErrNotMessage, c.Type)
	}
	b = append(b, `{"lc":1,"type":"constructor","id":`...)
	var err error
	if o := c.origin; o != nil && o.js != nil && o.typ == c.Type {
		b = append(append(b, o.js.id...), `,"kwargs":{`...)
		b, err = c.appendKwargs(b, o.js.fields)
	} else {
		b = append(appendText(append(b, `["langchain_core","messages",`...), cl.name), `],"kwargs":{`...)
		b, err = c.appendKwargs(b, nil)
	}
	return append(b, "}}"...), err
}

// jsOrder is the order of the fields of a message that JavaScript did not write. Its last are
// those that JavaScript adds to what the program gave.
var jsOrder = []string{
	"content", "id", "name", "tool_calls", "invalid_tool_calls", "usage_metadata",
	"tool_call_id", "artifact", "status", "role", "additional_kwargs", "response_metadata",
}

// jsAlways are the fields that such a message has even if they are empty.
var jsAlways = []string{"content", "tool_calls", "invalid_tool_calls", "additional_kwargs", "response_metadata"}

// appendKwargs writes the fields: first those in stored, in their order, then those that were
// set since.
func (c *Chunk) appendKwargs(b []byte, stored []jsField) ([]byte, error) {
	first := true
	member := func(name, text string) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(appendText(b, name), ':'), text...)
	}
	had := map[string]bool{}
	for _, s := range stored {
		had[s.name] = true
		text, ok, err := c.jsText(s)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", s.name, err)
		}
		if ok {
			member(s.name, text)
		}
	}
	for _, name := range jsOrder {
		f := fieldNamed(name)
		always := stored == nil && slices.Contains(jsAlways, name)
		if had[name] || !f.has(c.Type, false) || f.isZero(c) && !always {
			continue
		}
		had[name] = true
		v := f.value(c, nil)
		if name == "content" && c.Type == TypeRemove && v == "" {
			v = []any{} // as it is there
		}
		text, err := javaScriptJSON.value(nil, v, 0)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", name, err)
		}
		member(name, string(text))
	}
	for _, name := range sortedKeys(c.Extra) {
		if had[name] {
			continue
		}
		text, err := javaScriptJSON.value(nil, c.Extra[name], 0)
		if err != nil {
			return nil, fmt.Errorf("field %q: %w", name, err)
		}
		member(name, string(text))
	}
	return b, nil
}

// jsText is the text of a field that JavaScript stored as s: the same, unless it has changed
// since. ok is false if it is not there any more.
func (c *Chunk) jsText(s jsField) (text string, ok bool, err error) {
	before, err := parseJSON(s.text, false)
	if err != nil {
		return "", false, err
	}
	now, isExtra := c.Extra[s.name]
	if f := fieldNamed(s.name); f != nil && f.has(c.Type, false) && !(isExtra && f.isZero(c)) {
		if isUndefined(before) && f.isZero(c) {
			return s.text, true, nil
		}
		now = f.value(c, before)
	} else if !isExtra {
		return s.text, isUndefined(before), nil
	}
	b, err := javaScriptJSON.value(nil, now, 0)
	if err != nil {
		return "", false, err
	}
	// The same is what JavaScript would write with the same bytes: 0.0 and 0 are one number there.
	if old, err := javaScriptJSON.value(nil, before, 0); err == nil && bytes.Equal(old, b) {
		return s.text, true, nil
	}
	return string(b), true, nil
}
