package agent

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
)

// TestRetryDelay: delays grow by a factor up to a bound, and chance adds or takes a quarter at most.
func TestRetryDelay(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		o    Retry
		want [3]time.Duration
	}{
		"default":  {Retry{}, [3]time.Duration{s, 2 * s, 4 * s}},
		"constant": {Retry{Delay: 3 * s, Factor: 1}, [3]time.Duration{3 * s, 3 * s, 3 * s}},
		"bounded":  {Retry{Factor: 10, MaxDelay: 2 * s}, [3]time.Duration{s, 2 * s, 2 * s}},
		"none":     {Retry{Delay: -1}, [3]time.Duration{}},
	} {
		exact := c.o
		exact.Exact = true
		for n, want := range c.want {
			if d := exact.delay(n, nil); d != want {
				t.Errorf("%s: %v before try %d, want %v", name, d, n+2, want)
			}
			seen := map[time.Duration]bool{}
			for range 100 {
				d := c.o.delay(n, nil)
				if seen[d] = true; d < want*3/4 || d > want*5/4 {
					t.Errorf("%s: %v by chance, want %v", name, d, want)
				}
			}
			if (len(seen) > 1) != (want > 0) {
				t.Errorf("%s: %d delays by chance", name, len(seen))
			}
		}
	}
}

// TestWhole: a cut before an AI message, or where nobody answers a call, stays; one among answers
// goes before the call, and behind the answers if the call is not there.
func TestWhole(t *testing.T) {
	ai := message.AI("", message.ToolCall{Name: "t", ID: "1"}, message.ToolCall{Name: "t", ID: "2"})
	answer := func(id string) message.Message { return message.ToolResult(message.ToolCall{Name: "t", ID: id}, "x") }
	list := []message.Message{message.Human("a"), message.Human("b"), ai, answer("1"), answer("2"), message.Human("c")}
	for cut, want := range []int{0, 1, 2, 2, 2, 5} {
		if got := whole(list, cut); got != want {
			t.Errorf("cut at %d: %d, want %d", cut, got, want)
		}
	}
	orphan := []message.Message{message.Human("a"), answer("1"), answer("2"), message.Human("b")}
	if got := whole(orphan, 1); got != 3 {
		t.Errorf("answers without a call: %d", got)
	}
}

// sized are messages of a person, of so many characters.
func sized(sizes ...int) (list []message.Message) {
	for _, n := range sizes {
		list = append(list, message.Human(strings.Repeat("x", n)))
	}
	return list
}

// characters counts the characters of a conversation as its tokens.
func characters(list []message.Message) (n int) {
	for _, m := range list {
		n += len(m.Text())
	}
	return n
}

