package savertest

import (
	"net/netip"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// stored puts v as a channel value and returns what the saver gives back.
func (e *env) stored(v any) saver.Value {
	e.Helper()
	got, ok := e.get(e.put(step{id: id(1), values: map[string]any{"k": v}})).Checkpoint.Values["k"]
	if !ok {
		e.Fatalf("the value is gone")
	}
	return got
}

func (e *env) typed(v saver.Value) serde.Typed {
	e.Helper()
	typed, err := v.Typed()
	e.ok("read value", err)
	return typed
}

func (e *env) codec(o serde.Options) *serde.Codec {
	e.Helper()
	c, err := serde.New(o)
	e.ok("codec", err)
	return c
}

func (e *env) encode(s serde.Serializer, v any) serde.Typed {
	e.Helper()
	typed, err := s.Encode(v)
	e.ok("encode", err)
	return typed
}

// model is a value of a Python class that nobody registered.
func model(name string) *serde.Ext {
	return serde.NewExt(serde.ExtPydanticV2, "app.models", name, map[string]any{"name": "x", "n": int64(1)}, "model_validate_json")
}

var serdeCases = []testCase{
	{id: "SER-04", name: "a method is never called", fn: func(e *env) {
		ext := serde.NewExt(serde.ExtMethod, "pathlib", "Path", "/etc/passwd", "read_text")
		v := e.stored(ext)
		var events []serde.Event
		hook := func(ev serde.Event) { events = append(events, ev) }
		strict, err := v.WithCodec(e.codec(serde.Options{Strict: true, OnBlocked: hook})).Any()
		e.ok("decode strictly", err)
		e.equal("strict", strict, "/etc/passwd")
		loose, err := v.WithCodec(e.codec(serde.Options{OnBlocked: hook})).Any()
		e.ok("decode", err)
		x, ok := loose.(*serde.Ext)
		if !ok || !x.Equal(ext) {
			e.Fatalf("got %#v, want the call as data", loose)
		}
		want := serde.Event{Kind: serde.EventMethodBlocked, Module: "pathlib", Name: "Path", Method: "read_text"}
		e.equal("events", events, []serde.Event{want, want})
	}},
	{id: "SER-05", name: "strict: an unregistered type is its data", fn: func(e *env) {
		var events []serde.Event
		c := e.codec(serde.Options{Strict: true, OnBlocked: func(ev serde.Event) { events = append(events, ev) }})
		got, err := e.stored(model("Order")).WithCodec(c).Any()
		e.ok("decode", err)
		e.equal("data", got, map[string]any{"name": "x", "n": 1})
		e.equal("events", events, []serde.Event{{Kind: serde.EventBlocked, Module: "app.models", Name: "Order"}})
	}},
	{id: "SER-06", name: "default: an unregistered type stays itself, one event", fn: func(e *env) {
		var events []serde.Event
		c := e.codec(serde.Options{OnUnregistered: func(ev serde.Event) { events = append(events, ev) }})
		v := e.stored([]any{model("Order"), model("Order")})
		for range 2 {
			got, err := v.WithCodec(c).Any()
			e.ok("decode", err)
			x, ok := got.([]any)[1].(*serde.Ext)
			if !ok || !x.Equal(model("Order")) {
				e.Fatalf("got %#v", got)
			}
			e.equal("encoded again", e.encode(c, got), e.typed(v))
		}
		e.equal("events", events, []serde.Event{{Kind: serde.EventUnregistered, Module: "app.models", Name: "Order"}})
	}},
	{id: "SER-07", name: "strict: safe types and messages stay", fn: func(e *env) {
		c := e.codec(serde.Options{Strict: true, OnBlocked: func(ev serde.Event) { e.Errorf("blocked %+v", ev) }})
		human := serde.NewExt(serde.ExtPydanticV2, "langchain_core.messages.human", "HumanMessage", map[string]any{"content": "hi", "type": "human", "id": "m1"}, "")
		got, err := e.stored(map[string]any{"msg": human, "id": serde.UUID{15: 1}, "when": serde.Date{Year: 2024, Month: 4, Day: 19}}).WithCodec(c).Any()
		e.ok("decode", err)
		m := got.(map[string]any)
		e.equal("safe types", []any{m["id"], m["when"]}, []any{serde.UUID{15: 1}, serde.Date{Year: 2024, Month: 4, Day: 19}})
		msg, ok := serde.MessageFrom(m["msg"])
		e.equal("message", []any{ok, msg.ID, msg.Text()}, []any{true, "m1", "hi"})
	}},
	{id: "SER-08", name: "a wider allowlist is another codec", fn: func(e *env) {
		order := serde.TypeName{Module: "app.models", Name: "Order"}
		strict := e.codec(serde.Options{Strict: true})
		if strict.WithAllowlist() != strict || serde.Default().WithAllowlist(order) != serde.Default() {
			e.Fatalf("nothing new, but another codec")
		}
		wide := strict.WithAllowlist(order)
		if wide == strict || wide.WithAllowlist(order) != wide {
			e.Fatalf("the clone is wrong: wide is strict %t, again is another %t", wide == strict, wide.WithAllowlist(order) != wide)
		}
		v := e.stored(model("Order"))
		got, err := v.WithCodec(wide).Any()
		e.ok("decode", err)
		if x, ok := got.(*serde.Ext); !ok || !x.Equal(model("Order")) {
			e.Fatalf("the wide codec gives %#v", got)
		}
		got, err = v.WithCodec(strict).Any()
		e.ok("decode", err)
		e.equal("the first codec", got, map[string]any{"name": "x", "n": 1})
	}},
	{id: "SER-09", name: "encrypted values", fn: func(e *env) {
		key := []byte("0123456789abcdef0123456789abcdef")
		for cipher, suffix := range map[string]string{"": "+aes", serde.CipherAESGCM: "+aes-gcm"} {
			enc, err := serde.NewEncrypted(nil, serde.EncryptedOptions{Key: key, Cipher: cipher})
			e.ok("encrypting codec", err)
			old, err := serde.NewEncrypted(nil, serde.EncryptedOptions{Key: key, AllowPlaintext: true})
			e.ok("encrypting codec", err)
			for kind, want := range map[string]any{"msgpack": map[string]any{"a": 1}, "null": nil, "bytes": []byte("raw")} {
				v := e.stored(e.encode(enc, want))
				e.equal("kind", e.typed(v).Kind, kind+suffix)
				got, err := v.WithCodec(enc).Any()
				e.ok("decrypt", err)
				e.equal("decrypted", got, want)
				if got, err := v.Any(); err == nil {
					e.Fatalf("read without the key: %#v", got)
				}
				plain := e.stored(want)
				got, err = plain.WithCodec(old).Any()
				e.ok("read an old value", err)
				e.equal("old value", got, want)
				_, err = plain.WithCodec(enc).Any()
				e.fails("read plaintext where it is not allowed", err, serde.ErrPlaintext)
			}
		}
	}},
	{id: "SER-10", name: "interrupts from before they had ids", fn: func(e *env) {
		for want, ns := range map[string][]any{
			"f1fa625689ec006a5b32b76863e22a6c": {"legacy_test"},
			"e69356a9ee3630ee7f4f597f2693000c": {"legacy:test", "with:complex", "name:space"},
		} {
			old := serde.NewExt(serde.ExtKeyword, "langgraph.types", "Interrupt", map[string]any{"value": "v", "resumable": true, "ns": ns, "when": "during"}, "")
			got, ok := e.any(e.stored(old)).(serde.Interrupt)
			e.equal("interrupt", []any{ok, got.ID, got.Value}, []any{true, want, "v"})
		}
	}},
	{id: "SER-11", name: "packets with and without timeout", fn: func(e *env) {
		for _, want := range []serde.Send{
			{Node: "n", Arg: map[string]any{"x": int64(1)}},
			{Node: "n", Arg: "a", Timeout: &serde.TimeoutPolicy{RunTimeout: 2.5, IdleTimeout: 1, RefreshOn: "heartbeat"}},
		} {
			v := e.stored(want)
			e.equal("packet", e.any(v), want)
			elements := 2
			if want.Timeout != nil {
				elements = 3
			}
			raw, err := v.WithCodec(rawSends{}).Any()
			e.ok("read raw", err)
			e.equal("elements", raw, elements)
		}
	}},
	{id: "SER-12", name: "overwrites in all their forms", fn: func(e *env) {
		for _, v := range []any{
			serde.Overwrite{Value: []any{"b"}},
			map[string]any{"type": "__overwrite__", "value": []any{"b"}},
			map[string]any{"__overwrite__": []any{"b"}},
		} {
			got, ok := serde.AsOverwrite(e.any(e.stored(v)))
			e.equal("overwrite", []any{ok, got.Value}, []any{true, []any{"b"}})
		}
		for _, v := range []any{map[string]any{"value": []any{"b"}}, map[string]any{"type": "human", "value": "b"}, []any{"b"}} {
			if got, ok := serde.AsOverwrite(e.any(e.stored(v))); ok {
				e.Fatalf("%#v is taken for %#v", v, got)
			}
		}
	}},
}

// rawSends decodes a Send to the number of its positional arguments, as they
// stand in the bytes.
type rawSends struct{ serde.Serializer }

// Decode implements serde.Serializer.
func (rawSends) Decode(t serde.Typed) (any, error) {
	// The payload is [module, name, [node, arg, …]]; the third element's header
	// follows the two names.
	names := len("langgraph.types") + len("Send") + 2
	for i, b := range t.Data {
		if b == 0x93 && i+1+names < len(t.Data) {
			return int(t.Data[i+1+names] & 0x0f), nil
		}
	}
	return nil, serde.ErrMalformed
}

// kindCases are about the kinds of typed values and the neutral view.
var kindCases = []testCase{
	{id: "SER-01", name: "bytes, bytearray and nil have kinds of their own", fn: func(e *env) {
		for kind, v := range map[string]any{serde.KindBytes: []byte{1, 0, 255}, serde.KindByteArray: serde.ByteArray{42}, serde.KindNull: nil} {
			stored := e.stored(v)
			got := e.typed(stored)
			want := e.encode(serde.Default(), v)
			e.equal("kinds", []any{got.Kind, want.Kind}, []any{kind, kind})
			e.equal("bytes", string(got.Data), string(want.Data))
			e.equal("value", e.any(stored), v)
		}
		e.equal("raw bytes", e.typed(e.stored([]byte{1, 0, 255})).Data, []byte{1, 0, 255})
	}},
	{id: "SER-01", name: "typed bytes pass through untouched", fn: func(e *env) {
		for _, want := range []serde.Typed{
			{Kind: "msgpack", Data: []byte{0xc7, 0x03, 0x63, 1, 2, 3}}, {Kind: "json", Data: []byte(`{"a":1}`)},
			{Kind: "pickle+aes", Data: []byte("anything")}, {Kind: "bytes", Data: []byte{}},
		} {
			got := e.typed(e.stored(want))
			e.equal("typed", []any{got.Kind, string(got.Data)}, []any{want.Kind, string(want.Data)})
		}
	}},
	{id: "SER-02", name: "the neutral view of everything", fn: func(e *env) {
		v := e.stored(neutralValue())
		e.equal("kind", e.typed(v).Kind, serde.KindMsgpack)
		got, err := v.WithCodec(e.codec(serde.Options{Plain: true})).Any()
		e.ok("decode", err)
		m, want := got.(map[string]any), neutralWant()
		for key := range want {
			e.equal(key, m[key], want[key])
		}
		e.equal("keys", len(m), len(want))
		native, err := v.Any()
		e.ok("decode natively", err)
		e.equal("encoded again", e.encode(serde.Default(), native), e.typed(v))
	}},
	{id: "SER-03", name: "strings survive unchanged", fn: func(e *env) {
		for _, s := range []string{"a\x00b", "\x00", "emoji 😀 \U0001F9EA", `literal \u0000 and \ud83d`, `\\u0000`, "é\u0301", "\ufffd"} {
			e.equal("string", e.any(e.stored(s)), s)
		}
	}},
}

func neutralValue() map[string]any {
	zone := time.FixedZone("", int((23*time.Hour+59*time.Minute)/time.Second))
	return map[string]any{
		"path": serde.NewPath("foo/bar"), "re": serde.Regexp{Pattern: "foo", Flags: 48}, "decimal": serde.Decimal("1.10101"),
		"set": serde.Set{int64(1), int64(2)}, "frozen_set": serde.FrozenSet{int64(1)}, "deque": serde.Deque{int64(3)},
		"ip4": netip.MustParseAddr("192.168.0.1"), "zone": serde.ZoneInfo("America/New_York"), "date": serde.Date{Year: 2024, Month: 4, Day: 19},
		"time":  serde.TimeOfDay{Hour: 23, Minute: 4, Second: 57, Microsecond: 51022, TZ: serde.FixedOffset{Offset: 23*time.Hour + 59*time.Minute}},
		"uuid1": serde.UUID{15: 1}, "when": time.Date(2024, 4, 19, 23, 4, 57, 51022000, zone),
		"class": serde.NewExt(serde.ExtKeyword, "app", "Data", map[string]any{"foo": "bar"}, ""),
		"model": model("Order"), "enum": serde.NewExt(serde.ExtSingle, "app", "Color", "red", ""),
		"secret": serde.NewExt(serde.ExtSingle, "pydantic.types", "SecretStr", "hunter2", ""),
		"item":   serde.NewExt(serde.ExtKeyword, "langgraph.store.base", "Item", map[string]any{"key": "k", "created_at": "2024-04-19T23:04:57.051022+00:00"}, ""),
		"bytes":  []byte("*"), "array": serde.ByteArray{42}, "int": int64(1 << 40), "float": 1.1,
	}
}

func neutralWant() map[string]any {
	return map[string]any{
		"path": []any{"foo", "bar"}, "re": []any{"foo", 48}, "decimal": "1.10101",
		"set": []any{1, 2}, "frozen_set": []any{1}, "deque": []any{3},
		"ip4": "192.168.0.1", "zone": "America/New_York", "date": []any{2024, 4, 19},
		"time":  map[string]any{"hour": 23, "minute": 4, "second": 57, "microsecond": 51022, "tzinfo": []any{[]any{0, 86340, 0}}, "fold": 0},
		"uuid1": "00000000-0000-0000-0000-000000000001", "when": "2024-04-19T23:04:57.051022+23:59",
		"class": map[string]any{"foo": "bar"}, "model": map[string]any{"name": "x", "n": 1}, "enum": "red", "secret": "hunter2",
		"item":  map[string]any{"key": "k", "created_at": "2024-04-19T23:04:57.051022+00:00"},
		"bytes": []byte("*"), "array": []byte("*"), "int": int64(1 << 40), "float": 1.1,
	}
}
