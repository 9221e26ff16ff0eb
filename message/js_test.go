package message_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/saver/serde"
)

type jsMessage struct {
	Text string
	What struct {
		Type  message.Type
		Text  string
		ID    string
		Name  string
		Tools []string
		Usage int64
	}
}

var javascript = sync(func() (r struct {
	Messages, Chunks []jsMessage
	List             string
}) {
	read("testdata/js.json", &r)
	return r
})

// is reports whether m is what JavaScript says it is.
func (j jsMessage) is(m message.Message) bool {
	var tools []string
	for _, c := range m.ToolCalls {
		tools = append(tools, c.Name)
	}
	var usage int64
	if m.Usage != nil {
		usage = m.Usage.TotalTokens
	}
	w := j.What
	return m.Type == w.Type && m.Text() == w.Text && m.ID == w.ID && m.Name == w.Name && usage == w.Usage && slices.Equal(tools, w.Tools)
}

// TestJavaScriptBytes: messages that JavaScript stored are what they were there, whichever way
// they are read, and are written with the same bytes.
func TestJavaScriptBytes(t *testing.T) {
	for _, j := range javascript().Messages {
		list, err := message.DecodeJS([]byte(j.Text))
		if err != nil || len(list) != 1 || !j.is(list[0]) {
			t.Errorf("%s: %s %v", j.Text, show(list), err)
			continue
		}
		if got, err := message.EncodeJS(list); err != nil || string(got) != "["+j.Text+"]" {
			t.Errorf("written\n %s %v\nwant\n %s", got, err, j.Text)
		}
		var plain message.Message
		if err := serde.Default().DecodeInto(serde.Typed{Kind: serde.KindJSON, Data: []byte(j.Text)}, &plain); err != nil || !message.Equal(plain, list[0]) {
			t.Errorf("%s: read from a checkpoint: %s %v", j.Text, show(plain), err)
		}
		// and what Go writes instead, Go reads
		again, err := message.EncodeJS([]message.Message{fresh(list[0])})
		if err != nil {
			t.Fatal(err)
		}
		switch list[0].Content { // the simplest are what JavaScript makes of the same fields
		case "hi", "be nice", "hello":
			if string(again) != "["+j.Text+"]" {
				t.Errorf("made %s, want %s", again, j.Text)
			}
		}
		if back, err := message.DecodeJS(again); err != nil || !message.Equal(back[0], list[0]) {
			t.Errorf("%s: made %s", j.Text, again)
		}
	}
	list, err := message.DecodeJS([]byte(javascript().List))
	if err != nil || len(list) != len(javascript().Messages) {
		t.Fatal(len(list), err)
	}
	if got, err := message.EncodeJS(list); err != nil || string(got) != javascript().List {
		t.Errorf("list: %s %v", got, err)
	}
	for _, j := range javascript().Chunks {
		list, err := message.DecodeJS([]byte(j.Text))
		if err != nil || !j.is(list[0]) {
			t.Errorf("%s: %s %v", j.Text, show(list), err)
		}
	}
	t.Logf("messages of JavaScript: %d, 0 different", len(list))
}

// TestChangedJavaScript: what has changed since is written, and nothing else differs, also if a
// map was changed in place.
func TestChangedJavaScript(t *testing.T) {
	const text = `{"lc":1,"type":"constructor","id":["langchain_core","messages","AIMessage"],"kwargs":{"zz":1.50,"content":"hi","tool_calls":[{"id":"c","name":"f","args":{"b":1,"a":2}}],"usage_metadata":{"lc":2,"type":"undefined"},"id":null}}`
	for _, c := range []struct {
		change func(*message.Message)
		from   string
		to     string
	}{
		{func(*message.Message) {}, "", ""},
		{func(m *message.Message) { m.Content = "ho" }, `"hi"`, `"ho"`},
		{func(m *message.Message) { m.ID = "7" }, `"id":null}}`, `"id":"7"}}`},
		{func(m *message.Message) { m.Name = "n" }, `"id":null}}`, `"id":null,"name":"n"}}`},
		{func(m *message.Message) { m.ToolCalls[0].Args["a"] = int64(3) }, `{"b":1,"a":2}`, `{"a":3,"b":1}`},
		{func(m *message.Message) { m.Extra = nil }, `"zz":1.50,`, ``},
		{func(m *message.Message) { m.Usage = &message.Usage{TotalTokens: 1} }, `{"lc":2,"type":"undefined"}`, `{"input_tokens":0,"output_tokens":0,"total_tokens":1}`},
	} {
		list, err := message.DecodeJS([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c.change(&list[0])
		got, err := message.EncodeJS(list)
		want := "[" + strings.Replace(text, c.from, c.to, 1) + "]"
		if c.from == `{"b":1,"a":2}` { // the call was read with its keys in another order
			want = "[" + strings.Replace(text, `{"id":"c","name":"f","args":{"b":1,"a":2}}`, `{"args":{"a":3,"b":1},"id":"c","name":"f"}`, 1) + "]"
		}
		if err != nil || string(got) != want {
			t.Errorf("got  %s %v\nwant %s", got, err, want)
		}
	}
}

func TestDecodeJSRefuses(t *testing.T) {
	deep := strings.Repeat(`[`, 600) + strings.Repeat(`]`, 600)
	for text, want := range map[string]error{
		``: serde.ErrMalformed, `{`: serde.ErrMalformed, `[1]`: message.ErrNotMessage, `1`: message.ErrNotMessage, `{"lc":1}`: message.ErrNotMessage,
		`{"lc":1,"type":"constructor","id":[],"kwargs":{}}`:                  message.ErrNotMessage,
		`{"lc":1,"type":"constructor","id":["Prompt"],"kwargs":{}}`:          message.ErrNotMessage,
		`{"lc":1,"type":"constructor","id":["HumanMessage"],"kwargs":[]}`:    message.ErrNotMessage,
		`{"lc":1,"type":"constructor","id":["HumanMessage"]}`:                message.ErrNotMessage,
		`{"lc":1,"type":"not_implemented","id":["HumanMessage"],"kwargs":1}`: message.ErrNotMessage,
		deep: serde.ErrDepth,
	} {
		if _, err := message.DecodeJS([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%.80s: %v, want %v", text, err, want)
		}
	}
}
