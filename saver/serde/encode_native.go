package serde

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// native writes the types that have a Python counterpart.
func (e *encoder) native(v any) (done bool, err error) {
	switch v := v.(type) {
	case Send:
		return true, e.send(v)
	case Ext:
		return true, e.ext(&v)
	case Interrupt:
		id := v.ID
		if id == "" {
			id = placeholderID
		}
		return true, e.dataclass(nameInterrupt, fieldList{{"value", v.Value}, {"id", id}, {"response_schema", v.ResponseSchema}})
	case Command:
		return true, e.command(v)
	case Overwrite:
		return true, e.dataclass(nameOverwrite, fieldList{{"value", v.Value}, {"type", overwriteMark}})
	case TimeoutPolicy:
		return true, e.timeoutPolicy(v)
	case DeltaSnapshot:
		return true, e.delta(v)
	case UUID:
		return true, e.named(ExtSingle, "uuid", "UUID", hexString(v[:]), "")
	case Decimal:
		return true, e.named(ExtSingle, "decimal", "Decimal", string(v), "")
	case Set:
		return true, e.named(ExtSingle, "builtins", "set", []any(v), "")
	case FrozenSet:
		return true, e.named(ExtSingle, "builtins", "frozenset", []any(v), "")
	case Deque:
		return true, e.named(ExtSingle, "collections", "deque", []any(v), "")
	case ByteArray:
		e.buf = msgp.AppendBytes(e.buf, v)
	case ZoneInfo:
		return true, e.named(ExtSingle, "zoneinfo", "ZoneInfo", string(v), "")
	case Regexp:
		return true, e.regexp(v)
	case Path:
		return true, e.path(v)
	case NDArray:
		return true, e.ndarray(v)
	case Key:
		if v.enc == "" {
			return true, e.fail(v, fmt.Errorf("zero Key: %w", ErrUnsupported))
		}
		e.buf = append(e.buf, v.enc...)
	case netip.Addr, netip.Prefix, IPInterface:
		return true, e.address(v)
	case json.Number:
		return true, e.number(v)
	case big.Int:
		return true, e.bigInt(&v)
	case *big.Int:
		if v == nil {
			e.buf = append(e.buf, mNil)
			return true, nil
		}
		return true, e.bigInt(v)
	default:
		return e.calendar(v)
	}
	return true, nil
}

// calendar writes the counterparts of Python's datetime module.
func (e *encoder) calendar(v any) (done bool, err error) {
	const mod = "datetime"
	switch v := v.(type) {
	case time.Time:
		iso, err := appendISOTime(nil, v)
		if err != nil {
			return true, e.fail(v, err)
		}
		return true, e.named(ExtMethod, mod, "datetime", string(iso), "fromisoformat")
	case NaiveDateTime:
		if err := v.check(); err != nil {
			return true, e.fail(v, err)
		}
		return true, e.named(ExtMethod, mod, "datetime", v.String(), "fromisoformat")
	case time.Duration:
		days, secs, micros := splitDelta(v)
		return true, e.named(ExtPositional, mod, "timedelta", []any{days, secs, micros}, "")
	case Date:
		if err := v.check(); err != nil {
			return true, e.fail(v, err)
		}
		return true, e.named(ExtPositional, mod, "date", []any{v.Year, int(v.Month), v.Day}, "")
	case TimeOfDay:
		if err := v.check(); err != nil {
			return true, e.fail(v, err)
		}
		return true, e.named(ExtKeyword, mod, "time", fieldList{
			{"hour", v.Hour}, {"minute", v.Minute}, {"second", v.Second},
			{"microsecond", v.Microsecond}, {"tzinfo", v.TZ}, {"fold", v.Fold},
		}, "")
	case FixedOffset:
		if err := checkOffset(v.Offset); err != nil {
			return true, e.fail(v, err)
		}
		args := []any{v.Offset}
		if v.Name != "" {
			args = append(args, v.Name)
		}
		return true, e.named(ExtPositional, mod, "timezone", args, "")
	}
	return false, nil
}

// nativeTypes are the Go types that native and calendar write. They cannot be registered.
var nativeTypes = func() map[reflect.Type]bool {
	all := map[reflect.Type]bool{}
	for _, v := range []any{
		Send{}, Interrupt{}, Command{}, Overwrite{}, TimeoutPolicy{}, DeltaSnapshot{}, Ext{},
		UUID{}, Decimal(""), Set{}, FrozenSet{}, Deque{}, ByteArray{}, ZoneInfo(""), Regexp{}, Path{}, NDArray{}, Key{},
		netip.Addr{}, netip.Prefix{}, IPInterface{}, json.Number(""), big.Int{},
		time.Time{}, time.Duration(0), NaiveDateTime{}, Date{}, TimeOfDay{}, FixedOffset{},
	} {
		all[reflect.TypeOf(v)] = true
	}
	return all
}()

func isNative(t reflect.Type) bool { return nativeTypes[t] }

func (e *encoder) dataclass(name string, f fieldList) error {
	return e.named(ExtKeyword, modTypes, name, f, "")
}

func (e *encoder) send(v Send) error {
	args := []any{v.Node, v.Arg}
	if v.Timeout != nil {
		args = append(args, *v.Timeout)
	}
	return e.named(ExtPositional, modTypes, nameSend, args, "")
}

func (e *encoder) command(v Command) error {
	f := fieldList{{"graph", nil}, {"update", v.Update}, {"resume", v.Resume}, {"goto", v.Goto}}
	if v.Graph != "" {
		f[0].val = v.Graph
	}
	if v.Goto == nil {
		f[3].val = []any(nil)
	}
	return e.dataclass(nameCommand, f)
}

