package serde

import "testing"

func TestMessageFrom(t *testing.T) {
	want := map[string]Message{
		"human": {Role: "human", ID: "h1", Name: "bob"}, "human blocks": {Role: "human"}, "ai": {Role: "ai", ID: "a1"}, "ai tools": {Role: "ai", ID: "a2"},
		"ai chunk": {Role: "ai", ID: "a3"}, "tool": {Role: "tool", ID: "t1"}, "system": {Role: "system", ID: "s1"}, "chat": {Role: "chat", ID: "ch1"},
		"function": {Role: "function", ID: "f1", Name: "f"}, "remove": {Role: "remove", ID: "a1"},
	}
	text := map[string]string{"human": "hello", "human blocks": "what is it", "ai": "hi there", "tool": "42"}
	for _, g := range loadGoldens(t).Cases {
		w, ok := want[g.Name]
		if g.Hex == "" || g.Kind != KindMsgpack {
			continue
		}
		m, got := MessageFrom(decodeHex(t, Default(), g.Hex))
		if got != ok || m.Role != w.Role || m.ID != w.ID || m.Name != w.Name {
			t.Errorf("%s: %+v, %v; want %+v", g.Name, m, got, w)
		}
		if want, ok := text[g.Name]; ok && m.Text() != want {
			t.Errorf("%s: text %q", g.Name, m.Text())
		}
		delete(want, g.Name)
	}
	if len(want) > 0 {
		t.Errorf("no goldens for %v", want)
	}
	for _, tt := range []struct {
		v    any
		role string
	}{
		{map[string]any{"role": "user", "content": "x"}, "human"}, {map[string]any{"role": "assistant", "content": nil}, "ai"},
		{map[string]any{"type": "human", "content": "x"}, "human"}, {map[string]any{"role": "user"}, ""}, {map[string]any{"content": "x"}, ""},
		{map[string]any{"lc": int64(1), "type": "constructor", "id": []any{"langchain", "schema", "messages", "AIMessage"}, "kwargs": map[string]any{"content": "x"}}, "ai"},
		{map[string]any{"lc": int64(1), "type": "constructor", "id": []any{"langchain", "Prompt"}, "kwargs": map[string]any{"content": "x"}}, ""},
		{NewExt(ExtPydanticV2, "app", "HumanMessage", map[string]any{"content": "x"}, ""), ""}, {(*Ext)(nil), ""}, {nil, ""}, {"x", ""},
	} {
		if m, ok := MessageFrom(tt.v); ok != (tt.role != "") || (ok && m.Role != tt.role) {
			t.Errorf("%v: %+v, %v", tt.v, m, ok)
		}
	}
}
