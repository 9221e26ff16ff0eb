package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/uuid"
)

// shape says what JSON a request may have: the part of JSON Schema that the API uses. A
// refusal has the words of LangGraph's server. Fields that a shape does not name are
// left alone, as newer clients may send some: see bodyReader.read.
type shape struct {
	types    []string // "object", "array", "string", "integer", "number", "boolean", "null"; none is anything
	enum     []string
	min, max int // of an integer, if max > 0
	items    *shape
	least    int // of the elements of a list
	most     int // of the elements of a list, if it is > 0
	fields   []field
	anyOf    []*shape
	id       string           // "thread": a UUID, and what it names
	also     func(body) error // checks what the fields say together
}

type field struct {
	name     string
	shape    *shape
	required bool
}

var (
	anything = &shape{}
	text     = &shape{types: []string{"string"}}
	flag     = &shape{types: []string{"boolean"}}
	number   = &shape{types: []string{"number"}}
	integer  = &shape{types: []string{"integer"}}
	object   = &shape{types: []string{"object"}}
	nothing  = &shape{types: []string{"null"}}
	unread   = &shape{fields: []field{}} // anything, and all of its fields are ignored
	texts    = list(text)
	offset   = &shape{types: []string{"integer"}, min: 0, max: maxOffset}
)

// maxLabels bounds the labels of a namespace, as the store does.
const maxLabels = 64

// maxOffset bounds how many results a search skips: an int of 32 bits holds it.
const maxOffset = math.MaxInt32

func list(of *shape) *shape            { return &shape{types: []string{"array"}, items: of} }
func few(of *shape, n int) *shape      { return &shape{types: []string{"array"}, items: of, most: n} }
func oneOf(words ...string) *shape     { return &shape{enum: words} }
func upTo(low, high int) *shape        { return &shape{types: []string{"integer"}, min: low, max: high} }
func word(words ...string) *shape      { return &shape{types: []string{"string"}, enum: words} }
func either(of ...*shape) *shape       { return &shape{anyOf: of} }
func identifier(of string) *shape      { return &shape{types: []string{"string"}, id: of} }
func need(name string, s *shape) field { return field{name, s, true} }
func may(name string, s *shape) field  { return field{name, s, false} }
func record(fields ...field) *shape    { return &shape{types: []string{"object"}, fields: fields} }

// with is the shape of an object whose fields must fit together, as also says.
func (s shape) with(also func(body) error) *shape {
	s.also = also
	return &s
}

// orNull returns a shape that accepts null as well. A shape with more than types, such as an enum,
// becomes one of two alternatives.
func orNull(s *shape) *shape {
	if len(s.types) == 0 {
		return either(s, nothing)
	}
	c := *s
	c.types = append(slices.Clone(s.types), "null")
	return &c
}

// check refuses what does not have the shape.
func (s *shape) check(v any) error { return s.at(v, "", "") }

// at checks the value at a path of the request against the shape at a path of the schema.
func (s *shape) at(v any, schema, path string) error {
	refuse := func(keyword, format string, args ...any) error {
		return fail(422, "%s\n\nFailed validating %q in schema%s\n\nOn instance%s:\n    %s", fmt.Sprintf(format, args...), keyword, schema, path, shown(v))
	}
	if len(s.anyOf) > 0 {
		for _, alternative := range s.anyOf {
			if alternative.at(v, schema, path) == nil {
				return nil
			}
		}
		may := ""
		if enum := s.words(); len(enum) > 0 {
			may = fmt.Sprintf("; the words are %q", enum)
		}
		return refuse("anyOf", "%s is not valid under any of the schemas listed in the 'anyOf' keyword%s", shown(v), may)
	}
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, func(t string) bool { return isType(v, t) }) {
		if len(s.types) == 1 {
			return refuse("type", "%s is not of type %q", shown(v), s.types[0])
		}
		return refuse("type", "%s is not of types %s", shown(v), words(s.types))
	}
	if len(s.enum) > 0 {
		if word, ok := v.(string); !ok || !slices.Contains(s.enum, word) {
			return refuse("enum", "%s is not one of %s", shown(v), words(s.enum))
		}
		return nil
	}
	switch x := v.(type) {
	case string:
		if s.id != "" && x != "" && !isUUID(x) { // empty is none
			return fail(422, "Invalid %s ID: must be a UUID", s.id)
		}
	case float64:
		if isInteger(x) && s.max > 0 {
			return s.at(int64(x), schema, path)
		}
	case int64:
		if s.max > 0 && x < int64(s.min) {
			return refuse("minimum", "%d is less than the minimum of %d", x, s.min)
		}
		if s.max > 0 && x > int64(s.max) {
			return refuse("maximum", "%d is greater than the maximum of %d", x, s.max)
		}
	case []any:
		if len(x) < s.least {
			return refuse("minItems", "%s has less than 1 item", shown(v))
		}
		if s.most > 0 && len(x) > s.most {
			return refuse("maxItems", "%s has more than %d items", shown(v), s.most)
		}
		if s.items != nil {
			for i, e := range x {
				if err := s.items.at(e, schema+`["items"]`, path+"["+strconv.Itoa(i)+"]"); err != nil {
					return err
				}
			}
		}
	case map[string]any:
		for _, f := range s.fields {
			e, ok := x[f.name]
			if !ok {
				if f.required {
					return refuse("required", "%q is a required property", f.name)
				}
				continue
			}
			if err := f.shape.at(e, fmt.Sprintf(`%s["properties"][%q]`, schema, f.name), fmt.Sprintf("%s[%q]", path, f.name)); err != nil {
				return err
			}
		}
		if s.also != nil {
			return s.also(x)
		}
	}
	return nil
}

