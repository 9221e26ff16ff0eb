package message

import (
	"maps"
	"reflect"
	"slices"

	"github.com/stele-go/stele/saver/serde"
)

// field is a field of LangChain's message classes.
type field struct {
	name  string
	types []Type // nil: all
	chunk bool   // of chunks alone
	// load sets the field from a stored value. It returns false, and changes nothing, if v
	// does not fit.
	load func(c *Chunk, v any) bool
	// value is what is stored. raw is what was stored before, nil if nothing was. If that
	// means the same, value returns it.
	value  func(c *Chunk, raw any) any
	isZero func(c *Chunk) bool
	// element is the size of what load allocates for each element of a list or map.
	element int64
}

func (f *field) has(t Type, isChunk bool) bool {
	return (isChunk || !f.chunk) && (f.types == nil || slices.Contains(f.types, t))
}

// The memory that reading a message takes beyond the message and what it is read from, in bytes.
const (
	originSize = 128 // an origin
	extraSize  = 512 // a field in Extra, and its share of the map
	detailSize = 192 // a detail of usage, and its share of the map
	// usageFields is the most fields of usage that are read.
	usageFields = 5
)

// The sizes of elements of lists.
var (
	toolCallSize        = int64(reflect.TypeFor[ToolCall]().Size())
	invalidToolCallSize = int64(reflect.TypeFor[InvalidToolCall]().Size())
	toolCallChunkSize   = int64(reflect.TypeFor[ToolCallChunk]().Size()) + 16 // and its index
)

// listSize is the memory of a list of n elements of a size, and of its rounding.
func listSize(element int64, n int) int64 { return 64 + int64(n)*(element+element/4) }

// memory is what load allocates for v.
func (f *field) memory(v any) int64 {
	if f.element == 0 {
		return 0
	}
	switch x := v.(type) {
	case []any:
		return listSize(f.element, len(x))
	case map[string]any: // usage
		n := usageFields
		for _, details := range x {
			if m, ok := details.(map[string]any); ok {
				n += len(m)
			}
		}
		return listSize(f.element, n)
	}
	return listSize(f.element, 0)
}

var byName = func() map[string]int {
	out := map[string]int{}
	for i, f := range fields {
		out[f.name] = i
	}
	return out
}()

func fieldNamed(name string) *field {
	if i, ok := byName[name]; ok {
		return &fields[i]
	}
	return nil
}

