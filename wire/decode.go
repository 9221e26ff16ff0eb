package wire

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// ErrMalformed matches every error of a decoder, but that of a parameter whose value has the wrong
// type: a *saver.InvalidError, since whoever made the call can mend it.
var ErrMalformed = errors.New("malformed message")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Decode reads the body of an answer or a notification. It ignores fields that T does not have.
func Decode[T any](b []byte) (T, error) { return decode[T](&reader{b: b}) }

// DecodeParams reads the parameters of a request. A field that the method does not have is an
// error, but for hello: a server can answer to a client of a later protocol that it does not
// speak it.
func DecodeParams[T any](method string, b []byte) (T, error) {
	return decode[T](&reader{b: b, strict: method != "hello", known: methodFields[method]})
}

func decode[T any](r *reader) (m T, err error) {
	r.into(&m)
	if c, ok := any(&m).(interface{ settle() error }); ok && r.err == nil {
		r.fail(c.settle())
	}
	return m, r.end()
}

// reader reads MessagePack from a byte slice. The first error stays, and everything that is
// read after it is zero. So a decoder looks at err once, at its end.
type reader struct {
	b      []byte
	err    error
	strict bool     // these are parameters: an unknown field is an error
	at     string   // the field whose value is read
	known  []string // of the next map, the fields that it may have; nil: those of its struct
}

func (r *reader) fail(err error) {
	if r.err != nil || err == nil {
		return
	}
	var invalid *saver.InvalidError
	var unlike msgp.TypeError
	switch {
	case errors.Is(err, ErrMalformed), errors.As(err, &invalid):
	case errors.As(err, &unlike):
		err = r.unlike(formOf(unlike.Method), formOf(unlike.Encoded))
	default:
		err = fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	r.err, r.b = err, nil
}

// unlike is the error of a value that has another form than its field wants.
func (r *reader) unlike(want, got string) error {
	if r.strict && r.at != "" {
		return &saver.InvalidError{Field: r.at, Reason: "want " + want + ", got " + got}
	}
	return malformed("want %s, got %s", want, got)
}

// formOf is a type of MessagePack in words that programmers of all languages know.
func formOf(t msgp.Type) string {
	switch t {
	case msgp.StrType:
		return "a text"
	case msgp.BinType:
		return "bytes"
	case msgp.MapType:
		return "a map"
	case msgp.ArrayType:
		return "a list"
	case msgp.IntType, msgp.UintType:
		return "a whole number"
	case msgp.Float32Type, msgp.Float64Type:
		return "a number"
	case msgp.BoolType:
		return "true or false"
	case msgp.NilType:
		return "nothing"
	}
	return t.String()
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
	if r.err != nil || !msgp.IsNil(r.b) {
		return false
	}
	r.b = r.b[1:]
	return true
}

// elements returns the length of a list or map, checked against the rest of the input, so that nothing
// is allocated for elements that cannot be there.
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

// pairs is the number of pairs of a map that follows.
func (r *reader) pairs() int { return r.elements(take(r, msgp.ReadMapHeaderBytes), 2) }

// arrayOf wants a list of n elements.
func (r *reader) arrayOf(n int) {
	if got := r.array(); r.err == nil && got != n {
		r.fail(malformed("a list of %d elements, not %d", got, n))
	}
}

// into reads a value into *p.
func (r *reader) into(p any) { r.value(reflect.ValueOf(p).Elem(), element) }

// value reads into v, which is addressable.
func (r *reader) value(v reflect.Value, f *field) {
	if v.Kind() == reflect.String { // most are
		v.SetString(r.name())
		return
	}
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		*p = r.seconds()
	case *time.Time:
		*p = r.time()
	case *saver.Version:
		*p = r.version()
	case *saver.Value:
		*p = r.stored()
	case *map[string]any:
		*p = r.plain()
	case *saver.Metadata:
		*p = r.plain()
	case *map[string]saver.Version:
		*p = readTable(r, r.version)
	case *map[string]map[string]saver.Version:
		*p = readTable(r, func() map[string]saver.Version { return readTable(r, r.version) })
	case *map[string]saver.Value:
		*p = readTable(r, r.stored)
	case *map[string]saver.DeltaHistory:
		*p = readTable(r, func() (h saver.DeltaHistory) {
			r.into(&h)
			return h
		})
	case *map[string]int64:
		*p = readTable(r, r.integer)
	case *[ClientSize]byte:
		b := r.bin()
		if copy(p[:], b); len(b) != ClientSize {
			r.fail(malformed("a client of %d bytes, not %d", len(b), ClientSize))
		}
	case *Raw:
		*p = r.raw()
	case *store.Op:
		*p = r.op()
	case *indexOf:
		r.index(p)
	case *store.Item:
		*p = r.item().Item
	case *store.Found:
		*p = r.item()
	default:
		r.kind(v, f)
	}
}

