package serde

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func decodeHex(t *testing.T, c *Codec, s string) any {
	t.Helper()
	v, err := c.Decode(Typed{Kind: KindMsgpack, Data: unhex(t, s)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func encodeHex(t *testing.T, v any) string {
	t.Helper()
	out, err := Default().Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(out.Data)
}

func TestDecodeErrors(t *testing.T) {
	deep := strings.Repeat("91", MaxDepth+1) + "c0"
	tests := []struct {
		name, data string
		off        int
		err        error
	}{
		{"empty", "", 0, errShort},
		{"reserved", "c1", 1, errReserved},
		{"trailing", "0101", 1, errTrailing},
		{"cut int", "cd01", 1, errShort},
		{"cut str", "a3616", 1, errShort},
		{"str over the end", "dbffffffff61", 5, errShort},
		{"bin over the end", "c605000000", 5, errShort},
		{"ext over the end", "c9ffffffff00", 5, errShort},
		{"cut fixext", "d8", 1, errShort},
		{"array of 4 G", "ddffffffff00", 5, errCount},
		{"map of 4 G", "dfffffffff0000", 5, errCount},
		{"map of bytes enough for keys only", "82a0a0", 1, errCount},
		{"nested promises", "92920000", 0, errCount},
		{"UTF-8", "a1ff", 2, errUTF8},
		{"surrogate", "a3eda080", 4, errUTF8},
		{"map as key", "818000", 0, errKey},
		{"ext as key", "81d4070100", 0, errKey},
		{"list with map as key", "81918000", 0, errKey},
		{"NaN twice", "82cb7ff800000000000000cb7ff800000000000100", 0, errKey},
		{"deep", deep, MaxDepth + 1, ErrDepth},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if len(tt.data)%2 == 1 {
				tt.data = tt.data[:len(tt.data)-1]
			}
			_, err := Default().Decode(Typed{Kind: KindMsgpack, Data: unhex(t, tt.data)})
			var de *DecodeError
			if !errors.Is(err, tt.err) || !errors.Is(err, ErrMalformed) || !errors.As(err, &de) || de.Kind != KindMsgpack {
				t.Fatalf("got %v, want a DecodeError of %v", err, tt.err)
			}
			if tt.off != 0 && de.Offset != tt.off {
				t.Errorf("offset %d, want %d", de.Offset, tt.off)
			}
		})
	}
	for _, cut := range []string{"", "9", "[1,", `{"a"`, `{"a":}`, `{a:1}`, "[1 2]", "01", "-", "1.", "1e", `"\x"`, `"\u12"`, "\"\n\"", "nul", "1 2", `"a`, "184467440737095516160"} {
		_, err := Default().Decode(Typed{Kind: KindJSON, Data: []byte(cut)})
		if cut == "9" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("JSON %q: %v", cut, err)
		}
	}
	if _, err := Default().Decode(Typed{Kind: KindJSON, Data: bytes.Repeat([]byte("["), 1<<20)}); !errors.Is(err, ErrDepth) {
		t.Errorf("deep JSON: %v", err)
	}
}

func TestDecodeKinds(t *testing.T) {
	for _, kind := range []string{"", "pickle", "yaml", "msgpack+aes"} {
		_, err := Default().Decode(Typed{Kind: kind, Data: []byte{0xc0}})
		if !errors.Is(err, ErrUnknownKind) || errors.Is(err, ErrEncrypted) != (kind == "msgpack+aes") {
			t.Errorf("%q: %v", kind, err)
		}
	}
	if v, err := Default().Decode(Typed{Kind: KindByteArray}); err != nil || !reflect.DeepEqual(v, ByteArray{}) {
		t.Errorf("empty bytearray: %#v, %v", v, err)
	}
}

// TestDecodeForms reads encodings no LangGraph writes, but reads.
func TestDecodeForms(t *testing.T) {
	tests := map[string]any{
		"d30000000000000001": int64(1), "cf0000000000000001": int64(1), "ca3fc00000": 1.5, "d90161": "a", "db0000000161": "a",
		"dc000101": []any{int64(1)}, "dd0000000101": []any{int64(1)}, "df00000001a16101": map[string]any{"a": int64(1)},
		"82a16101a16102": map[string]any{"a": int64(2)}, "8201020102": map[any]any{int64(1): int64(2)}, "82a16101c002": map[any]any{"a": int64(1), nil: int64(2)},
	}
	for data, want := range tests {
		if got := decodeHex(t, Default(), data); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, want %#v", data, got, want)
		}
	}
}

