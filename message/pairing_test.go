package message_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/message"
)

// conversation makes messages of words: "h" is a person, "s" a system message, "a:1,2" an AI message
// that calls tools with these ids, "a!9" one with an invalid call, "t1" an answer to call 1, and "t1=x"
// one with a text. The text of each other message is its word.
func conversation(words string) []message.Message {
	var out []message.Message
	for _, w := range strings.Fields(words) {
		switch {
		case w[0] == 't':
			id, text, _ := strings.Cut(w[1:], "=")
			out = append(out, message.ToolResult(message.ToolCall{Name: "f", ID: id}, text))
		case strings.HasPrefix(w, "a:"):
			m := message.AI("")
			for _, id := range strings.Split(w[2:], ",") {
				m.ToolCalls = append(m.ToolCalls, message.ToolCall{Name: "f", ID: id})
			}
			out = append(out, m)
		case strings.HasPrefix(w, "a!"):
			out = append(out, message.Message{Type: message.TypeAI, InvalidToolCalls: []message.InvalidToolCall{{Name: "f", Args: "{", ID: w[2:]}}})
		case w[0] == 'a':
			out = append(out, message.AI(w))
		case w[0] == 's':
			out = append(out, message.System(w))
		default:
			out = append(out, message.Human(w))
		}
	}
	return out
}

