package message

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stele-go/stele/base/jsontext"
)

// ErrMerge: two messages, or parts of them, cannot be added up.
var ErrMerge = errors.New("cannot be merged")

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// kindOf is the kind of JSON that v would be, if it is plain data. It tells apart what Python's types do.
func kindOf(v any) string {
	switch v.(type) {
	case *joined:
		return kindText
	case nil, bool, int, int8, int16, int32, int64, uint8, uint16, uint32, uint64, uint, float64, float32, string, map[string]any, []any:
		return jsontext.Kind(v)
	}
	return fmt.Sprintf("%T", v)
}

// Kinds that are compared.
var kindText, kindInt, kindBool = jsontext.Kind(""), jsontext.Kind(0), jsontext.Kind(false)

// joined is a text to which parts are added. It stands in what merging made alone, in place of a string, so that a
// message of many parts is not copied for each; finish puts the string there.
type joined struct{ text []byte }

// join adds a part to a string or a joined.
func join(old any, part string) any {
	j, ok := old.(*joined)
	if !ok {
		s, _ := old.(string)
		if s == "" || part == "" { // nothing to join
			return s + part
		}
		j = &joined{[]byte(s)}
	}
	j.text = append(j.text, part...)
	return j
}

// finish returns v with strings in place of what is joined. It changes only what merging has made.
func finish(v any) any {
	switch x := v.(type) {
	case *joined:
		return string(x.text)
	case map[string]any:
		for k, e := range x {
			if f := finish(e); isMade(e) {
				x[k] = f
			}
		}
	case []any:
		for i, e := range x {
			if f := finish(e); isMade(e) {
				x[i] = f
			}
		}
	}
	return v
}

func isMade(v any) bool { _, ok := v.(*joined); return ok }

// mergeMaps merges maps key by key, as LangChain's merge_dicts: texts are joined, numbers
// added, lists and maps merged. The result shares nothing with left that is changed later.
func mergeMaps(left, right map[string]any, depth int) (map[string]any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%w: %w", ErrMerge, errNesting)
	}
	merged := make(map[string]any, len(left)+len(right))
	maps.Copy(merged, left)
	for _, k := range sortedKeys(right) { // sorted: of two errors the same one wins each time
		v := right[k]
		old, had := merged[k]
		if !had || v != nil && old == nil {
			merged[k] = v
			continue
		}
		if v == nil {
			continue
		}
		out, err := mergeValues(k, old, v, depth)
		if err != nil {
			return nil, err
		}
		merged[k] = out
	}
	return merged, nil
}

// mergeValues merges the values of key, neither of which is nil.
func mergeValues(key string, old, v any, depth int) (any, error) {
	kind := kindOf(old)
	if kind != kindOf(v) {
		return nil, fmt.Errorf("%w: %q is %s and %s", ErrMerge, key, kind, kindOf(v))
	}
	switch old := old.(type) {
	case *joined:
		return join(old, v.(string)), nil //nolint:errcheck // of the same kind
	case string:
		v := v.(string) //nolint:errcheck // of the same kind
		switch key {
		case "index", "id", "output_version", "model_provider", "type": // they are compared
			if key == "index" && strings.HasPrefix(old, "lc_") || key != "index" && key != "type" && old == v {
				return old, nil
			}
			return old + v, nil
		}
		return join(old, v), nil
	case map[string]any:
		return mergeMaps(old, v.(map[string]any), depth+1) //nolint:errcheck // of the same kind
	case []any:
		return mergeLists(old, v.([]any), depth+1) //nolint:errcheck // of the same kind
	}
	if same(old, v) || kind == kindInt && equalNumbers(old, v) {
		return old, nil
	}
	if kind == kindInt {
		if key == "index" || key == "created" || key == "timestamp" {
			return v, nil
		}
		a, ok1 := intOf(old)
		b, ok2 := intOf(v)
		if !ok1 || !ok2 || b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b {
			return nil, fmt.Errorf("%w: %q: %w", ErrMerge, key, errNumber)
		}
		return a + b, nil
	}
	return nil, fmt.Errorf("%w: %q is two different values, each %s", ErrMerge, key, kind)
}

// number is v as a float, if Python takes it as a number; True is one.
func number(v any) (float64, bool) {
	switch x := v.(type) {
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case float64:
		return x, true
	case uint64:
		return float64(x), true
	}
	n, ok := intOf(v)
	return float64(n), ok
}

func equalNumbers(a, b any) bool {
	if x, ok := intOf(a); ok {
		if y, ok := intOf(b); ok {
			return x == y
		}
	}
	x, ok1 := number(a)
	y, ok2 := number(b)
	return ok1 && ok2 && x == y
}