// fields are in the order in which LangChain writes them.
var fields = []field{
	{
		name:   "content",
		load:   func(c *Chunk, v any) bool { return c.setContent(v) },
		value:  func(c *Chunk, _ any) any { return c.content() },
		isZero: func(c *Chunk) bool { return c.Blocks == nil && c.Content == "" },
	},
	mapField("additional_kwargs", func(c *Chunk) *map[string]any { return &c.AdditionalKwargs }),
	mapField("response_metadata", func(c *Chunk) *map[string]any { return &c.ResponseMetadata }),
	{
		name:   "type",
		load:   func(_ *Chunk, v any) bool { _, ok := v.(string); return ok },
		value:  func(c *Chunk, _ any) any { return string(c.Type) },
		isZero: func(*Chunk) bool { return false },
	},
	{
		name: "name",
		load: func(c *Chunk, v any) bool { return loadText(&c.Name, v) },
		value: func(c *Chunk, raw any) any {
			if c.Type == TypeFunction {
				return c.Name
			}
			return optional(c.Name, raw)
		},
		isZero: func(c *Chunk) bool { return c.Name == "" },
	},
	{
		name:   "id",
		load:   func(c *Chunk, v any) bool { return loadText(&c.ID, v) },
		value:  func(c *Chunk, raw any) any { return optional(c.ID, raw) },
		isZero: func(c *Chunk) bool { return c.ID == "" },
	},
	{
		name: "tool_calls", types: []Type{TypeAI}, element: toolCallSize,
		load: func(c *Chunk, v any) bool { return loadList(&c.ToolCalls, v, loadToolCall) },
		value: func(c *Chunk, raw any) any {
			return listValue(c.ToolCalls, raw, toolCallValue)
		},
		isZero: func(c *Chunk) bool { return len(c.ToolCalls) == 0 },
	},
	{
		name: "invalid_tool_calls", types: []Type{TypeAI}, element: invalidToolCallSize,
		load: func(c *Chunk, v any) bool { return loadList(&c.InvalidToolCalls, v, loadInvalidToolCall) },
		value: func(c *Chunk, raw any) any {
			return listValue(c.InvalidToolCalls, raw, invalidToolCallValue)
		},
		isZero: func(c *Chunk) bool { return len(c.InvalidToolCalls) == 0 },
	},
	{
		name: "usage_metadata", types: []Type{TypeAI}, element: detailSize,
		load: func(c *Chunk, v any) bool {
			if v == nil {
				return true
			}
			u, ok := loadUsage(v)
			if ok {
				c.Usage = &u
			}
			return ok
		},
		value: func(c *Chunk, raw any) any {
			if c.Usage == nil {
				return nil
			}
			return c.Usage.value(raw)
		},
		isZero: func(c *Chunk) bool { return c.Usage == nil },
	},
	{
		name: "tool_call_chunks", types: []Type{TypeAI}, chunk: true, element: toolCallChunkSize,
		load: func(c *Chunk, v any) bool { return loadList(&c.ToolCallChunks, v, loadToolCallChunk) },
		value: func(c *Chunk, raw any) any {
			return listValue(c.ToolCallChunks, raw, toolCallChunkValue)
		},
		isZero: func(c *Chunk) bool { return len(c.ToolCallChunks) == 0 },
	},
	{
		name: "chunk_position", types: []Type{TypeAI}, chunk: true,
		load: func(c *Chunk, v any) bool {
			c.Last = v == "last"
			return v == nil || v == "last"
		},
		value: func(c *Chunk, _ any) any {
			if c.Last {
				return "last"
			}
			return nil
		},
		isZero: func(c *Chunk) bool { return !c.Last },
	},
	{
		name: "tool_call_id", types: []Type{TypeTool},
		load:   func(c *Chunk, v any) bool { return v != nil && loadText(&c.ToolCallID, v) },
		value:  func(c *Chunk, _ any) any { return c.ToolCallID },
		isZero: func(c *Chunk) bool { return c.ToolCallID == "" },
	},
	{
		name: "artifact", types: []Type{TypeTool},
		load:   func(c *Chunk, v any) bool { c.Artifact = v; return true },
		value:  func(c *Chunk, _ any) any { return c.Artifact },
		isZero: func(c *Chunk) bool { return c.Artifact == nil },
	},
	{
		name: "status", types: []Type{TypeTool},
		load: func(c *Chunk, v any) bool {
			s, ok := v.(string)
			if ok {
				c.Status = Status(s)
			}
			return ok
		},
		value:  func(c *Chunk, _ any) any { return string(c.status()) },
		isZero: func(c *Chunk) bool { return c.status() == StatusSuccess },
	},
	{
		name: "role", types: []Type{TypeChat},
		load:   func(c *Chunk, v any) bool { return v != nil && loadText(&c.Role, v) },
		value:  func(c *Chunk, _ any) any { return c.Role },
		isZero: func(c *Chunk) bool { return c.Role == "" },
	},
}

func mapField(name string, of func(*Chunk) *map[string]any) field {
	return field{
		name: name,
		load: func(c *Chunk, v any) bool {
			m, ok := v.(map[string]any)
			if ok {
				*of(c) = m
			}
			return ok
		},
		value: func(c *Chunk, _ any) any {
			if m := *of(c); m != nil {
				return m
			}
			return map[string]any{}
		},
		isZero: func(c *Chunk) bool { return len(*of(c)) == 0 },
	}
}

