package agent

import (
	"testing"
	"time"

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
		"a minute": {Retry{Delay: 40 * s}, [3]time.Duration{40 * s, 60 * s, 60 * s}},
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
