package message_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/saver/serde"
)

// FuzzStored: any bytes are messages, or an error that says why not. What is read is written
// in a form that reads as the same, and then stays as it is.
func FuzzStored(f *testing.F) {
	for _, list := range [][]storedMessage{python().Plain, python().Other, python().Chunks} {
		for _, s := range list {
			f.Add(s.Data)
		}
	}
	f.Add(python().List)
	f.Fuzz(func(t *testing.T, data []byte) {
		codec := serde.Default().WithDecodeLimit(1 << 24)
		typed := serde.Typed{Kind: serde.KindMsgpack, Data: data}
		var list message.List
		if err := codec.DecodeInto(typed, &list); err == nil {
			again(t, codec, list)
		}
		var c message.Chunk
		if err := codec.DecodeInto(typed, &c); err == nil {
			nothing := c.Type == "" // nil is the zero value, which is no message to write
			if _, err := codec.Encode(c); err != nil && !(nothing && errors.Is(err, message.ErrNotMessage)) && !errors.Is(err, serde.ErrDecodeLimit) && !errors.Is(err, serde.ErrDepth) {
				t.Errorf("chunk %s: %v", show(c), err)
			}
			_, _ = c.Add(c)
			_, _ = c.Whole()
		}
	})
}

// again writes messages, reads them, and writes them again.
func again(t *testing.T, codec *serde.Codec, list message.List) {
	once, err := codec.Encode(list)
	if err != nil {
		if !errors.Is(err, serde.ErrDecodeLimit) && !errors.Is(err, serde.ErrDepth) && !errors.Is(err, serde.ErrIntRange) {
			t.Errorf("%s: %v", show(list), err)
		}
		return
	}
	var back message.List
	if err := codec.DecodeInto(once, &back); err != nil {
		t.Fatalf("%s: %v", show(list), err)
	}
	twice, err := codec.Encode(back)
	if err != nil || !bytes.Equal(once.Data, twice.Data) {
		t.Errorf("%s:\n once %q\ntwice %q %v", show(list), once.Data, twice.Data, err)
	}
	for i := range list {
		if show(list[i]) != show(back[i]) {
			t.Errorf("got %s\nwant %s", show(back[i]), show(list[i]))
		}
	}
	_, _ = message.MergeRuns(list, "\n")
	_, _ = message.Trim(list, message.TrimOptions{MaxTokens: 1, AllowPartial: true, Count: size})
	_ = message.Filter(list, message.FilterOptions{ExcludeToolCallIDs: []string{"c1"}})
}

// FuzzJS: any text is messages of JavaScript, written with the same meaning, or an error.
func FuzzJS(f *testing.F) {
	for _, j := range javascript().Messages {
		f.Add([]byte(j.Text))
	}
	f.Add([]byte(javascript().List))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := message.DecodeJS(data)
		if err != nil {
			return
		}
		text, err := message.EncodeJS(list)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if !json.Valid(text) && !strings.Contains(string(text), "N") && !strings.Contains(string(text), "Infinity") { // which are taken over
			t.Errorf("%s: wrote %s", data, text)
		}
		back, err := message.DecodeJS(text)
		if err != nil || show(back) != show(list) {
			t.Errorf("%s:\n got %s %v\nwant %s", text, show(back), err, show(list))
		}
	})
}

// FuzzArguments: the arguments of a tool call are read, or kept as a text.
func FuzzArguments(f *testing.F) {
	for _, c := range recorded().JSON {
		f.Add(c.Args, 3)
	}
	f.Fuzz(func(t *testing.T, args string, cut int) {
		zero := 0
		part := func(args string) message.Chunk {
			return message.Chunk{Message: message.AI(""), ToolCallChunks: []message.ToolCallChunk{{Args: args, Index: &zero}}}
		}
		cut = max(0, min(cut, len(args)))
		sum, err := part(args[:cut]).Add(part(args[cut:]))
		if err != nil {
			t.Fatal(err)
		}
		whole, err := sum.Whole()
		if err != nil || len(whole.ToolCalls)+len(whole.InvalidToolCalls) != 1 || len(whole.InvalidToolCalls) == 1 && whole.InvalidToolCalls[0].Args != args {
			t.Errorf("%q: %s %v", args, show(whole), err)
		}
		var v map[string]any
		if json.Unmarshal([]byte(args), &v) == nil && v != nil && len(whole.ToolCalls) == 0 && !bytes.ContainsAny([]byte(args), "0123456789") && strings.Count(args, "[")+strings.Count(args, "{") < 500 {
			t.Errorf("%q is an object, and not a tool call", args)
		}
	})
}

// TestHostileArguments: a text whose repair takes the square of its length, and one that nests
// deep, are invalid tool calls, soon.
func TestHostileArguments(t *testing.T) {
	for _, c := range []struct {
		args  string
		valid int
	}{
		{`{"a":[` + strings.Repeat("1,", 50_000) + `{x`, 1},
		{`{"a":[` + strings.Repeat("1,", 50_000) + `x{`, 0},
		{strings.Repeat(`{"a":`, 513), 0},
		{strings.Repeat(`[`, 25_000), 0},
		{`{"` + strings.Repeat("a", 250_000), 1},
		{`{"a":1` + strings.Repeat(" ", 250_000) + "x", 1},
		{`{"a":` + strings.Repeat(`"b""c"`, 25_000), 1},
		{`{"a": 123456789012345678901234567890`, 0},
	} {
		m, err := message.Chunk{Message: message.AI(""), ToolCallChunks: []message.ToolCallChunk{{Args: c.args}}}.Whole()
		if err != nil || len(m.ToolCalls) != c.valid || len(m.InvalidToolCalls) != 1-c.valid {
			t.Errorf("%.20s…: %d valid, %d invalid, %v", c.args, len(m.ToolCalls), len(m.InvalidToolCalls), err)
		}
	}
}