// loadText sets a text, or an empty one for nil.
func loadText(dst *string, v any) bool {
	if v == nil {
		*dst = ""
		return true
	}
	s, ok := v.(string)
	if ok {
		*dst = s
	}
	return ok
}

// optional is a text that may be None; an empty one is, unless it was stored as a text.
func optional(s string, raw any) any {
	if s == "" && raw != "" {
		return nil
	}
	return s
}

// loadList sets dst if all elements of v fit.
func loadList[T any](dst *[]T, v any, load func(map[string]any) (T, bool)) bool {
	list, ok := v.([]any)
	if !ok {
		return false
	}
	var out []T
	if len(list) > 0 {
		out = make([]T, 0, len(list))
	}
	for _, e := range list {
		m, ok := e.(map[string]any)
		if !ok {
			return false
		}
		x, ok := load(m)
		if !ok {
			return false
		}
		out = append(out, x)
	}
	*dst = out
	return true
}

// listValue makes the stored list. value gets the element that was stored before for x: the
// one at its place if that has the same id, or else the first that has; nil if none has.
func listValue[T any](list []T, raw any, value func(x T, raw map[string]any) any) any {
	old, _ := raw.([]any)
	out := make([]any, len(list))
	for i, x := range list {
		fresh, _ := value(x, nil).(serde.Fields)
		var before map[string]any
		if i < len(old) {
			before, _ = old[i].(map[string]any)
		}
		if id := textOf(fresh, "id"); before == nil || textIn(before, "id") != id {
			before = nil
			for _, e := range old {
				if m, ok := e.(map[string]any); ok && id != "" && textIn(m, "id") == id {
					before = m
					break
				}
			}
		}
		if before == nil {
			out[i] = fresh
			continue
		}
		out[i] = value(x, before)
	}
	return out
}

func textOf(f serde.Fields, name string) string {
	for _, x := range f {
		if x.Name == name {
			s, _ := x.Value.(string)
			return s
		}
	}
	return ""
}

func textIn(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

// updated is raw with the values of fresh, where they differ. A text that is None in one and
// empty in the other does not.
func updated(raw map[string]any, fresh serde.Fields) map[string]any {
	out, cloned := raw, false
	for _, f := range fresh {
		old, had := raw[f.Name]
		switch x := f.Value.(type) {
		case nil:
			if !had || old == nil || old == "" {
				continue
			}
		case string:
			if old == x || !had && f.Name == "type" {
				continue
			}
		case map[string]any:
			if m, ok := old.(map[string]any); ok && reflect.ValueOf(m).Pointer() == reflect.ValueOf(x).Pointer() {
				continue
			}
		case int64:
			if n, ok := intOf(old); ok && n == x {
				continue
			}
		}
		if !cloned {
			out, cloned = maps.Clone(raw), true
		}
		out[f.Name] = f.Value
	}
	return out
}

func loadToolCall(m map[string]any) (c ToolCall, ok bool) {
	name, ok1 := m["name"].(string)
	args, ok2 := m["args"].(map[string]any)
	c.Name, c.Args = name, args
	return c, ok1 && ok2 && loadText(&c.ID, m["id"])
}

func toolCallValue(c ToolCall, raw map[string]any) any {
	args := c.Args
	if args == nil {
		args = map[string]any{}
	}
	fresh := serde.Fields{{Name: "name", Value: c.Name}, {Name: "args", Value: args}, {Name: "id", Value: optional(c.ID, nil)}, {Name: "type", Value: "tool_call"}}
	if raw == nil {
		return fresh
	}
	return updated(raw, fresh)
}

func loadInvalidToolCall(m map[string]any) (c InvalidToolCall, ok bool) {
	return c, loadText(&c.Name, m["name"]) && loadText(&c.Args, m["args"]) && loadText(&c.ID, m["id"]) && loadText(&c.Error, m["error"])
}

func invalidToolCallValue(c InvalidToolCall, raw map[string]any) any {
	fresh := serde.Fields{
		{Name: "type", Value: "invalid_tool_call"}, {Name: "id", Value: optional(c.ID, nil)}, {Name: "name", Value: optional(c.Name, nil)},
		{Name: "args", Value: optional(c.Args, nil)}, {Name: "error", Value: optional(c.Error, nil)},
	}
	if raw == nil {
		return fresh
	}
	return updated(raw, fresh)
}

func loadToolCallChunk(m map[string]any) (c ToolCallChunk, ok bool) {
	if v := m["index"]; v != nil {
		n, ok := intOf(v)
		if !ok || int64(int(n)) != n {
			return c, false
		}
		i := int(n)
		c.Index = &i
	}
	return c, loadText(&c.Name, m["name"]) && loadText(&c.Args, m["args"]) && loadText(&c.ID, m["id"])
}

func toolCallChunkValue(c ToolCallChunk, raw map[string]any) any {
	var index any
	if c.Index != nil {
		index = int64(*c.Index)
	}
	fresh := serde.Fields{
		{Name: "name", Value: optional(c.Name, nil)}, {Name: "args", Value: optional(c.Args, nil)}, {Name: "id", Value: optional(c.ID, nil)},
		{Name: "index", Value: index}, {Name: "type", Value: "tool_call_chunk"},
	}
	if raw == nil {
		return fresh
	}
	return updated(raw, fresh)
}

// intOf reads an integer of 64 bits.
func intOf(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case uint64:
		return int64(n), n <= 1<<63-1
	}
	return 0, false
}

