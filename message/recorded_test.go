package message_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/saver/serde"
)

// The recordings are made by testdata/record.py and testdata/record.mjs.

type storedMessage struct {
	Class string
	Data  []byte
}

var python = sync(func() (r struct {
	Plain, Other, Chunks []storedMessage
	List, State          []byte
}) {
	read("testdata/python.json", &r)
	return r
})

// outcome is what LangChain answered.
type outcome[T any] struct {
	Out   T
	Error string
}

var recorded = sync(func() (r struct {
	Filter []struct {
		outcome[[]message.Message]
		In   []message.Message
		Opts struct {
			IncludeNames     []string        `json:"include_names"`
			ExcludeNames     []string        `json:"exclude_names"`
			IncludeTypes     []message.Type  `json:"include_types"`
			ExcludeTypes     []message.Type  `json:"exclude_types"`
			IncludeIDs       []string        `json:"include_ids"`
			ExcludeIDs       []string        `json:"exclude_ids"`
			ExcludeToolCalls json.RawMessage `json:"exclude_tool_calls"`
		}
	}
	Trim []struct {
		outcome[[]message.Message]
		In   []message.Message
		Opts struct {
			Strategy      message.Strategy
			MaxTokens     int            `json:"max_tokens"`
			AllowPartial  bool           `json:"allow_partial"`
			IncludeSystem bool           `json:"include_system"`
			StartOn       []message.Type `json:"start_on"`
			EndOn         []message.Type `json:"end_on"`
		}
		Counter, Splitter string
	}
	Runs []struct {
		outcome[[]message.Message]
		In  []message.Message
		Sep string
	}
	Add []struct {
		outcome[[]message.Message]
		Left, Right []given
	}
	Sum []struct {
		In     []message.Chunk
		Sum    outcome[message.Chunk]
		Whole  outcome[message.Message]
		AtOnce *outcome[message.Chunk] `json:"at_once"`
	}
	JSON []struct {
		Args string
		Sum  message.Chunk
	}
	Raw []struct {
		Raw     json.RawMessage
		Chunk   outcome[message.Chunk]
		Message outcome[message.Message]
	}
	Delta, Reset []struct {
		outcome[[]message.Message]
		State  []message.Message
		Writes [][]message.Message
	}
	Notice []struct {
		In, Out message.Message
		Source  string
		Data    map[string]any
	}
	Count []struct {
		In  []message.Message
		Out int
	}
}) {
	read("testdata/random.json.gz", &r)
	return r
})

// given is a message, or something that describes one.
type given struct {
	M *message.Message
	D json.RawMessage
}

func (g given) value() any {
	if g.M != nil {
		return *g.M
	}
	v, err := serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: g.D})
	if err != nil {
		panic(err)
	}
	return v
}

func sync[T any](f func() T) func() T {
	var v *T
	return func() T {
		if v == nil {
			x := f()
			v = &x
		}
		return *v
	}
}

func read(name string, dst any) {
	data, err := os.ReadFile(name)
	if err == nil && strings.HasSuffix(name, ".gz") {
		var r *gzip.Reader
		if r, err = gzip.NewReader(bytes.NewReader(data)); err == nil {
			data, err = io.ReadAll(r)
		}
	}
	if err == nil {
		err = json.Unmarshal(data, dst)
	}
	if err != nil {
		panic(err)
	}
}

