package serde

import (
	"errors"
	"math"
	"strings"
	"time"
)

// errForm: a payload does not have the form of its code. Callers never see the error, because
// the payload is then kept as bytes.
var errForm = errors.New("unexpected form of an extension's payload")

// nativeValue maps an extension of a safe type to its Go type. ok is false if the value would
// not be written back as x is; then the extension stays neutral. The only exceptions are
// upgraded forms of LangGraph's own types (Interrupt, Overwrite).
func nativeValue(x *Ext) (any, bool) {
	switch x.Module {
	case modTypes:
		return nativeGraph(x)
	case "datetime":
		return nativeCalendar(x)
	case "re":
		return nativeRegexp(x)
	case "pathlib", "pathlib._local":
		return nativePath(x)
	}
	if x.Code != ExtSingle {
		return nil, false
	}
	if list, ok := x.Value.([]any); ok {
		switch (TypeName{x.Module, x.Name}) {
		case TypeName{"builtins", "set"}:
			return Set(list), true
		case TypeName{"builtins", "frozenset"}:
			return FrozenSet(list), true
		case TypeName{"collections", "deque"}:
			return Deque(list), true
		}
		return nil, false
	}
	text, ok := x.Value.(string)
	if !ok {
		return nil, false
	}
	switch (TypeName{x.Module, x.Name}) {
	case TypeName{"uuid", "UUID"}:
		u, err := ParseUUID(text)
		return u, err == nil && hexString(u[:]) == text
	case TypeName{"decimal", "Decimal"}:
		return Decimal(text), true
	case TypeName{"zoneinfo", "ZoneInfo"}:
		return ZoneInfo(text), true
	}
	if x.Module == "ipaddress" {
		return nativeAddress(x.Name, text)
	}
	return nil, false
}

func nativeGraph(x *Ext) (any, bool) {
	switch x.Name {
	case nameSend:
		return nativeSend(x)
	case nameInterrupt:
		return nativeInterrupt(x)
	case nameCommand:
		return nativeCommand(x)
	case nameOverwrite:
		f, ok := onlyFields(x, "value", "type")
		v, have := f["value"]
		if kind, typed := f["type"]; typed && kind != overwriteMark {
			return nil, false
		}
		return Overwrite{Value: v}, ok && have
	case nameTimeout:
		return nativeTimeout(x)
	}
	return nil, false
}

// onlyFields returns the named arguments of x if there are none but these.
func onlyFields(x *Ext, names ...string) (map[string]any, bool) {
	f := x.Fields()
	if x.Code != ExtKeyword || f == nil {
		return nil, false
	}
	known := 0
	for _, n := range names {
		if _, have := f[n]; have {
			known++
		}
	}
	return f, known == len(f)
}

func nativeSend(x *Ext) (any, bool) {
	args := x.Args()
	if x.Code != ExtPositional || (len(args) != 2 && len(args) != 3) {
		return nil, false
	}
	node, ok := args[0].(string)
	s := Send{Node: node, Arg: args[1]}
	if len(args) == 3 {
		timeout, isPolicy := args[2].(TimeoutPolicy)
		s.Timeout = &timeout
		ok = ok && isPolicy
	}
	return s, ok
}

// nativeInterrupt also reads what LangGraph wrote before Interrupts had ids
// (value, resumable, ns, when), deriving the id as LangGraph does.
func nativeInterrupt(x *Ext) (any, bool) {
	f, ok := onlyFields(x, "value", "id", "response_schema", "ns", "resumable", "when")
	value, have := f["value"]
	if !ok || !have {
		return nil, false
	}
	in := Interrupt{Value: value, ID: placeholderID, ResponseSchema: f["response_schema"]}
	if id, given := f["id"]; given {
		if in.ID, ok = id.(string); !ok || in.ID == "" {
			return nil, false
		}
	}
	if ns, legacy := f["ns"].([]any); legacy && in.ID == placeholderID {
		parts := make([]string, len(ns))
		for i, part := range ns {
			if parts[i], ok = part.(string); !ok {
				return nil, false
			}
		}
		in.ID = LegacyInterruptID(parts)
	}
	return in, true
}

func nativeCommand(x *Ext) (any, bool) {
	f, ok := onlyFields(x, "graph", "update", "resume", "goto")
	if !ok {
		return nil, false
	}
	c := Command{Update: f["update"], Resume: f["resume"], Goto: f["goto"]}
	if graph := f["graph"]; graph != nil {
		if c.Graph, ok = graph.(string); c.Graph == "" {
			return nil, false
		}
	}
	if to, given := f["goto"]; given && to == nil {
		return nil, false
	}
	return c, ok
}