// kind reads a value by the kind of its type.
func (r *reader) kind(v reflect.Value, f *field) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(r.boolean() != f.not)
	case reflect.Int, reflect.Int64:
		n := r.integer()
		if v.OverflowInt(n) {
			r.fail(malformed("%d is too large", n))
		}
		if v.SetInt(n); f.limit && n == 0 {
			v.SetInt(saver.NoResults)
		}
	case reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n := take(r, msgp.ReadUint64Bytes)
		if v.OverflowUint(n) {
			r.fail(malformed("%d is too large", n))
		}
		v.SetUint(n)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(r.float())
	case reflect.Pointer:
		if r.isNil() {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		r.value(v.Elem(), f)
	case reflect.Slice:
		r.list(v, f)
	case reflect.Struct:
		r.object(v, shapeOf(v.Type()))
	default:
		panic(fmt.Sprintf("%v has no form on the wire", v.Type()))
	}
}

// list reads a list. An empty one stays nil where nil is sent as an empty one.
func (r *reader) list(v reflect.Value, f *field) {
	n := r.array()
	if n > 0 || f.omit || f.null {
		v.Set(reflect.MakeSlice(v.Type(), 0, min(n, 64)))
	}
	for i := 0; i < n && r.err == nil; i++ {
		v.Grow(1)
		v.SetLen(i + 1)
		r.value(v.Index(i), element)
	}
}

// object reads a struct. Values that are nil are left out.
func (r *reader) object(v reflect.Value, s *shape) {
	if s.list {
		r.arrayOf(len(s.fields))
		for i := range s.fields {
			r.value(v.FieldByIndex(s.fields[i].index), &s.fields[i])
		}
		return
	}
	known, at := r.known, 0
	r.known = nil
	n := r.pairs()
	for i := 0; i < n && r.err == nil; i++ {
		name := r.nameBytes()
		if r.isNil() {
			continue
		}
		var f *field
		f, at = s.find(name, at)
		if f != nil && (known == nil || slices.Contains(known, f.name) || slices.Contains(callFields, f.name)) {
			r.at = f.name
			r.value(v.FieldByIndex(f.index), f)
			continue
		}
		if r.strict {
			r.fail(malformed("unknown field %q", name))
		}
		r.skip(maxDepth)
	}
}

// readTable reads a map from names.
func readTable[V any](r *reader, value func() V) map[string]V {
	n := r.pairs()
	out := map[string]V{}
	for i := 0; i < n && r.err == nil; i++ {
		name := r.name()
		out[name] = value()
	}
	return out
}

// maxDepth is how deep lists and maps of the protocol may nest. Values of users are bytes.
const maxDepth = 16

// skip passes over a value.
func (r *reader) skip(depth int) {
	n := 0
	switch t := msgp.NextType(r.b); {
	case depth == 0:
		r.fail(malformed("nested too deep"))
	case t == msgp.MapType:
		n = 2 * r.pairs()
	case t == msgp.ArrayType:
		n = r.array()
	case r.err == nil:
		rest, err := msgp.Skip(r.b)
		r.b = rest
		r.fail(err)
	}
	for i := 0; i < n && r.err == nil; i++ {
		r.skip(depth - 1)
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
func (r *reader) name() string { return string(r.nameBytes()) }

func (r *reader) nameBytes() []byte {
	if r.err == nil && msgp.NextType(r.b) == msgp.BinType {
		return r.bin()
	}
	s := take(r, msgp.ReadStringZC)
	if !utf8.Valid(s) {
		r.fail(malformed("a text that is not UTF-8; send it as a bin"))
		return nil
	}
	return s
}

func (r *reader) bin() []byte { return take(r, msgp.ReadBytesZC) }

func (r *reader) boolean() bool { return take(r, msgp.ReadBoolBytes) }

func (r *reader) integer() int64 { return take(r, msgp.ReadInt64Bytes) }

// float reads a number of any kind.
func (r *reader) float() float64 {
	if isInt(r.b) {
		return float64(r.integer())
	}
	// msgp looks for the length before the type.
	if t := msgp.NextType(r.b); r.err == nil && len(r.b) > 0 && t != msgp.Float64Type && t != msgp.Float32Type {
		r.fail(r.unlike("a number", formOf(t)))
	}
	return take(r, msgp.ReadFloat64Bytes)
}

func isInt(b []byte) bool {
	t := msgp.NextType(b)
	return t == msgp.IntType || t == msgp.UintType
}

// forEver is the TTL of an item that does not expire.
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

func (r *reader) stored() saver.Value {
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
	switch v := v.(type) {
	case map[string]any:
		return v
	case map[any]any:
		r.fail(r.unlike("a map whose keys are texts", "one with other keys"))
	default:
		r.fail(r.unlike("a map", "another value"))
	}
	return nil
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
