package server

import "testing"

// FuzzRequest: whatever a client sends, it is decoded and checked, or refused, without a
// panic; and what is accepted can be written again.
func FuzzRequest(f *testing.F) {
	s := &Server{}
	if err := s.addRoutes(); err != nil {
		f.Fatal(err)
	}
	for n, text := range []string{`{}`, `[]`, `{"assistant_id":"a","input":{"messages":[{"role":"user","content":"hi"}]},"stream_mode":["values","updates"]}`,
		`{"command":{"resume":1,"goto":[{"node":"n","input":1e400},"m"]}}`, `{"checkpoint":{"checkpoint_id":"x","checkpoint_map":{"a":"b"}},"after_seconds":1.5}`,
		`{"namespace":["a"],"key":"k","value":{"n":-9223372036854775809}}`, `{"limit":0,"offset":-1,"select":["thread_id"]}`, `{"schedule":"* * * * *","timezone":"UTC","end_time":"2026-01-02T03:04:05Z"}`,
		"[[[[", `"\ud800"`, `{"a":{"a":{"a":null}}}`} {
		for i := n % 3; i < len(s.routes); i += 7 {
			f.Add(uint8(i), []byte(text))
		}
	}
	f.Fuzz(func(t *testing.T, route uint8, text []byte) {
		v, err := decode(text)
		if err != nil {
			return
		}
		rt := s.routes[int(route)%len(s.routes)]
		if rt.in == nil || rt.in.check(v) != nil {
			return
		}
		if _, err := encode(v); err != nil {
			t.Fatalf("%q is accepted and cannot be written: %v", text, err)
		}
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		in := body(m)
		_, _ = configured(in)
		_ = oneContext(in)
		_ = address("t", in)
		_, _ = ttlOf(m["ttl"])
		_, _ = modesOf(in.texts("stream_mode"))
		_ = commandOf(in.object("command"))
		_ = follow(v, in.text("key"))
		k := cron{}
		_ = k.plan(in)
	})
}

// FuzzParseKeys: whatever an issuer publishes, there are keys for checking signatures in it,
// or it is refused.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","kid":"a","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"oct","kid":"b","k":"AAAA"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"},1,null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseKeys(text)
		if (len(keys) == 0) != (err != nil) {
			t.Fatalf("%d keys, %v", len(keys), err)
		}
		for _, list := range keys {
			for _, k := range list {
				if !k.IsPublic() || !k.Valid() {
					t.Fatalf("%T", k.Key)
				}
			}
		}
	})
}