// TestDecodeOddExtensions reads payloads that do not have the form of their
// code: they are kept and written back.
func TestDecodeOddExtensions(t *testing.T) {
	for _, data := range []string{
		"c70000", "d40000", "d40900", "d6ff00000000", "c7060093a161a16201", "d5000193", "d50790c0", "d407c1", "d40690",
		"c7060093a1610101" + "01", "c7070093a161a162c101", "c7050590a0a0a0a0",
		"92d509c1c1d40991",
	} {
		v := decodeHex(t, Default(), data)
		if got := encodeHex(t, v); got != data {
			t.Errorf("%s became %#v and then %s", data, v, got)
		}
	}
	// Every level of this is malformed, and none may copy its payload but the
	// outermost.
	data, delta := []byte{0xc1}, ExtDelta
	for len(data) < 1<<16 {
		n := len(data) + 8
		data = append([]byte{0xc8, byte(n >> 8), byte(n), byte(delta)}, append(data, bytes.Repeat([]byte{0}, 8)...)...)
		if n > 1<<16-100 {
			break
		}
	}
	if _, err := Default().Decode(Typed{Kind: KindMsgpack, Data: data}); err != nil {
		t.Fatal(err)
	}
}

// TestDecodeMemory decodes data that announces more than it holds.
func TestDecodeMemory(t *testing.T) {
	bombs := map[string][]byte{
		"arrays in arrays": bytes.Repeat([]byte{0xdd, 0, 0, 0xff, 0xff}, 13107),
		"maps in arrays":   bytes.Repeat([]byte{0x91, 0xdf, 0, 0, 0x7f, 0xff}, 10922),
		"repeated keys":    append([]byte{0xdf, 0, 0, 0x7f, 0xff}, bytes.Repeat([]byte{0xa0, 0xc0}, 0x7fff)...),
	}
	for name, data := range bombs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _ = Default().Decode(Typed{Kind: KindMsgpack, Data: data})
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<21+64*uint64(len(data)) {
			t.Errorf("%s: %d bytes allocated for %d", name, used, len(data))
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	c := mustNew(t, Options{Registry: appRegistry(t), OnUnregistered: func(Event) {}})
	secret := newEncrypted(t, EncryptedOptions{})
	golden := loadGoldens(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for _, g := range golden.Cases {
				in := Typed{Kind: g.Kind, Data: unhex(t, g.Hex)}
				if g.Hex == "" {
					continue
				}
				v, err := c.Decode(in)
				if err != nil {
					t.Error(err)
				}
				if _, err := c.Encode(v); err != nil {
					t.Error(err)
				}
				if _, err := secret.Encode(v); err != nil && !errors.Is(err, ErrUnsupported) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestExtKeepsOrder changes decoded extensions and wants what is unchanged to
// keep its place.
func TestExtKeepsOrder(t *testing.T) {
	read := func() *Ext {
		for _, g := range loadGoldens(t).Cases {
			if g.Name == "ext in unsorted ext" {
				return decodeHex(t, Default(), g.Hex).(*Ext)
			}
		}
		t.Fatal("no golden")
		return nil
	}
	keys := func(x *Ext) string {
		t.Helper()
		v, err := Default().Encode(x)
		if err != nil {
			t.Fatal(err)
		}
		c := newCursor(v.Data)
		_, _ = c.next()
		_, _ = c.next()
		_ = c.skip()
		_ = c.skip()
		it, _ := c.next()
		var out []string
		for range it.n {
			k, _ := c.next()
			out = append(out, string(c.body(k)))
			_ = c.skip()
		}
		back := decodeHex(t, Default(), hex.EncodeToString(v.Data)).(*Ext)
		if !back.Equal(x) {
			t.Errorf("written value differs:\n%v\n%v", back, x)
		}
		return strings.Join(out, " ")
	}
	if got := keys(read()); got != "y x tags" {
		t.Errorf("unchanged: %s", got)
	}
	x := read()
	x.Fields()["b"], x.Fields()["a"] = int64(1), []any{"new"}
	if got := keys(x); got != "y x tags a b" {
		t.Errorf("added: %s", got)
	}
	delete(x.Fields(), "x")
	if got := keys(x); got != "y tags a b" {
		t.Errorf("removed: %s", got)
	}
	x.Fields()["y"] = []any{map[string]any{"q": int64(1), "p": nil}}
	x.Fields()["tags"] = append(x.Fields()["tags"].([]any), map[string]any{"d": nil, "c": nil}, map[any]any{int64(5): "five", int64(1): nil})
	if got := keys(x); got != "y tags a b" {
		t.Errorf("replaced: %s", got)
	}
	x.Fields()["tags"] = x.Fields()["tags"].([]any)[:1]
	if got := keys(x); got != "y tags a b" {
		t.Errorf("shortened: %s", got)
	}
	y := read()
	y.Value = map[string]any{"only": int64(1)}
	if got := keys(y); got != "only" {
		t.Errorf("new value: %s", got)
	}
	y.Value = []any{int64(1)}
	encodeHex(t, y)
}

func TestAllowlist(t *testing.T) {
	var mu sync.Mutex
	var events []Event
	note := func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}
	take := func() []Event {
		defer func() { events = nil }()
		return events
	}
	model := encodeHex(t, NewExt(ExtPydanticV2, "app", "Model", map[string]any{"a": 1}, ""))
	method := encodeHex(t, NewExt(ExtMethod, "pathlib", "Path", "/etc/passwd", "read_text"))
	hooks := Options{OnUnregistered: note, OnBlocked: note}

	open := mustNew(t, hooks)
	for range 3 {
		if x, ok := decodeHex(t, open, model).(*Ext); !ok || x.Fields()["a"] != int64(1) {
			t.Errorf("open: %v", x)
		}
	}
	if got := take(); !reflect.DeepEqual(got, []Event{{Kind: EventUnregistered, Module: "app", Name: "Model"}}) {
		t.Errorf("open: %v", got)
	}
	if x, ok := decodeHex(t, open, method).(*Ext); !ok || x.Value != "/etc/passwd" || encodeHex(t, x) != method {
		t.Errorf("method: %v", x)
	}
	if got := take(); !reflect.DeepEqual(got, []Event{{EventMethodBlocked, "pathlib", "Path", "read_text"}}) {
		t.Errorf("method: %v", got)
	}

	hooks.Strict = true
	strict := mustNew(t, hooks)
	if v := decodeHex(t, strict, model); !reflect.DeepEqual(v, map[string]any{"a": int64(1)}) {
		t.Errorf("strict: %v", v)
	}
	if v := decodeHex(t, strict, method); v != "/etc/passwd" {
		t.Errorf("strict method: %v", v)
	}
	if got := take(); len(got) != 2 || got[0] != (Event{Kind: EventBlocked, Module: "app", Name: "Model"}) {
		t.Errorf("strict: %v", got)
	}

	if open.WithAllowlist(TypeName{"app", "Model"}) != open || strict.WithAllowlist() != strict ||
		strict.WithAllowlist(TypeName{"uuid", "UUID"}) != strict {
		t.Error("an allowlist with nothing new makes a new Codec")
	}
	wider := strict.WithAllowlist(TypeName{"app", "Model"})
	if _, ok := decodeHex(t, wider, model).(*Ext); !ok || wider == strict || wider.WithAllowlist(TypeName{"app", "Model"}) != wider {
		t.Error("the widened Codec does not know the type")
	}
	if _, ok := decodeHex(t, strict, model).(map[string]any); !ok {
		t.Error("widening changed the original")
	}
	if got := take(); len(got) != 0 {
		t.Errorf("reported again: %v", got)
	}
	for i := range 2 * maxEvents {
		decodeHex(t, open, encodeHex(t, NewExt(ExtSingle, "app", fmt.Sprint("T", i), nil, "")))
	}
	if got := take(); len(got) != maxEvents-2 {
		t.Errorf("%d types reported", len(got))
	}
}

func TestLegacyInterrupts(t *testing.T) {
	vectors := map[string][]string{
		"f1fa625689ec006a5b32b76863e22a6c": {"legacy_test"},
		"e69356a9ee3630ee7f4f597f2693000c": {"legacy:test", "with:complex", "name:space"},
		"26f309d618c42ff31d2b3404369232e4": {"bar2:794fffda-2e6c-0685-0d44-3ed6c57ca366"},
		"6531752c4d60334ae17e4816e23fdfe4": {"main:9f7c900b-0d56-927c-17fb-5d519cc85678", "sub_node:929f60c7-3999-ab63-937a-e014df442787"},
		"99aa06d3014798d86001c324468d497f": {},
	}
	for id, ns := range vectors {
		if got := LegacyInterruptID(ns); got != id {
			t.Errorf("%v: %s, want %s", ns, got, id)
		}
		old := NewExt(ExtKeyword, "langgraph.types", "Interrupt", map[string]any{"value": "v", "resumable": true, "ns": ns, "when": "during"}, "")
		if got := decodeHex(t, Default(), encodeHex(t, old)); !reflect.DeepEqual(got, Interrupt{Value: "v", ID: id}) {
			t.Errorf("%v: %#v", ns, got)
		}
	}
	given := NewExt(ExtKeyword, "langgraph.types", "Interrupt", map[string]any{"value": "v", "id": "x", "ns": []any{"n"}}, "")
	if got := decodeHex(t, Default(), encodeHex(t, given)); !reflect.DeepEqual(got, Interrupt{Value: "v", ID: "x"}) {
		t.Errorf("%#v", got)
	}
}

// TestNeutralWhereGoCannot decodes safe types with content no native type can
// hold or write back.
func TestNeutralWhereGoCannot(t *testing.T) {
	kw := func(name string, f map[string]any) *Ext { return NewExt(ExtKeyword, "langgraph.types", name, f, "") }
	pos := func(module, name string, args ...any) *Ext { return NewExt(ExtPositional, module, name, args, "") }
	one := func(module, name string, arg any) *Ext { return NewExt(ExtSingle, module, name, arg, "") }
	for _, x := range []*Ext{
		kw("Interrupt", map[string]any{"value": 1, "novel": 2}), kw("Interrupt", map[string]any{"id": "x"}), kw("Interrupt", map[string]any{"value": 1, "id": 2}),
		kw("Interrupt", map[string]any{"value": 1, "ns": []any{1}}), kw("Overwrite", map[string]any{"value": 1, "type": "other"}), kw("Overwrite", map[string]any{}),
		kw("Command", map[string]any{"graph": ""}), kw("Command", map[string]any{"graph": 1}), kw("Command", map[string]any{"goto": nil}), kw("Command", map[string]any{"x": 1}),
		kw("TimeoutPolicy", map[string]any{"run_timeout": 1, "idle_timeout": nil, "refresh_on": "auto"}),
		kw("TimeoutPolicy", map[string]any{"run_timeout": -1.0, "idle_timeout": nil, "refresh_on": "auto"}), kw("TimeoutPolicy", nil),
		pos("langgraph.types", "Send", 1, 2), pos("langgraph.types", "Send", "n"), pos("langgraph.types", "Send", "n", 1, 30), pos("langgraph.types", "Send", "n", 1, 2, 3),
		pos("datetime", "date", 2023, 2, 29), pos("datetime", "date", int64(1<<40), 2, 29), pos("datetime", "date", "x"), pos("datetime", "timedelta", 0, -1, 0),
		pos("datetime", "timedelta", 200000, 0, 0), pos("datetime", "timezone"), pos("datetime", "timezone", 25*time.Hour), pos("datetime", "timezone", time.Hour, ""),
		NewExt(ExtMethod, "datetime", "datetime", "20240101", "fromisoformat"), NewExt(ExtMethod, "datetime", "datetime", "2024-01-01T00:00:00Z", "fromisoformat"),
		NewExt(ExtMethod, "datetime", "datetime", "2024-02-30T00:00:00", "fromisoformat"), NewExt(ExtMethod, "datetime", "datetime", 5, "fromisoformat"),
		NewExt(ExtMethod, "datetime", "datetime", "2024-01-01T00:00:00-00:00", "fromisoformat"), NewExt(ExtMethod, "datetime", "datetime", "2024-01-01T00:00:00.000000", "fromisoformat"),
		NewExt(ExtKeyword, "datetime", "time", map[string]any{"hour": 25, "minute": 0, "second": 0, "microsecond": 0, "fold": 0, "tzinfo": nil}, ""),
		NewExt(ExtKeyword, "datetime", "time", map[string]any{"hour": 2, "minute": 0, "second": 0, "microsecond": 0, "fold": 0, "tzinfo": "x"}, ""),
		one("uuid", "UUID", "F81D4FAE7DEC11D0A76500A0C91E6BF6"), one("uuid", "UUID", "x"), one("uuid", "UUID", 1), one("builtins", "set", "ab"),
		one("ipaddress", "IPv4Address", "::1"), one("ipaddress", "IPv6Address", "::0"), one("ipaddress", "IPv4Network", "10.0.0.1/8"), one("ipaddress", "IPv4Address", 5),
		pos("re", "compile", 1, 2), pos("re", "compile", "a"), pos("pathlib", "Path", 1), one("zoneinfo", "ZoneInfo", nil), one("decimal", "Decimal", []any{0, []any{1}, 0}),
	} {
		data := encodeHex(t, x)
		v := decodeHex(t, Default(), data)
		if _, ok := v.(*Ext); !ok {
			t.Errorf("%s %v: became %#v", x.Name, x.Value, v)
		}
		if got := encodeHex(t, v); got != data {
			t.Errorf("%s %v: %s, want %s", x.Name, x.Value, got, data)
		}
	}
}

func TestSmallHelpers(t *testing.T) {
	if k, err := NewKey([]any{"a", int64(1)}); err != nil || k.String() != "[a 1]" || !reflect.DeepEqual(k.Value(), []any{"a", int64(1)}) {
		t.Errorf("key: %v, %v", k, err)
	}
	for _, bad := range []any{"s", 1, []any{map[string]any{}}, []any{time.Second}, []any{func() {}}} {
		if _, err := NewKey(bad); err == nil {
			t.Errorf("NewKey takes %v", bad)
		}
	}
	for s, ok := range map[string]bool{"f81d4fae-7dec-11d0-a765-00a0c91e6bf6": true, "F81D4FAE7DEC11D0A76500A0C91E6BF6": true, "": false, "f81d4fae-7dec-11d0-a765-00a0c91e6bfx": false} {
		if u, err := ParseUUID(s); (err == nil) != ok || ok && u.String() != "f81d4fae-7dec-11d0-a765-00a0c91e6bf6" {
			t.Errorf("ParseUUID(%q): %v, %v", s, u, err)
		}
	}
	for in, want := range map[string]string{"": ".", "/": "/", "//x": "//x", "///x/./y/..": "/x/y/..", "a//b/": "a/b"} {
		if got := NewPath(in).String(); got != want {
			t.Errorf("NewPath(%q) is %q, want %q", in, got, want)
		}
	}
	if got := (Path{Class: "WindowsPath", Parts: []string{`C:\`, "a", "b"}}).String(); got != `C:\a\b` {
		t.Errorf("windows path: %s", got)
	}
	p := TimeoutPolicy{RunTimeout: 1.5, IdleTimeout: math.Inf(1)}
	if p.Run() != 1500*time.Millisecond || p.Idle() != math.MaxInt64 || (TimeoutPolicy{RunTimeout: math.NaN()}).Run() != 0 {
		t.Errorf("durations: %v, %v", p.Run(), p.Idle())
	}
	moment := time.Date(2024, 4, 19, 1, 2, 3, 4000, time.FixedZone("", 3600))
	if d := NaiveOf(moment); d.In(moment.Location()) != moment || d.String() != "2024-04-19T01:02:03.000004" {
		t.Errorf("naive: %v", d)
	}
}

func TestAsOverwrite(t *testing.T) {
	for _, tt := range []struct {
		v    any
		want bool
	}{
		{Overwrite{Value: "b"}, true}, {&Overwrite{Value: "b"}, true}, {map[string]any{"type": "__overwrite__", "value": "b"}, true},
		{map[string]any{"__overwrite__": "b"}, true}, {map[string]any{"value": "b"}, false}, {map[string]any{"type": "human", "value": "b"}, false},
		{map[string]any{"__overwrite__": "b", "x": 1}, false}, {map[string]any{"type": "__overwrite__"}, false}, {nil, false}, {(*Overwrite)(nil), false},
	} {
		if got, ok := AsOverwrite(tt.v); ok != tt.want || (ok && got.Value != "b") {
			t.Errorf("%v: %v, %v", tt.v, got, ok)
		}
	}
}