// words is the reverse of conversation. An answer that Repair made is "t1?".
func words(list []message.Message) string {
	var out []string
	for _, m := range list {
		w := m.Text()
		var ids []string
		for _, c := range m.ToolCalls {
			ids = append(ids, c.ID)
		}
		switch {
		case m.Type == message.TypeTool && m.Status == message.StatusError:
			w = "t" + m.ToolCallID + "?"
		case m.Type == message.TypeTool && w == "":
			w = "t" + m.ToolCallID
		case m.Type == message.TypeTool:
			w = "t" + m.ToolCallID + "=" + w
		case len(ids) > 0:
			w = "a:" + strings.Join(ids, ",")
		case len(m.InvalidToolCalls) > 0:
			w = "a!" + m.InvalidToolCalls[0].ID
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// TestRepair: what providers refuse becomes what they take; what they take stays.
func TestRepair(t *testing.T) {
	for _, c := range []struct{ name, have, want string }{
		{"nothing", "", ""},
		{"legal", "s h a:1,2 t2 t1 a h a:3 t3", "s h a:1,2 t2 t1 a h a:3 t3"},
		{"a call that was not run", "h a:1,2 h", "h a:1,2 t1? t2? h"},
		{"one of two was run", "h a:1,2 t2=x h", "h a:1,2 t1? t2=x h"},
		{"calls at the end", "h a:1", "h a:1 t1?"},
		{"two turns without answers", "h a:1 h a:2 h", "h a:1 t1? h a:2 t2? h"},
		{"an answer behind a person's words", "h a:1 h t1=x a", "h a:1 t1=x h a"},
		{"an answer behind a system message", "h a:1 s t1", "h a:1 t1 s"},
		{"words between two answers", "h a:1,2 t1 h t2", "h a:1,2 t1 t2 h"},
		{"two answers: the last counts", "h a:1 t1=x t1=y a", "h a:1 t1=y a"},
		{"a late second answer", "h a:1 t1=x a h t1=y", "h a:1 t1=y a h"},
		{"no call", "t1 h t2 a t3", "h a"},
		{"an answer before its call", "h t1 a:1", "h a:1 t1?"},
		{"an invalid call", "h a!1 h", "h a!1 t1? h"},
		{"an id again", "h a:1 t1=x h a:1 t1=y a", "h a:1 t1=x h a:1-1 t1-1=y a"},
		{"an id again, the first open", "h a:1 h a:1 t1=y a", "h a:1 t1? h a:1-1 t1-1=y a"},
		{"an id twice in a message", "h a:1,1 t1=x t1=y", "h a:1,1-1 t1=x t1-1=y"},
		{"the new id is taken", "h a:1,1 t1=x t1=y a:1-1 t1-1", "h a:1,1-2 t1=x t1-2=y a:1-1 t1-1"},
		{"no ids", "h a:, t=x t=y a", "h a:call-cbf29ce484222325-1,call-cbf29ce484222325-2 tcall-cbf29ce484222325-1=x tcall-cbf29ce484222325-2=y a"},
	} {
		list := conversation(c.have)
		got, notes := message.Repair(list, message.Rules{})
		if words(got) != c.want || words(list) != c.have {
			t.Errorf("%s: %q becomes %q, want %q", c.name, c.have, words(got), c.want)
		}
		if bad := message.Validate(list, message.Rules{}); (bad == nil) != (c.have == c.want) || (bad == nil) != (len(notes) == 0) && c.name != "an invalid call" {
			t.Errorf("%s: %v, notes %q", c.name, bad, notes)
		}
	}
}

// TestRepairTells: an answer that was made says so, and so do the notes.
func TestRepairTells(t *testing.T) {
	got, notes := message.Repair(conversation("h a:1,1 h t1=x t1=y t1=z t7"), message.Rules{})
	want := []string{
		`moved the answer to tool call "1" behind it`, `moved the answer to tool call "1" behind it`, `left out an answer to tool call "1", which has another`,
		`left out an answer to tool call "7", which is not before it`, `tool call "1" of "f" is now "1-1" of "f"`,
	}
	if words(got) != "h a:1,1-1 t1=x t1-1=z h" || !slices.Equal(notes, want) {
		t.Errorf("%s %q", words(got), notes)
	}
	got, notes = message.Repair(conversation("a:1 a!2"), message.Rules{})
	if len(notes) != 1 || notes[0] != `answered tool call "1" of "f", which had no answer` ||
		got[1].Text() != "Tool call f with id 1 has no result. It was not run, or was broken off before it ended." || got[1].Status != message.StatusError || got[1].Name != "f" ||
		got[3].Text() != "Tool call f with id 2 could not be executed - arguments were malformed or truncated." {
		t.Errorf("%q %+v", notes, got)
	}
}

// TestRepairArguments: a call with a number that JSON does not have becomes an invalid one, with its answer, and the
// list stays as it was.
func TestRepairArguments(t *testing.T) {
	for text, x := range map[string]float64{"nan": math.NaN(), "inf": math.Inf(1), "-inf": math.Inf(-1)} {
		list := conversation("h a:1,2 t2=y t1=x h")
		list[1].ToolCalls[0].Args = map[string]any{"deep": []any{map[string]any{"x": x}}}
		got, notes := message.Repair(list, message.Rules{})
		m := got[1]
		if len(m.ToolCalls) != 1 || m.ToolCalls[0].ID != "2" || len(m.InvalidToolCalls) != 1 || m.InvalidToolCalls[0].Args != "{'deep': [{'x': "+text+"}]}" ||
			len(notes) != 1 || words(got[2:]) != "t1=x t2=y h" || len(list[1].ToolCalls) != 2 {
			t.Errorf("%s: %v, %q", text, got, notes)
		}
		var bad *message.PairingError
		if err := message.Validate(list, message.Rules{}); !errors.As(err, &bad) || bad.Error() != `message 1: tool call "1" has arguments that are no JSON` {
			t.Error(err)
		}
	}
}

// TestRepairOpen: calls whose tools are still to run stay open, if nothing is behind them.
func TestRepairOpen(t *testing.T) {
	for have, want := range map[string]string{
		"h a:1,2": "h a:1,2", "h a:1,2 t2": "h a:1,2 t2", "h a:1 h a:2": "h a:1 t1? h a:2", "h a:1 h": "h a:1 t1? h", "h a:1 a:1": "h a:1 t1? a:1-1",
	} {
		got, _ := message.Repair(conversation(have), message.Rules{Open: true})
		if words(got) != want || message.Validate(got, message.Rules{Open: true}) != nil {
			t.Errorf("%q becomes %q, want %q", have, words(got), want)
		}
	}
}

// TestRepairBlocks: calls and answers in Anthropic's blocks count, and get the ids of the fields. Those that
// are blocks alone, which other providers do not see, become calls and tool messages.
func TestRepairBlocks(t *testing.T) {
	use := func(id string) message.Block {
		return message.Block{"type": "tool_use", "id": id, "name": "f", "input": map[string]any{"n": id}}
	}
	result := func(id string) message.Block {
		return message.Block{"type": "tool_result", "tool_use_id": id, "content": "x", "is_error": true}
	}
	asks := message.Message{Type: message.TypeAI, Blocks: []any{message.TextBlock("look"), use("1")}}
	person := message.Message{Type: message.TypeHuman, Blocks: []any{result("1"), message.TextBlock("and")}}
	alone := []message.Message{asks, person}
	got, notes := message.Repair(alone, message.Rules{})
	if len(got) != 3 || !reflect.DeepEqual(got[0].ToolCalls, []message.ToolCall{{Name: "f", ID: "1", Args: map[string]any{"n": "1"}}}) || got[1].ToolCallID != "1" || got[1].Text() != "x" ||
		!reflect.DeepEqual(got[2].Blocks, []any{message.TextBlock("and")}) || len(notes) != 2 || asks.ToolCalls != nil {
		t.Errorf("%+v %q", got, notes)
	}
	for at, bad := range [][]message.Message{alone, {message.AI("", message.ToolCall{Name: "f", ID: "1"}), person}} {
		var wrong *message.PairingError
		if err := message.Validate(bad, message.Rules{}); !errors.As(err, &wrong) || wrong.At != at || wrong.CallID != "1" {
			t.Errorf("%d: %v", at, err)
		}
	}
	streamed := message.Message{Type: message.TypeAI, Blocks: []any{
		message.Block{"type": "tool_use", "id": "1", "name": "f", "input": map[string]any{}, "partial_json": `{"n":1}`},
		message.Block{"type": "tool_use", "id": "2", "name": "f", "input": map[string]any{}, "partial_json": `{"n":`},
	}}
	if got, _ := message.Repair([]message.Message{streamed}, message.Rules{}); len(got) != 3 || !reflect.DeepEqual(got[0].ToolCalls, []message.ToolCall{{Name: "f", ID: "1", Args: map[string]any{"n": int64(1)}}}) ||
		!reflect.DeepEqual(got[0].InvalidToolCalls, []message.InvalidToolCall{{Name: "f", ID: "2", Args: `{"n":`}}) {
		t.Errorf("%+v", got)
	}
	asks.ToolCalls = []message.ToolCall{{Name: "f", ID: "1"}}
	got, _ = message.Repair([]message.Message{asks, person, asks, {Type: message.TypeTool, ToolCallID: "1", Blocks: []any{result("1")}}, asks}, message.Rules{})
	if len(got) != 7 || got[1].ToolCallID != "1" || got[1].Text() != "x" || got[1].Status != message.StatusError || !reflect.DeepEqual(got[2].Blocks, []any{message.TextBlock("and")}) {
		t.Fatalf("%+v", got)
	}
	for at, id := range map[int]string{3: "1-1", 5: "1-2"} {
		if b := got[at].Blocks[1].(message.Block); b["id"] != id || got[at].ToolCalls[0].ID != id || got[at+1].ToolCallID != id {
			t.Errorf("%d: %+v", at, got[at:at+2])
		}
	}
	if b := got[4].Blocks[0].(message.Block); b["tool_use_id"] != "1-1" || asks.Blocks[1].(message.Block)["id"] != "1" {
		t.Errorf("%v, and what was given has %v", b, asks.Blocks)
	}
	nameless := message.AI("", message.ToolCall{ID: "1"})
	nameless.Blocks = []any{message.Block{"type": "tool_use", "id": "1"}}
	got, _ = message.Repair([]message.Message{nameless}, message.Rules{})
	if b := got[0].Blocks[0].(message.Block); got[0].ToolCalls[0].Name != "unknown" || b["name"] != "unknown" || len(got) != 2 {
		t.Errorf("%+v", got)
	}
}

// TestValidate: the error names the message and the call.
func TestValidate(t *testing.T) {
	for words, want := range map[string]string{
		"h a:1 h":       `message 1: tool call "1" has no answer right behind it`,
		"h a:1":         `message 1: tool call "1" has no answer`,
		"h t1":          `message 1: tool call "1" is answered here, and no call right before it waits for that`,
		"h a:1 t1 t1":   `message 3: tool call "1" is answered here, and no call right before it waits for that`,
		"a:1 t1 a:1 t1": `message 2: tool call "1" has the id of another call`,
		"a:":            `message 0: tool call "" has no id`,
	} {
		err := message.Validate(conversation(words), message.Rules{})
		var bad *message.PairingError
		if !errors.As(err, &bad) || bad.Error() != want {
			t.Errorf("%q: %v, want %s", words, err, want)
		}
	}
	if err := message.Validate([]message.Message{message.AI("", message.ToolCall{ID: "1"})}, message.Rules{Open: true}); err == nil || err.Error() != `message 0: tool call "1" has no name` {
		t.Error(err)
	}
}

// TestRepairAny: any conversation becomes a legal one, in which no message but answers is lost, and
// which stays as it is.
func TestRepairAny(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	ids := []string{"", "1", "2", "3", "1-1"}
	for range 5000 {
		var list []message.Message
		rest := ""
		for n := rng.IntN(12); len(list) < n; {
			word := "h"
			switch rng.IntN(8) {
			case 6: // some of its calls are blocks, and some of them blocks alone
				m := conversation("a:" + ids[rng.IntN(len(ids))])[0]
				m.Blocks = []any{message.TextBlock("look")}
				for range rng.IntN(3) {
					m.Blocks = append(m.Blocks, message.Block{"type": "tool_use", "id": ids[rng.IntN(len(ids))], "name": "f", "partial_json": []string{"", "{}", "{"}[rng.IntN(3)], "input": []any{nil, map[string]any{}}[rng.IntN(2)]})
				}
				if rng.IntN(2) == 0 {
					m.ToolCalls = nil
				}
				list, rest = append(list, m), rest+"a"
				continue
			case 7:
				m := message.Message{Type: message.TypeHuman, Blocks: []any{message.TextBlock("and")}}
				for range rng.IntN(3) {
					m.Blocks = append(m.Blocks, message.Block{"type": "tool_result", "tool_use_id": ids[rng.IntN(len(ids))], "content": "x"})
				}
				list, rest = append(list, m), rest+"h"
				continue
			case 0:
				word = "s"
			case 1, 2:
				word = "a:" + ids[rng.IntN(len(ids))]
				for rng.IntN(2) == 0 {
					word += "," + ids[rng.IntN(len(ids))]
				}
			case 3, 4:
				list = append(list, conversation(fmt.Sprint("t", ids[rng.IntN(len(ids))], "=", len(list)))...)
				continue
			}
			m := conversation(word)
			for i := range m[0].ToolCalls {
				if rng.IntN(6) == 0 {
					m[0].ToolCalls[i].Args = map[string]any{"x": []any{math.NaN()}}
				}
			}
			list = append(list, m...)
			rest += word[:1]
		}
		r := message.Rules{Open: rng.IntN(2) == 0}
		got, _ := message.Repair(list, r)
		if err := message.Validate(got, r); err != nil {
			t.Fatalf("%q becomes %q: %v", words(list), words(got), err)
		}
		left := ""
		for _, m := range got {
			var calls []string // the ids of those that each provider sees
			for _, c := range m.ToolCalls {
				calls = append(calls, c.ID)
				if _, err := c.ArgsJSON(); err != nil {
					t.Fatalf("%v becomes %v: %v", list, got, err)
				}
			}
			for _, c := range m.InvalidToolCalls {
				calls = append(calls, c.ID)
			}
			for _, e := range m.Blocks {
				b, _ := e.(map[string]any)
				at := slices.Index(calls, fmt.Sprint(b["id"]))
				if b["type"] == "tool_result" || b["type"] == "tool_use" && at < 0 {
					t.Fatalf("%v becomes %v: a block alone: %v", list, got, b)
				}
				if b["type"] == "tool_use" {
					calls = slices.Delete(calls, at, at+1)
				}
			}
			if m.Type != message.TypeTool {
				left += string(m.Type[:1])
			}
		}
		again, notes := message.Repair(got, r)
		if left != rest || words(again) != words(got) || notes != nil {
			t.Fatalf("%q becomes %q, then %q: %q", words(list), words(got), words(again), notes)
		}
	}
}

// TestRepairStrayResults: a block of a tool message that answers another call, or a call again, is unpaired where blocks are sent
// as they are. It becomes content.
func TestRepairStrayResults(t *testing.T) {
	result := func(id any, text string) message.Block {
		b := message.Block{"type": "tool_result", "content": text}
		if id != nil {
			b["tool_use_id"] = id
		}
		return b
	}
	call := message.ToolCall{Name: "look", ID: "1"}
	for name, blocks := range map[string][]any{
		"other id":      {result("other", "x")},
		"no id":         {result(nil, "x")},
		"two of one id": {result("1", "x"), result("1", "y")},
		"beside a text": {message.TextBlock("so: "), result("1", "x")},
		"nested":        {message.Block{"type": "tool_result", "tool_use_id": "other", "content": []any{result("1", "x")}}},
		"with blocks":   {message.Block{"type": "tool_result", "tool_use_id": "other", "content": []any{message.TextBlock("x")}, "is_error": true}},
	} {
		answer := message.Message{Type: message.TypeTool, ToolCallID: "1", Blocks: blocks}
		list := []message.Message{message.Human("hi"), message.AI("", call), answer}
		var wrong *message.PairingError
		if err := message.Validate(list, message.Rules{}); !errors.As(err, &wrong) || wrong.At != 2 {
			t.Errorf("%s: %v", name, err)
		}
		got, notes := message.Repair(list, message.Rules{})
		if err := message.Validate(got, message.Rules{}); err != nil || len(got) != 3 || len(notes) != 1 || !strings.Contains(got[2].Text(), "x") || got[2].ToolCallID != "1" {
			t.Errorf("%s: %v, %v, %q", name, got, err, notes)
		}
		if name == "with blocks" && got[2].Status != message.StatusError {
			t.Errorf("%s: an error became %q", name, got[2].Status)
		}
		if len(answer.Blocks) != len(blocks) {
			t.Errorf("%s: what was given has changed", name)
		}
	}
	whole := []message.Message{message.AI("", call), {Type: message.TypeTool, ToolCallID: "1", Blocks: []any{result("1", "x")}}}
	if err := message.Validate(whole, message.Rules{}); err != nil {
		t.Error(err)
	}
}

// TestRepairRemovals: a removal that another program has stored is no message for a model.
func TestRepairRemovals(t *testing.T) {
	list := []message.Message{message.Human("hi"), message.Remove("1"), message.AI("a")}
	if err := message.Validate(list, message.Rules{}); err == nil || err.Error() != "message 1 is a removal, which is no message for a model" {
		t.Error(err)
	}
	got, notes := message.Repair(list, message.Rules{})
	if words(got) != "hi a" || !slices.Equal(notes, []string{`left out the removal of message "1"`}) || message.Validate(got, message.Rules{}) != nil {
		t.Errorf("%q, %q", words(got), notes)
	}
}