// TestDue: one trigger must be met, with all that it names.
func TestDue(t *testing.T) {
	m := model.NewScripted().WithProfile(model.Profile{Provider: "mock"})
	reported := func(tokens int64) []message.Message {
		ai := message.AI("")
		ai.Usage = &message.Usage{TotalTokens: tokens}
		ai.ResponseMetadata = map[string]any{"model_provider": "mock"}
		return []message.Message{message.Human(""), ai}
	}
	of := func(n, tokens int) []message.Message { return sized(append(make([]int, n-1), tokens)...) }
	either := []Trigger{{Messages: 10}, {Tokens: 500}}
	both := []Trigger{{Messages: 5, Tokens: 1000}}
	pairs := []Trigger{{Messages: 3, Tokens: 5000}, {Messages: 6, Tokens: 3000}}
	mixed := []Trigger{{Messages: 10, Tokens: 4000}, {Messages: 50}}
	three := []Trigger{{Messages: 5, Tokens: 100, Fraction: 0.8}}
	for name, c := range map[string]struct {
		triggers []Trigger
		list     []message.Message
		want     bool
	}{
		"either, none":             {either, of(5, 100), false},
		"either, messages":         {either, of(10, 100), true},
		"either, tokens":           {either, of(5, 600), true},
		"both, tokens":             {both, of(3, 1500), false},
		"both, messages":           {both, of(6, 500), false},
		"both":                     {both, of(6, 1500), true},
		"pairs, first":             {pairs, of(4, 5500), true},
		"pairs, second":            {pairs, of(7, 3500), true},
		"pairs, half of each":      {pairs, of(4, 4500), false},
		"mixed, pair":              {mixed, of(12, 4500), true},
		"mixed, messages":          {mixed, of(55, 1000), true},
		"mixed, none":              {mixed, of(8, 1000), false},
		"three":                    {three, of(5, 800), true},
		"three, not the fraction":  {three, of(5, 500), false},
		"three, not the messages":  {three, of(4, 800), false},
		"fraction and tokens":      {[]Trigger{{Tokens: 300, Fraction: 0.5}}, of(1, 500), true},
		"tokens, not the fraction": {[]Trigger{{Tokens: 300, Fraction: 0.5}}, of(1, 400), false},
		"fraction, not the tokens": {[]Trigger{{Tokens: 600, Fraction: 0.5}}, of(1, 500), false},
		"reported, and messages":   {[]Trigger{{Messages: 2, Tokens: 10_000}}, reported(10_001), true},
		"reported, too few":        {[]Trigger{{Messages: 2, Tokens: 10_000}}, reported(100), false},
	} {
		o := Summary{Model: m, Triggers: c.triggers, Window: 1000, Count: characters}
		if got := o.due(c.list); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestCut: as much of the end is kept as fits, calls and their answers together; nothing is cut if
// all fits.
func TestCut(t *testing.T) {
	list := sized(300, 200, 50, 180, 160)
	list[1].Type, list[1].ToolCalls = message.TypeAI, []message.ToolCall{{Name: "t", ID: "1"}}
	list[2].Type, list[2].ToolCallID = message.TypeTool, "1"
	for name, c := range map[string]struct {
		keep Trigger
		list []message.Message
		want int
	}{
		"among a call and its answer": {Trigger{Fraction: 0.5}, list, 1},
		"behind them":                 {Trigger{Tokens: 350}, list, 3},
		"one that is too large":       {Trigger{Tokens: 100}, sized(200), 0},
		"no messages":                 {Trigger{Tokens: 100}, nil, 0},
		"all fit":                     {Trigger{Tokens: 100}, sized(10, 10, 10), 0},
		"as many as there are":        {Trigger{Messages: 5}, sized(1, 1, 1, 1, 1), 0},
		"more than there are":         {Trigger{Messages: 10}, sized(1, 1, 1, 1, 1), 0},
		"less than there are":         {Trigger{Messages: 2}, sized(1, 1, 1, 1, 1), 3},
	} {
		o := Summary{Keep: c.keep, Window: 1000, Count: characters, count: characters}
		if got := o.cut(c.list); got != c.want {
			t.Errorf("%s: cut at %d, want %d", name, got, c.want)
		}
	}
}

// TestCutUnscaled: what is kept is counted without the quarter that a provider's numbers may add.
func TestCutUnscaled(t *testing.T) {
	list := sized(400, 400, 400)
	list[1].Type, list[1].Usage = message.TypeAI, &message.Usage{TotalTokens: 10_000}
	list[1].ResponseMetadata = map[string]any{"model_provider": "mock"}
	end := message.CountApproximately(list[1:])
	if scaled(list[1:]) <= end {
		t.Fatal("the provider's number adds nothing")
	}
	s := Summarize(Summary{Model: model.NewScripted(model.Text("so")), Triggers: []Trigger{{Tokens: 1}}, Keep: Trigger{Tokens: end}})
	out, err := s.BeforeModel(context.Background(), map[string]any{KeyMessages: list})
	if err != nil {
		t.Fatal(err)
	}
	if kept := out.(map[string]any)[KeyMessages].([]message.Message)[2:]; len(kept) != 2 {
		t.Errorf("%d messages are kept", len(kept))
	}
}

// TestScaledByOthers: what another program has stored as the provider of a message may be anything.
func TestScaledByOthers(t *testing.T) {
	for name, c := range map[string]struct {
		first, second any
		more          bool
	}{
		"the same": {"mock", "mock", true}, "another": {"mock", "other", false}, "one does not say": {"mock", nil, false},
		"the first does not say": {nil, "mock", true}, "lists": {[]any{"mock"}, []any{"mock"}, false}, "a list behind a name": {"mock", []any{"mock"}, false},
	} {
		list := sized(400, 400, 400)
		for i, provider := range []any{c.first, c.second} {
			list[i].Type, list[i].Usage = message.TypeAI, &message.Usage{TotalTokens: 10_000}
			list[i].ResponseMetadata = map[string]any{"model_provider": provider}
		}
		if plain := message.CountApproximately(list); (scaled(list) > plain) != c.more {
			t.Errorf("%s: %d, without the provider %d", name, scaled(list), plain)
		}
	}
}

// TestNoticeBlocks: the notice of an edit is like the blocks behind it, and announces no answer if
// there is none.
func TestNoticeBlocks(t *testing.T) {
	for want, blocks := range map[any][]any{"N\n\nTool response:": {"a", "b"}, "N": {}, "mixed": {"a", message.TextBlock("b")}} {
		m := message.Message{Type: message.TypeTool, ToolCallID: "1", Blocks: blocks}
		first := []any{want}
		switch want {
		case "N":
			first[0] = message.TextBlock("N")
		case "mixed":
			first[0] = message.TextBlock("N\n\nTool response:")
		}
		got, err := notice(m, "1", "N")
		if err != nil || !reflect.DeepEqual(got.(message.Message).Blocks, slices.Concat(first, blocks)) {
			t.Errorf("%v: %v, %v", blocks, got, err)
		}
	}
}

// TestLastCalls: the newest AI message counts, with the tool messages behind it; there may be none.
func TestLastCalls(t *testing.T) {
	call := message.ToolCall{Name: "t", ID: "1"}
	result := message.ToolResult(call, "x")
	human, words, asks := message.Human("a"), message.AI("b"), message.AI("c", call)
	for name, c := range map[string]struct {
		list    []message.Message
		want    string // the text of the AI message
		answers int
	}{
		"answered":  {[]message.Message{human, asks, result}, "c", 1},
		"two":       {[]message.Message{human, asks, result, human, words}, "b", 0},
		"no call":   {[]message.Message{human, words}, "b", 0},
		"none":      {[]message.Message{human, message.System("s")}, "", 0},
		"only ours": {[]message.Message{human, human}, "", 0},
		"empty":     {nil, "", 0},
	} {
		asked, answers, err := lastCalls(map[string]any{KeyMessages: message.List(c.list)})
		text := ""
		if asked != nil {
			text = asked.Text()
		}
		if err != nil || text != c.want || len(answers) != c.answers || (asked == nil) != (c.want == "") {
			t.Errorf("%s: %q, %d answers, %v", name, text, len(answers), err)
		}
	}
}