// maxUnknown bounds how many unknown fields an answer lists, and the bytes of each name in its path.
const maxUnknown = 16

// unknown are the first fields of a request, by path, that the shapes of its objects do not name, quoted, in ASCII.
func (s *shape) unknown(v any) []string {
	paths := map[string]bool{}
	s.strays(v, "", paths)
	return unknownIn(paths, func(string) bool { return false })
}

// strays adds the paths of the fields of v that the shape, which v has, does not name.
func (s *shape) strays(v any, path string, to map[string]bool) {
	for _, alternative := range s.anyOf {
		if alternative.check(v) == nil {
			alternative.strays(v, path, to)
			return
		}
	}
	switch x := v.(type) {
	case []any:
		for i, e := range x {
			if s.items != nil {
				s.items.strays(e, path+"["+strconv.Itoa(i)+"]", to)
			}
		}
	case map[string]any:
		if s.fields == nil {
			return // any
		}
		for name, e := range x {
			at := strings.TrimPrefix(path+"."+name[:min(len(name), maxUnknown)], ".")
			switch i := slices.IndexFunc(s.fields, func(f field) bool { return f.name == name }); {
			case i >= 0:
				s.fields[i].shape.strays(e, at, to)
			default:
				to[at] = true
			}
		}
	}
}

// unknownIn are the first names of a map, sorted, that are not known, quoted, in ASCII.
func unknownIn[V any](in map[string]V, known func(name string) bool) (names []string) {
	for name := range in {
		if !known(name) {
			names = append(names, strconv.QuoteToASCII(name[:min(len(name), 16*maxUnknown)]))
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxUnknown)]
}

// words are those that a text of the shape may be; none if it may be any.
func (s *shape) words() []string {
	for _, alternative := range s.anyOf {
		if enum := alternative.words(); len(enum) > 0 {
			return enum
		}
	}
	return s.enum
}

// words are names as a refusal lists them.
func words(list []string) string {
	quoted := make([]string, len(list))
	for i, w := range list {
		quoted[i] = strconv.Quote(w)
	}
	switch {
	case len(list) == 2:
		return quoted[0] + " or " + quoted[1]
	case len(list) > 3:
		return fmt.Sprintf("%s, %s or %d other candidates", quoted[0], quoted[1], len(list)-2)
	}
	return strings.Join(quoted[:len(list)-1], ", ") + " or " + quoted[len(list)-1]
}

func isType(v any, t string) bool {
	switch x := v.(type) {
	case nil:
		return t == "null"
	case bool:
		return t == "boolean"
	case string:
		return t == "string"
	case int64:
		return t == "integer" || t == "number"
	case float64:
		return t == "number" || t == "integer" && isInteger(x)
	case []any:
		return t == "array"
	case map[string]any:
		return t == "object"
	}
	return false
}

// isUUID reports whether s is a UUID, in whatever form LangGraph's server takes it: without dashes, in braces,
// or as a URN.
func isUUID(s string) bool { return uuid.Validate(s) == nil }

// usual returns a UUID in the form of the server's own: lower case, with dashes. Another string is
// returned as it is.
func usual(s string) string {
	if !isUUID(s) {
		return s
	}
	return uuid.MustParse(s).String()
}

// shown is a value of a request in a refusal.
func shown(v any) string {
	text, err := encode(v)
	if err != nil {
		return "?"
	}
	if len(text) > 1000 {
		return string(bytes.ToValidUTF8(text[:1000], nil)) + "…"
	}
	return string(text)
}

// maxDepth bounds how deep the JSON of a request may nest.
const maxDepth = 128

// decode reads JSON. Whole numbers that fit are int64, others float64. The error is a failure.
func decode(body []byte) (any, error) {
	invalid := fail(422, "Invalid JSON in request body")
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			n, whole := escape(body[i:])
			if !whole { // the decoder would put U+FFFD there
				return nil, invalid
			}
			i += n - 1
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return nil, fail(422, "JSON nests deeper than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil || !utf8.Valid(body) {
		return nil, invalid
	}
	if _, err := dec.Token(); err != io.EOF { // something comes behind
		return nil, invalid
	}
	v, err := numbers(v)
	if err != nil {
		return nil, invalid
	}
	return v, nil
}

// escape is the length of the escape that text begins with, and whether it is a character: \ud83d alone is half of one.
func escape(text []byte) (n int, whole bool) {
	high, ok := codeUnit(text)
	switch {
	case !ok: // a short one, or what the decoder refuses
		return 2, true
	case !utf16.IsSurrogate(high):
		return 6, true
	}
	low, _ := codeUnit(text[6:])
	return 12, utf16.DecodeRune(high, low) != utf8.RuneError
}

// codeUnit is that of an escape such as \u00e4, with which text begins.
func codeUnit(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}

// numbers replaces each json.Number by an int64, or else a float64. One beyond the largest is an error.
func numbers(v any) (_ any, err error) {
	switch x := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			return n, nil
		}
		return x.Float64()
	case map[string]any:
		for k, e := range x {
			if x[k], err = numbers(e); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, e := range x {
			if x[i], err = numbers(e); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// searchPage are the fields of a search that all searches have.
func searchPage(most int, fields ...field) *shape {
	return record(append(fields, may("limit", upTo(1, most)), may("offset", offset), may("sort_order", word("asc", "desc")))...)
}