// mergeLists appends right to left, but for blocks of an index that left has: those are merged
// into the block of left. It is LangChain's merge_lists.
func mergeLists(left, right []any, depth int) ([]any, error) {
	merged := slices.Clone(left)
	if merged == nil {
		merged = []any{}
	}
	return mergeInto(merged, right, depth)
}

// mergeInto is mergeLists to a list that nobody else has.
func mergeInto(merged, right []any, depth int) ([]any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("%w: %w", ErrMerge, errNesting)
	}
	for _, e := range right {
		block, ok := e.(map[string]any)
		at := -1
		if ok {
			at = sameBlock(merged, block)
		}
		if at < 0 {
			merged = append(merged, e)
			continue
		}
		old := merged[at].(map[string]any) //nolint:errcheck // sameBlock finds no other
		more, err := withoutType(old, block)
		if err != nil {
			return nil, err
		}
		if merged[at], err = mergeMaps(old, more, depth+1); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// sameBlock is the place of the block in list with the index of block, and no other id; -1 if
// there is none.
func sameBlock(list []any, block map[string]any) int {
	index := block["index"]
	text, isText := index.(string)
	if kind := kindOf(index); kind != kindInt && kind != kindBool && (!isText || !strings.HasPrefix(text, "lc_")) {
		return -1
	}
	return slices.IndexFunc(list, func(e any) bool {
		old, ok := e.(map[string]any)
		if !ok {
			return false
		}
		at, has := old["index"]
		return has && (isText && at == text || !isText && equalNumbers(at, index)) &&
			(noID(old["id"]) || noID(block["id"]) || same(old["id"], block["id"]))
	})
}

func noID(v any) bool { return v == nil || v == "" }

// withoutType is what of block is merged into old: all but its type. The value of a block that
// is not standard goes to the extras of one that is.
func withoutType(old, block map[string]any) (map[string]any, error) {
	value, hasValue := block["value"]
	if !truthy(old["type"]) || block["type"] != "non_standard" || !hasValue {
		out := maps.Clone(block)
		delete(out, "type")
		return out, nil
	}
	inner, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: the value of a block is %s", ErrMerge, kindOf(value))
	}
	inner = maps.Clone(inner)
	delete(inner, "type")
	if old["type"] != "non_standard" {
		return map[string]any{"extras": inner}, nil
	}
	return map[string]any{"value": inner, "index": block["index"]}, nil
}

// truthy is Python's bool(v).
func truthy(v any) bool {
	switch x := v.(type) {
	case nil:
		return false
	case bool:
		return x
	case string:
		return x != ""
	case []any:
		return len(x) > 0
	case map[string]any:
		return len(x) > 0
	}
	n, ok := number(v)
	return !ok || n != 0
}

// mergeAny merges values of any kind, as LangChain's merge_obj.
func mergeAny(left, right any) (any, error) {
	switch {
	case left == nil:
		return right, nil
	case right == nil:
		return left, nil
	case kindOf(left) != kindOf(right):
		return nil, fmt.Errorf("%w: %s and %s", ErrMerge, kindOf(left), kindOf(right))
	}
	switch x := left.(type) {
	case string:
		return x + right.(string), nil //nolint:errcheck // of the same kind
	case map[string]any:
		return mergeMaps(x, right.(map[string]any), 0) //nolint:errcheck // of the same kind
	case []any:
		return mergeLists(x, right.([]any), 0) //nolint:errcheck // of the same kind
	}
	if same(left, right) || kindOf(left) == kindInt && equalNumbers(left, right) {
		return left, nil
	}
	return nil, fmt.Errorf("%w: two different values, each %s", ErrMerge, kindOf(left))
}

// content is that of a message to which others are added.
type content struct {
	text   any   // a string or a joined
	blocks []any // nil: the text is all
}

func contentOf(m *Message) content { return content{m.Content, slices.Clone(m.Blocks)} }

// add appends the content of m.
func (c *content) add(m *Message) error {
	switch {
	case c.blocks == nil && m.Blocks == nil:
		c.text = join(c.text, m.Content)
	case c.blocks == nil:
		c.blocks = append([]any{c.text}, m.Blocks...)
	case m.Blocks != nil:
		merged, err := mergeInto(c.blocks, m.Blocks, 0)
		if err != nil {
			return fmt.Errorf("content: %w", err)
		}
		c.blocks = merged
	case len(c.blocks) > 0:
		last := len(c.blocks) - 1
		if kindOf(c.blocks[last]) == kindText {
			c.blocks[last] = join(c.blocks[last], m.Content)
		} else if m.Content != "" {
			c.blocks = append(c.blocks, m.Content)
		}
	}
	return nil
}

// finish puts the content into m.
func (c *content) finish(m *Message) {
	m.Content, m.Blocks = "", c.blocks
	if finish(m.Blocks); c.blocks == nil {
		m.Content, _ = finish(c.text).(string)
	}
}
