package pregeljson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/serde"
)

// maxDepth bounds how deep a value may nest: a value that contains itself is an error.
const maxDepth = serde.MaxDepth

// timeLayout is Python's isoformat.
const timeLayout = "2006-01-02T15:04:05.000000-07:00"

// Time is a time as LangGraph's server writes it: UTC, in microseconds.
func Time(t time.Time) string { return t.UTC().Format(timeLayout) }

// Marshal is v as JSON in one line, as the package documentation says. The error is that of
// encoding/json, for a value that JSON cannot hold.
func Marshal(v any) ([]byte, error) {
	if text, ok := jsontext.Append(make([]byte, 0, 128), v, true); ok {
		return text, nil
	}
	p, err := plain(v, 0)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Value is v as Marshal writes it, as plain data: a map[string]any, a []any, a string, a
// json.Number, a bool, or nil.
func Value(v any) (any, error) {
	text, err := Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var out any
	err = dec.Decode(&out)
	return out, err
}

// plain is v as encoding/json writes it in the form of this package.
func plain(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("a value nests more than %d levels deep", maxDepth)
	}
	switch x := v.(type) {
	case nil, bool, string, int, int64, json.Number, json.RawMessage, []byte:
		return x, nil
	case float64:
		return finite(x), nil
	case float32:
		return finite(float64(x)), nil
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			p, err := plain(e, depth+1)
			if err != nil {
				return nil, err
			}
			out[k] = p
		}
		return out, nil
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			p, err := plain(e, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = p
		}
		return out, nil
	case message.Message, *message.Message, message.Chunk, *message.Chunk:
		return x, nil
	case message.ToolCall: // has no MarshalJSON, which types that embed it would have too
		return toolCall(x, depth)
	case channel.Message:
		return message.From(x)
	case *serde.Ext:
		return object(x, depth)
	case serde.Interrupt:
		return plain(map[string]any{"value": x.Value, "id": x.ID, "response_schema": x.ResponseSchema}, depth+1)
	case serde.Send:
		return plain(map[string]any{"node": x.Node, "input": x.Arg}, depth+1)
	case pregel.Pairs:
		m := make(map[string]any, len(x))
		for _, p := range x {
			m[p.Key] = p.Value
		}
		return plain(m, depth+1)
	case pregel.RepeatedWrites:
		return plain(map[string]any{"$writes": x.Writes}, depth+1)
	case time.Time:
		return x.Format(timeLayout), nil
	case serde.UUID:
		return x.String(), nil
	case json.Marshaler:
		return x, nil
	case error:
		return x.Error(), nil
	}
	return reflected(reflect.ValueOf(v), depth)
}

// toolCall is LangChain's tool call: with its type, arguments that are an object, and null where
// there is no id.
func toolCall(c message.ToolCall, depth int) (any, error) {
	out := map[string]any{"name": c.Name, "args": c.Args, "id": c.ID, "type": "tool_call"}
	if c.Args == nil {
		out["args"] = map[string]any{}
	}
	if c.ID == "" {
		out["id"] = nil
	}
	return plain(out, depth+1)
}

// finite is f, or nil where JSON has no number for it.
func finite(f float64) any {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return f
}

// object is a Python object that a checkpoint stores: a message, or its fields.
func object(x *serde.Ext, depth int) (any, error) {
	var c message.Chunk
	if err := c.DecodeValue(x, func(int64) error { return nil }); err == nil {
		return c, nil
	}
	if m, err := message.From(x); err == nil {
		return m, nil
	}
	if f := x.Fields(); f != nil {
		return plain(f, depth+1)
	}
	if x.Data != nil {
		return x.Data, nil
	}
	return plain(x.Value, depth+1)
}

// reflected is a value of a type that plain does not name. A struct is left to encoding/json.
func reflected(v reflect.Value, depth int) (any, error) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil, nil
		}
		return plain(v.Elem().Interface(), depth+1)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return v.Interface(), nil
		}
		out := make([]any, v.Len())
		for i := range out {
			p, err := plain(v.Index(i).Interface(), depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = p
		}
		return out, nil
	case reflect.Map:
		out := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			p, err := plain(it.Value().Interface(), depth+1)
			if err != nil {
				return nil, err
			}
			out[fmt.Sprint(it.Key().Interface())] = p
		}
		return out, nil
	case reflect.Func, reflect.Chan:
		return fmt.Sprintf("<%s>", v.Type()), nil
	}
	return v.Interface(), nil
}
