package wire

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// ErrMalformed matches every error of a decoder.
var ErrMalformed = errors.New("malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// reader reads MessagePack from a byte slice. The first error stays, and everything that is
// read after it is zero. So a decoder looks at err once, at its end.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		if !errors.Is(err, ErrMalformed) {
			err = fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		r.err, r.b = err, nil
	}
}

// end is the reader's error, or one for bytes that are left.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail(malformed("%d bytes too many", len(r.b)))
	}
	return r.err
}

// take calls one of msgp's functions.
func take[T any](r *reader, read func([]byte) (T, []byte, error)) T {
	var none T
	if r.err != nil {
		return none
	}
	v, rest, err := read(r.b)
	if err != nil {
		r.fail(err)
		return none
	}
	r.b = rest
	return v
}

// isNil takes a nil, if it is next.
func (r *reader) isNil() bool {
	if r.err != nil || msgp.NextType(r.b) != msgp.NilType {
		return false
	}
	rest, err := msgp.ReadNilBytes(r.b)
	if err != nil {
		r.fail(err)
		return false
	}
	r.b = rest
	return true
}

// elements is the length of a list or map, checked against what is left of the input, so
// that nothing is allocated for elements that cannot be there.
func (r *reader) elements(n uint32, size int) int {
	if r.err == nil && uint64(n)*uint64(size) > uint64(len(r.b)) {
		r.fail(malformed("%d elements in %d bytes", n, len(r.b)))
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// array is the length of a list that follows.
func (r *reader) array() int { return r.elements(take(r, msgp.ReadArrayHeaderBytes), 1) }

// arrayOf wants a list of n elements.
func (r *reader) arrayOf(n int) {
	if got := r.array(); r.err == nil && got != n {
		r.fail(malformed("a list of %d elements, not %d", got, n))
	}
}

// fields reads a map from names of fields. field reads the value of one and reports whether
// it knows it; nil values are left out. An unknown field is an error if strict.
func (r *reader) fields(strict bool, field func(name string) bool) {
	n := r.elements(take(r, msgp.ReadMapHeaderBytes), 2)
	for range n {
		name := r.name()
		if r.err != nil {
			return
		}
		if r.isNil() {
			continue
		}
		if field(name) {
			continue
		}
		if strict {
			r.fail(malformed("unknown field %q", name))
			return
		}
		r.skip(maxDepth)
	}
}

// table reads a map from names to values that value reads.
func (r *reader) table(value func(name string)) {
	n := r.elements(take(r, msgp.ReadMapHeaderBytes), 2)
	for range n {
		name := r.name()
		if r.err != nil {
			return
		}
		value(name)
	}
}

// maxDepth is how deep lists and maps of the protocol may nest. Values of users are bytes.
const maxDepth = 16

// skip passes over a value.
func (r *reader) skip(depth int) {
	if depth == 0 {
		r.fail(malformed("nested too deep"))
	}
	if r.err != nil {
		return
	}
	switch msgp.NextType(r.b) {
	case msgp.MapType:
		n := r.elements(take(r, msgp.ReadMapHeaderBytes), 2)
		for range 2 * n {
			if r.skip(depth - 1); r.err != nil {
				return
			}
		}
	case msgp.ArrayType:
		n := r.array()
		for range n {
			if r.skip(depth - 1); r.err != nil {
				return
			}
		}
	case msgp.InvalidType:
		r.fail(malformed("no value of MessagePack"))
	default:
		rest, err := msgp.Skip(r.b)
		r.fail(err)
		if err == nil {
			r.b = rest
		}
	}
}

// raw passes over a value and returns its bytes.
func (r *reader) raw() []byte {
	was := r.b
	if r.skip(maxDepth); r.err != nil {
		return nil
	}
	return was[:len(was)-len(r.b)]
}

// name reads a text, or a bin where it is not UTF-8.
func (r *reader) name() string {
	if r.err == nil && msgp.NextType(r.b) == msgp.BinType {
		return string(take(r, msgp.ReadBytesZC))
	}
	s := take(r, msgp.ReadStringBytes)
	if !utf8.ValidString(s) {
		r.fail(malformed("a text that is not UTF-8; send it as a bin"))
		return ""
	}
	return s
}

func (r *reader) names() []string {
	n := r.array()
	if r.err != nil {
		return nil
	}
	out := make([]string, 0, min(n, 1024))
	for range n {
		out = append(out, r.name())
	}
	return out
}

func (r *reader) bin() []byte { return take(r, msgp.ReadBytesZC) }

func (r *reader) boolean() bool { return take(r, msgp.ReadBoolBytes) }

func (r *reader) integer() int64 { return take(r, msgp.ReadInt64Bytes) }

// number reads an integer of the size of an int.
func (r *reader) number() int {
	n := r.integer()
	if int64(int(n)) != n {
		r.fail(malformed("%d is too large", n))
		return 0
	}
	return int(n)
}

// float reads a number of any kind.
func (r *reader) float() float64 {
	switch {
	case r.err != nil:
		return 0
	case isInt(r.b):
		return float64(r.integer())
	case msgp.NextType(r.b) == msgp.Float32Type:
		return float64(take(r, msgp.ReadFloat32Bytes))
	}
	return take(r, msgp.ReadFloat64Bytes)
}

func isInt(b []byte) bool {
	t := msgp.NextType(b)
	return t == msgp.IntType || t == msgp.UintType
}

// forEver stands for a life without an end.
const forEver = -1

// seconds reads a duration. -1 is forEver, as a duration of -1.
func (r *reader) seconds() time.Duration {
	s := r.float()
	switch {
	case s == forEver:
		return forEver
	case math.IsNaN(s), s < 0, s >= math.MaxInt64/float64(time.Second):
		r.fail(malformed("%v seconds", s))
		return 0
	}
	return time.Duration(math.Round(s * float64(time.Second)))
}

// time reads microseconds since 1970; 0 is no time.
func (r *reader) time() time.Time {
	us := r.integer()
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

func (r *reader) typed() serde.Typed {
	r.arrayOf(2)
	return serde.Typed{Kind: r.name(), Data: r.bin()}
}

func (r *reader) value() saver.Value {
	t := r.typed()
	if r.err != nil {
		return saver.Value{}
	}
	return saver.ValueTyped(t)
}

// plain reads a map of plain data.
func (r *reader) plain() map[string]any {
	t := r.typed()
	if r.err != nil {
		return nil
	}
	v, err := serde.Default().Decode(t)
	if err != nil {
		r.fail(err)
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		r.fail(malformed("plain data: want a map of texts, got %T", v))
	}
	return m
}

func (r *reader) version() saver.Version {
	if r.isNil() {
		return saver.Version{}
	}
	switch {
	case r.err != nil:
	case isInt(r.b):
		return saver.IntVersion(r.integer())
	case msgp.NextType(r.b) == msgp.Float64Type, msgp.NextType(r.b) == msgp.Float32Type:
		return saver.FloatVersion(r.float())
	default:
		return saver.StringVersion(r.name())
	}
	return saver.Version{}
}

func (r *reader) versions() map[string]saver.Version {
	out := map[string]saver.Version{}
	r.table(func(name string) { out[name] = r.version() })
	return out
}

func (r *reader) seen() map[string]map[string]saver.Version {
	out := map[string]map[string]saver.Version{}
	r.table(func(node string) { out[node] = r.versions() })
	return out
}

func (r *reader) values() map[string]saver.Value {
	out := map[string]saver.Value{}
	r.table(func(channel string) { out[channel] = r.value() })
	return out
}

// fieldsOf builds a map of fields whose number is known only at its end. It has at most 65,535.
type fieldsOf struct {
	b  []byte
	at int // of the header
	n  int
}

func beginFields(b []byte) fieldsOf {
	return fieldsOf{b: append(b, 0xde, 0, 0), at: len(b)} // map16
}

// field begins a field; its value is appended to the result.
func (f *fieldsOf) field(name string) {
	f.n++
	f.b = msgp.AppendString(f.b, name)
}

// end is the whole map.
func (f *fieldsOf) end() []byte {
	f.b[f.at+1], f.b[f.at+2] = byte(f.n>>8), byte(f.n)
	return f.b
}

// name is a field that is left out if it is empty.
func (f *fieldsOf) name(field, value string) {
	if value != "" {
		f.always(field, value)
	}
}

func (f *fieldsOf) always(field, value string) {
	f.field(field)
	f.b = appendName(f.b, value)
}

func (f *fieldsOf) number(field string, n int64) {
	if n != 0 {
		f.field(field)
		f.b = msgp.AppendInt64(f.b, n)
	}
}

func (f *fieldsOf) boolean(field string, is bool) {
	if is {
		f.field(field)
		f.b = msgp.AppendBool(f.b, true)
	}
}

// names is a field that is left out if the list is nil.
func (f *fieldsOf) names(field string, names []string) {
	if names != nil {
		f.field(field)
		f.b = appendNames(f.b, names)
	}
}

// typed is a field that is left out if the value has no type.
func (f *fieldsOf) typed(field string, t serde.Typed) {
	if t.Kind != "" {
		f.field(field)
		f.b = appendTyped(f.b, t)
	}
}

func (f *fieldsOf) seconds(field string, d time.Duration) {
	if d != 0 {
		f.field(field)
		f.b = appendSeconds(f.b, d)
	}
}

func appendName(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		return msgp.AppendBytes(b, []byte(s))
	}
	return msgp.AppendString(b, s)
}

func appendNames(b []byte, names []string) []byte {
	b = msgp.AppendArrayHeader(b, uint32(len(names)))
	for _, s := range names {
		b = appendName(b, s)
	}
	return b
}

func appendTyped(b []byte, t serde.Typed) []byte {
	b = msgp.AppendArrayHeader(b, 2)
	b = appendName(b, t.Kind)
	return msgp.AppendBytes(b, t.Data)
}

func appendSeconds(b []byte, d time.Duration) []byte {
	if d < 0 {
		return msgp.AppendInt(b, forEver)
	}
	return msgp.AppendFloat64(b, d.Seconds())
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return msgp.AppendInt(b, 0)
	}
	return msgp.AppendInt64(b, t.UnixMicro())
}

func appendVersion(b []byte, v saver.Version) []byte {
	switch x := v.Any().(type) {
	case int64:
		return msgp.AppendInt64(b, x)
	case float64:
		return msgp.AppendFloat64(b, x)
	case string:
		return appendName(b, x)
	}
	return msgp.AppendNil(b)
}

func appendVersions(b []byte, m map[string]saver.Version) []byte {
	b = msgp.AppendMapHeader(b, uint32(len(m)))
	for _, k := range sorted(m) {
		b = appendVersion(appendName(b, k), m[k])
	}
	return b
}