func (e *encoder) timeoutPolicy(v TimeoutPolicy) error {
	f := fieldList{{"run_timeout", nil}, {"idle_timeout", nil}, {"refresh_on", v.RefreshOn}}
	for i, secs := range []float64{v.RunTimeout, v.IdleTimeout} {
		switch {
		case secs > 0:
			f[i].val = secs
		case secs != 0: // negative or NaN
			return e.fail(v, fmt.Errorf("%s of %v seconds: %w", f[i].key, secs, ErrRange))
		}
	}
	if v.RefreshOn == "" {
		f[2].val = "auto"
	}
	return e.dataclass(nameTimeout, f)
}

func (e *encoder) regexp(v Regexp) error {
	var pattern any = v.Pattern
	if v.Bytes {
		pattern = []byte(v.Pattern)
	}
	return e.named(ExtPositional, "re", "compile", []any{pattern, v.Flags}, "")
}

func (e *encoder) path(v Path) error {
	module, class := v.Module, v.Class
	if module == "" {
		module = "pathlib"
	}
	if class == "" {
		class = "PosixPath"
	}
	if !safeTypes[TypeName{module, class}] || !strings.HasPrefix(module, "pathlib") {
		return e.fail(v, fmt.Errorf("no path class %s.%s: %w", module, class, ErrRange))
	}
	return e.named(ExtPositional, module, class, v.Parts, "")
}

func (e *encoder) ndarray(v NDArray) error {
	order := v.Order
	if order == "" {
		order = "C"
	}
	mark := e.beginExt()
	e.buf = msgp.AppendArrayHeader(e.buf, uint32(4))
	e.buf = appendStr(e.buf, v.DType)
	e.buf = msgp.AppendArrayHeader(e.buf, uint32(len(v.Shape)))
	for _, n := range v.Shape {
		e.buf = appendInt(e.buf, n)
	}
	e.buf = appendStr(e.buf, order)
	e.buf = msgp.AppendBytes(e.buf, v.Data)
	e.buf = closeExt(e.buf, mark, ExtNDArray)
	return nil
}

func (e *encoder) number(v json.Number) error {
	if i, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		e.buf = appendInt(e.buf, i)
		return nil
	}
	if u, err := strconv.ParseUint(string(v), 10, 64); err == nil {
		e.buf = msgp.AppendUint64(e.buf, u)
		return nil
	}
	if !strings.ContainsAny(string(v), ".eE") {
		return e.fail(v, fmt.Errorf("%q: %w", string(v), ErrIntRange))
	}
	f, err := v.Float64()
	if err != nil {
		return e.fail(v, err)
	}
	e.buf = msgp.AppendFloat64(e.buf, f)
	return nil
}

// beginExt leaves room for an extension header, which closeExt fills in.
func (e *encoder) beginExt() (mark int) {
	mark = len(e.buf)
	e.buf = append(e.buf, make([]byte, extRoom)...)
	return mark
}

// named writes an extension of codes 0-5.
func (e *encoder) named(code int8, module, name string, v any, method string) error {
	if err := e.enter(); err != nil {
		return e.fail(v, err)
	}
	outer := e.guide
	e.guide = outer.intoNamed(code)
	elements, _ := namedPayload(code)
	mark := e.beginExt()
	e.buf = msgp.AppendArrayHeader(e.buf, uint32(elements))
	e.buf = appendStr(e.buf, module)
	e.buf = appendStr(e.buf, name)
	if err := e.value(v); err != nil {
		return err
	}
	if elements == 4 {
		e.buf = appendStr(e.buf, method)
	}
	e.buf = closeExt(e.buf, mark, code)
	e.guide = outer
	e.leave()
	return nil
}

func (e *encoder) delta(v DeltaSnapshot) error {
	if err := e.enter(); err != nil {
		return e.fail(v, err)
	}
	outer := e.guide
	e.guide = outer.intoDelta()
	mark := e.beginExt()
	if err := e.value(v.Value); err != nil {
		return within(err, ".value")
	}
	e.buf = closeExt(e.buf, mark, ExtDelta)
	e.guide = outer
	e.leave()
	return nil
}

// ext writes a neutral extension.
func (e *encoder) ext(x *Ext) error {
	if x == nil {
		e.buf = append(e.buf, mNil)
		return nil
	}
	_, isNamed := namedPayload(x.Code)
	switch {
	case x.Data != nil:
		mark := e.beginExt()
		e.buf = append(e.buf, x.Data...)
		e.buf = closeExt(e.buf, mark, x.Code)
		return nil
	case !isNamed:
		return e.fail(x, fmt.Errorf("extension code %d needs Data: %w", x.Code, ErrUnsupported))
	case x.Module == "" || x.Name == "" || (x.Code == ExtMethod && x.Method == ""):
		return e.fail(x, fmt.Errorf("extension code %d without the name of its type or method: %w", x.Code, ErrUnsupported))
	}
	method := x.Method
	if method == "" {
		method = pydanticMethod
	}
	if x.order == nil {
		return e.named(x.Code, x.Module, x.Name, x.Value, method)
	}
	// x remembers its own order of keys. That is better than the order of an enclosing
	// Ext, because x may have been moved there.
	outer := e.guide
	e.guide = guide{on: true, own: true, c: newCursor(x.order)}
	err := e.named(x.Code, x.Module, x.Name, x.Value, method)
	e.guide = outer
	return err
}

// pydanticMethod is the method that LangGraph writes for every pydantic model.
const pydanticMethod = "model_validate_json"