func loadUsage(v any) (u Usage, ok bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return u, false
	}
	for name, dst := range map[string]*int64{"input_tokens": &u.InputTokens, "output_tokens": &u.OutputTokens, "total_tokens": &u.TotalTokens} {
		if *dst, ok = intOf(m[name]); !ok {
			return u, false
		}
	}
	for name, dst := range map[string]*map[string]int64{"input_token_details": &u.InputDetails, "output_token_details": &u.OutputDetails} {
		raw, had := m[name]
		if !had {
			continue
		}
		details, ok := raw.(map[string]any)
		if !ok {
			return u, false
		}
		*dst = make(map[string]int64, len(details))
		for k, x := range details {
			n, ok := intOf(x)
			if !ok {
				return u, false
			}
			(*dst)[k] = n
		}
	}
	return u, true
}

// value is the stored form of u. raw is what was stored before.
func (u *Usage) value(raw any) any {
	old, _ := raw.(map[string]any)
	before, ok := loadUsage(raw)
	fresh := serde.Fields{{Name: "input_tokens", Value: u.InputTokens}, {Name: "output_tokens", Value: u.OutputTokens},
		{Name: "total_tokens", Value: u.TotalTokens}}
	add := func(name string, details, had map[string]int64, known ...string) {
		if details == nil || ok && had != nil && maps.Equal(details, had) {
			return
		}
		fresh = append(fresh, serde.Field{Name: name, Value: detailsValue(details, known)})
	}
	add("input_token_details", u.InputDetails, before.InputDetails, "audio", "cache_creation", "cache_read")
	add("output_token_details", u.OutputDetails, before.OutputDetails, "audio", "reasoning")
	if !ok {
		return fresh
	}
	out := updated(old, fresh)
	for name, details := range map[string]map[string]int64{"input_token_details": u.InputDetails, "output_token_details": u.OutputDetails} {
		if _, had := out[name]; had && details == nil {
			out = maps.Clone(out)
			delete(out, name)
		}
	}
	return out
}

// detailsValue is known details in their order, then others, sorted.
func detailsValue(details map[string]int64, known []string) serde.Fields {
	out := make(serde.Fields, 0, len(details))
	for _, k := range known {
		if n, ok := details[k]; ok {
			out = append(out, serde.Field{Name: k, Value: n})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(details)) {
		if !slices.Contains(known, k) {
			out = append(out, serde.Field{Name: k, Value: details[k]})
		}
	}
	return out
}