func nativeTimeout(x *Ext) (any, bool) {
	f, ok := onlyFields(x, "run_timeout", "idle_timeout", "refresh_on")
	if !ok || len(f) != 3 {
		return nil, false
	}
	var p TimeoutPolicy
	for name, dst := range map[string]*float64{"run_timeout": &p.RunTimeout, "idle_timeout": &p.IdleTimeout} {
		if f[name] == nil {
			continue
		}
		if *dst, ok = f[name].(float64); !ok || !(*dst > 0) {
			return nil, false
		}
	}
	p.RefreshOn, ok = f["refresh_on"].(string)
	return p, ok && p.RefreshOn != ""
}

func nativeCalendar(x *Ext) (any, bool) {
	switch {
	case x.Name == "datetime" && x.Code == ExtMethod:
		text, ok := x.Value.(string)
		if !ok {
			return nil, false
		}
		return parseISO(text)
	case x.Name == "time" && x.Code == ExtKeyword:
		return nativeTime(x)
	case x.Code != ExtPositional:
		return nil, false
	case x.Name == "timezone":
		return nativeOffset(x.Args())
	}
	n, ok := ints(x.Args(), 3)
	if !ok {
		return nil, false
	}
	switch x.Name {
	case "timedelta":
		d, fits := joinDelta(n[0], n[1], n[2])
		return d, fits
	case "date":
		d := Date{Year: int(n[0]), Month: time.Month(n[1]), Day: int(n[2])}
		return d, small(n...) && d.check() == nil
	}
	return nil, false
}

// nativeOffset maps the arguments of a timezone.
func nativeOffset(args []any) (any, bool) {
	if len(args) != 1 && len(args) != 2 {
		return nil, false
	}
	var z FixedOffset
	var ok bool
	if z.Offset, ok = args[0].(time.Duration); !ok || checkOffset(z.Offset) != nil {
		return nil, false
	}
	if len(args) == 2 {
		z.Name, ok = args[1].(string)
		ok = ok && z.Name != ""
	}
	return z, ok
}

func nativeTime(x *Ext) (any, bool) {
	f, ok := onlyFields(x, "hour", "minute", "second", "microsecond", "tzinfo", "fold")
	if !ok || len(f) != 6 {
		return nil, false
	}
	n, ok := ints([]any{f["hour"], f["minute"], f["second"], f["microsecond"], f["fold"]}, 5)
	if !ok || !small(n...) {
		return nil, false
	}
	t := TimeOfDay{
		Hour: int(n[0]), Minute: int(n[1]), Second: int(n[2]),
		Microsecond: int(n[3]), Fold: int(n[4]), TZ: f["tzinfo"],
	}
	switch t.TZ.(type) {
	case nil, FixedOffset, ZoneInfo, *Ext:
	default:
		return nil, false
	}
	return t, t.check() == nil
}

// ints returns args as integers if there are count of them and all are.
func ints(args []any, count int) ([]int64, bool) {
	if len(args) != count {
		return nil, false
	}
	out := make([]int64, count)
	for i, a := range args {
		n, ok := a.(int64)
		if !ok {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

// small guards conversions to int where int has 32 bits.
func small(n ...int64) bool {
	for _, v := range n {
		if v < math.MinInt32 || v > math.MaxInt32 {
			return false
		}
	}
	return true
}

func nativeRegexp(x *Ext) (any, bool) {
	args := x.Args()
	if x.Name != "compile" || x.Code != ExtPositional || len(args) != 2 {
		return nil, false
	}
	var r Regexp
	switch p := args[0].(type) {
	case string:
		r.Pattern = p
	case []byte:
		r.Pattern, r.Bytes = string(p), true
	default:
		return nil, false
	}
	var ok bool
	r.Flags, ok = args[1].(int64)
	return r, ok
}

func nativePath(x *Ext) (any, bool) {
	args := x.Args()
	if x.Code != ExtPositional || args == nil || !strings.HasSuffix(x.Name, "Path") {
		return nil, false
	}
	p := Path{Module: x.Module, Class: x.Name, Parts: make([]string, len(args))}
	for i, a := range args {
		var ok bool
		if p.Parts[i], ok = a.(string); !ok {
			return nil, false
		}
	}
	return p, true
}