// decodeInto reads what LangGraph stored.
func decodeInto(t *testing.T, data []byte, dst any) {
	t.Helper()
	if err := serde.Default().DecodeInto(serde.Typed{Kind: serde.KindMsgpack, Data: data}, dst); err != nil {
		t.Fatal(err)
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	typed, err := serde.Default().Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return typed.Data
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// fresh is m as a program would make it: with its fields, and nothing else.
func fresh(m message.Message) message.Message {
	return message.Message{
		Type: m.Type, ID: m.ID, Name: m.Name, Content: m.Content, Blocks: m.Blocks,
		ToolCalls: m.ToolCalls, InvalidToolCalls: m.InvalidToolCalls, Usage: m.Usage,
		ToolCallID: m.ToolCallID, Artifact: m.Artifact, Status: m.Status, Role: m.Role,
		AdditionalKwargs: m.AdditionalKwargs, ResponseMetadata: m.ResponseMetadata, Extra: m.Extra,
	}
}

// TestPythonBytes: a message that LangGraph stored is written with the same bytes, and, if
// nothing in it is special to Python, so is one that a program made.
func TestPythonBytes(t *testing.T) {
	n := 0
	for _, list := range [][]storedMessage{python().Plain, python().Other} {
		for _, s := range list {
			var m message.Message
			decodeInto(t, s.Data, &m)
			if got := encoded(t, m); !bytes.Equal(got, s.Data) {
				t.Errorf("%s %s:\n got %q\nwant %q", s.Class, show(m), got, s.Data)
			}
			n++
		}
	}
	for _, s := range python().Plain {
		var m message.Message
		decodeInto(t, s.Data, &m)
		if got := encoded(t, fresh(m)); !bytes.Equal(got, s.Data) {
			t.Errorf("made: %s %s:\n got %q\nwant %q", s.Class, show(m), got, s.Data)
		}
	}
	for _, s := range python().Chunks {
		var c message.Chunk
		decodeInto(t, s.Data, &c)
		if got := encoded(t, c); !bytes.Equal(got, s.Data) {
			t.Errorf("%s %s:\n got %q\nwant %q", s.Class, show(c), got, s.Data)
		}
		made := message.Chunk{Message: fresh(c.Message), ToolCallChunks: c.ToolCallChunks, Last: c.Last}
		if got := encoded(t, made); !bytes.Equal(got, s.Data) && !bytes.Contains(s.Data, []byte("\xa4name\xa0")) {
			t.Errorf("made: %s %s:\n got %q\nwant %q", s.Class, show(c), got, s.Data)
		}
		var m message.Message
		decodeInto(t, s.Data, &m)
		if strings.Contains(string(encoded(t, m)), "Chunk") {
			t.Errorf("%s: a chunk read as a message is still a chunk", s.Class)
		}
		n++
	}
	var list message.List
	decodeInto(t, python().List, &list)
	var state struct {
		message.State
		N int `json:"n"`
	}
	decodeInto(t, python().State, &state)
	if got := encoded(t, list); !bytes.Equal(got, python().List) {
		t.Errorf("list: got %q", got)
	}
	if got := encoded(t, map[string]any{"messages": state.Messages, "n": state.N}); !bytes.Equal(got, python().State) || len(state.Messages) != len(python().Plain) {
		t.Errorf("state: got %q", got)
	}
	t.Logf("messages of Python: %d, 0 different", n)
}

// sameList compares lists of messages. An id "*" stands for any.
func sameList(got, want []message.Message) bool {
	return slices.EqualFunc(got, want, func(a, b message.Message) bool {
		if b.ID == "*" && len(a.ID) == 36 {
			a.ID = b.ID
		}
		return message.Equal(a, b)
	})
}

// check compares an answer with LangChain's.
func check(t *testing.T, i int, in any, got []message.Message, err error, want outcome[[]message.Message]) (equal bool) {
	t.Helper()
	switch {
	case (err != nil) != (want.Error != ""):
		t.Errorf("case %d: %s\n error %v, want %q", i, show(in), err, want.Error)
	case err == nil && !sameList(got, want.Out):
		t.Errorf("case %d: %s\n got %s\nwant %s", i, show(in), show(got), show(want.Out))
	default:
		return true
	}
	return false
}

func TestFilter(t *testing.T) {
	for i, c := range recorded().Filter {
		o := message.FilterOptions{
			IncludeNames: c.Opts.IncludeNames, ExcludeNames: c.Opts.ExcludeNames, IncludeIDs: c.Opts.IncludeIDs, ExcludeIDs: c.Opts.ExcludeIDs,
			IncludeTypes: c.Opts.IncludeTypes, ExcludeTypes: c.Opts.ExcludeTypes, ExcludeToolCalls: string(c.Opts.ExcludeToolCalls) == "true",
		}
		_ = json.Unmarshal(c.Opts.ExcludeToolCalls, &o.ExcludeToolCallIDs) // true is no list
		check(t, i, c, message.Filter(c.In, o), nil, c.outcome)
	}
	t.Logf("filters: %d, 0 different", len(recorded().Filter))
}

// size is the counter of the recording.
func size(list []message.Message) (n int) {
	for _, m := range list {
		n += 3
		if m.Blocks == nil {
			n += utf8.RuneCountInString(m.Content)
		}
		for _, b := range m.Blocks {
			switch b := b.(type) {
			case string:
				n += utf8.RuneCountInString(b)
			case map[string]any:
				text, _ := b["text"].(string)
				n += 2 + utf8.RuneCountInString(text)
			}
		}
	}
	return n
}

var word = regexp.MustCompile(`\S+\s*|\s+`)

func TestTrim(t *testing.T) {
	for i, c := range recorded().Trim {
		o := message.TrimOptions{
			MaxTokens: c.Opts.MaxTokens, Strategy: c.Opts.Strategy, AllowPartial: c.Opts.AllowPartial,
			IncludeSystem: c.Opts.IncludeSystem, StartOn: c.Opts.StartOn, EndOn: c.Opts.EndOn,
		}
		if c.Counter == "size" {
			o.Count = size
		}
		if c.Splitter == "words" {
			o.Split = func(s string) []string { return word.FindAllString(s, -1) }
		}
		before := show(c.In)
		got, err := message.Trim(c.In, o)
		check(t, i, c, got, err, c.outcome)
		if after := show(c.In); after != before {
			t.Errorf("case %d changed its input from %s to %s", i, before, after)
		}
	}
	t.Logf("trims: %d, 0 different", len(recorded().Trim))
}

func TestMergeRuns(t *testing.T) {
	for i, c := range recorded().Runs {
		before := show(c.In)
		got, err := message.MergeRuns(c.In, c.Sep)
		check(t, i, c, got, err, c.outcome)
		if after := show(c.In); after != before {
			t.Errorf("case %d changed its input from %s to %s", i, before, after)
		}
	}
	t.Logf("merges of runs: %d, 0 different", len(recorded().Runs))
}

// rawBehindRemoval reports whether right has, behind a removal of all, what LangGraph takes as it is: a
// removal, or two messages of one id.
func rawBehindRemoval(right []message.Message) bool {
	i := len(right) - 1
	seen, raw := map[string]bool{}, false
	for ; i >= 0 && right[i].ID != message.RemoveAllID; i-- {
		raw = raw || right[i].Type == message.TypeRemove || right[i].ID != "" && seen[right[i].ID]
		seen[right[i].ID] = true
	}
	return i >= 0 && raw
}

func TestAdd(t *testing.T) {
	raw := 0
	for i, c := range recorded().Add {
		values := func(side []given) any {
			out := make([]any, len(side))
			for i, g := range side {
				out[i] = g.value()
			}
			return out
		}
		left, err := message.FromList(values(c.Left))
		var right, got []message.Message
		if err == nil {
			right, err = message.FromList(values(c.Right))
		}
		if err == nil && rawBehindRemoval(right) { // see TestAddKeepsIDsApart
			raw++
			continue
		}
		if err == nil {
			got, err = message.Add(left, right)
		}
		check(t, i, []any{show(c.Left), show(c.Right)}, got, err, c.outcome)
	}
	t.Logf("additions: %d, %d different on purpose", len(recorded().Add), raw)
	if raw > 20 {
		t.Errorf("%d additions are not compared", raw)
	}
}

// finite is v with floats that JSON does not have as the maps that the recording has for them.
func finite(v any) any {
	switch x := v.(type) {
	case float64:
		switch {
		case math.IsNaN(x):
			return map[string]any{"float": "nan"}
		case math.IsInf(x, 1):
			return map[string]any{"float": "inf"}
		}
	case map[string]any:
		out := map[string]any{}
		for k, e := range x {
			out[k] = finite(e)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = finite(e)
		}
		return out
	}
	return v
}

func withFinite(m message.Message) message.Message {
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		m.ToolCalls[i].Args, _ = finite(m.ToolCalls[i].Args).(map[string]any)
	}
	if m.Blocks != nil {
		m.Blocks, _ = finite(m.Blocks).([]any)
	}
	return m
}

// sameChunk compares chunks.
func sameChunk(a, b message.Chunk) bool {
	a.Message = withFinite(a.Message)
	return message.Equal(a.Message, b.Message) && a.Last == b.Last &&
		slices.EqualFunc(a.ToolCallChunks, b.ToolCallChunks, func(p, q message.ToolCallChunk) bool {
			same := (p.Index == nil) == (q.Index == nil) && (p.Index == nil || *p.Index == *q.Index)
			return same && p.Name == q.Name && p.ID == q.ID && p.Args == q.Args
		})
}

func TestChunksAddUp(t *testing.T) {
	failed := 0
	for i, c := range recorded().Sum {
		sum, err := c.In[0], error(nil)
		for _, part := range c.In[1:] {
			if sum, err = sum.Add(part); err != nil {
				break
			}
		}
		if (err != nil) != (c.Sum.Error != "") || err == nil && len(c.In) > 1 && !sameChunk(sum, c.Sum.Out) {
			t.Errorf("case %d: %s\n got %s %v\nwant %s %s", i, show(c.In), show(sum), err, show(c.Sum.Out), c.Sum.Error)
			failed++
			continue
		}
		if err == nil {
			if m, err := sum.Whole(); (err != nil) != (c.Whole.Error != "") || err == nil && !message.Equal(withFinite(m), c.Whole.Out) {
				t.Errorf("case %d: whole: %s\n got %s %v\nwant %s %s", i, show(c.In), show(m), err, show(c.Whole.Out), c.Whole.Error)
			}
		}
		if c.AtOnce != nil {
			sum, err := c.In[0].Add(c.In[1:]...)
			if (err != nil) != (c.AtOnce.Error != "") || err == nil && !sameChunk(sum, c.AtOnce.Out) {
				t.Errorf("case %d: at once: %s\n got %s %v\nwant %s %s", i, show(c.In), show(sum), err, show(c.AtOnce.Out), c.AtOnce.Error)
			}
		}
	}
	t.Logf("sums: %d, %d different", len(recorded().Sum), failed)
}

// TestPartialArguments: what the arguments of a tool call are, when the text of them breaks off
// or is broken.
func TestPartialArguments(t *testing.T) {
	for _, c := range recorded().JSON {
		zero := 0
		part := message.Chunk{Message: message.AI(""), ToolCallChunks: []message.ToolCallChunk{{Name: "f", Args: c.Args, ID: "c", Index: &zero}}}
		sum, err := part.Add()
		if err != nil {
			t.Fatal(err)
		}
		if !sameChunk(sum, c.Sum) {
			t.Errorf("%s:\n got %s\nwant %s", c.Args, show(sum), show(c.Sum))
		}
	}
}

// TestDeltaChannel: what a DeltaChannel makes of writes is what LangGraph's reducer makes of them, and
// does not depend on how they are grouped.
func TestDeltaChannel(t *testing.T) {
	cases := slices.Concat(recorded().Delta, recorded().Reset)
	for i, c := range cases {
		one := message.DeltaChannel(0, nil).Named("messages")
		each := one.Copy()
		all := []any{message.List(c.State)}
		for _, w := range c.Writes {
			all = append(all, message.List(w))
		}
		// a state of one's own may hold an id twice, which writes cannot make
		ids := map[string]bool{}
		twice := slices.ContainsFunc(c.State, func(m message.Message) bool {
			seen := ids[m.ID]
			ids[m.ID] = m.ID != ""
			return seen
		})
		if twice {
			continue
		}
		_, err := one.Update(all)
		got, _ := one.Get()
		list, _ := got.(message.List)
		check(t, i, c, list, err, c.outcome)
		for _, w := range all {
			if _, err := each.Update([]any{w}); err != nil {
				t.Error(err)
			}
		}
		if again, _ := each.Get(); !slices.EqualFunc(again.(message.List), list, message.Equal) {
			t.Errorf("case %d: one by one: %s, at once %s", i, show(again), show(list))
		}
	}
	t.Logf("deltas: %d, 0 different", len(cases))
}

// TestCallsOfOpenAI: tool calls in AdditionalKwargs, where providers once put them, are read if there
// are no others.
func TestCallsOfOpenAI(t *testing.T) {
	for _, c := range recorded().Raw {
		v, err := serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: c.Raw})
		if err != nil {
			t.Fatal(err)
		}
		kwargs := map[string]any{"tool_calls": v}
		part := message.Chunk{Message: message.AI("")}
		part.AdditionalKwargs = kwargs
		sum, err := part.Add()
		if (err != nil) != (c.Chunk.Error != "") || err == nil && !sameChunk(sum, c.Chunk.Out) {
			t.Errorf("chunk %s:\n got %s %v\nwant %s %s", c.Raw, show(sum), err, show(c.Chunk.Out), c.Chunk.Error)
		}
		m, err := message.From(map[string]any{"role": "assistant", "content": "", "additional_kwargs": kwargs})
		if (err != nil) != (c.Message.Error != "") || err == nil && !message.Equal(m, c.Message.Out) {
			t.Errorf("message %s:\n got %s %v\nwant %s %s", c.Raw, show(m), err, show(c.Message.Out), c.Message.Error)
		}
	}
}

func TestCountApproximately(t *testing.T) {
	for i, c := range recorded().Count {
		if got := message.CountApproximately(c.In); got != c.Out {
			t.Errorf("case %d: %s\n got %d, want %d", i, show(c.In), got, c.Out)
		}
	}
	t.Logf("counts: %d, 0 different", len(recorded().Count))
}

// TestNotice: a message is marked as LangChain marks it, and the one that was given stays as it is.
func TestNotice(t *testing.T) {
	for i, c := range recorded().Notice {
		before := show(c.In)
		if got := c.In.Notice(c.Source, c.Data); !message.Equal(got, c.Out) {
			t.Errorf("case %d: got %s, want %s", i, show(got), show(c.Out))
		}
		if show(c.In) != before {
			t.Errorf("case %d: the message became %s", i, show(c.In))
		}
	}
}
