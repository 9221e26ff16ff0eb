package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// Limit bounds calls; 0 is no bound. One of the two is needed.
type Limit struct {
	Thread int // all calls of a thread
	Run    int // the calls of one run; a run that resumes counts anew
	// Exceeded says what happens when there are more.
	Exceeded Exceeded
}

// Exceeded says what happens when a limit is exceeded.
type Exceeded string

// What can happen. The zero value is End for calls of the model, and Continue for those of tools.
const (
	Continue Exceeded = "continue" // the calls that are too many are answered with an error
	End      Exceeded = "end"      // the agent ends with a message that says so
	Stop     Exceeded = "error"    // the run fails with a *LimitError
)

func (l Limit) check(what string, allowed ...Exceeded) error {
	switch {
	case l.Thread < 0 || l.Run < 0 || l.Thread == 0 && l.Run == 0:
		return fmt.Errorf("%w: %s: no limit", ErrOptions, what)
	case l.Exceeded != "" && !slices.Contains(allowed, l.Exceeded):
		return fmt.Errorf("%w: %s: %q is not among %q", ErrOptions, what, l.Exceeded, allowed)
	}
	return nil
}

// LimitError: an agent made more calls than it may.
type LimitError struct {
	Thread, Run int // the calls
	Limit       Limit
	Tool        string // whose calls; "" if it is about all tools
	text        string
}

// Error says which limit was exceeded.
func (e *LimitError) Error() string { return e.text }

// count reads a number in a state.
func count(v any) int {
	n, err := channel.Convert[int](v)
	if err != nil {
		return 0
	}
	return n
}

// LimitModelCalls is a Middleware that bounds the calls of the model: LangChain's
// ModelCallLimitMiddleware. It looks before each call; End ends the agent with an AI message, and
// Stop fails the run.
func LimitModelCalls(l Limit) Middleware {
	const inThread, inRun = "thread_model_call_count", "run_model_call_count"
	return Middleware{
		Name: "ModelCallLimitMiddleware",
		State: []graph.Field{
			graph.Key(inThread, channel.LastValue[int]()),
			graph.Key(inRun, channel.UntrackedValue[int](channel.Guarded)),
		},
		Jumps: []Jump{JumpEnd},
		BeforeModel: func(_ context.Context, state map[string]any) (any, error) {
			thread, run := count(state[inThread]), count(state[inRun])
			var over []string
			if l.Thread > 0 && thread >= l.Thread {
				over = append(over, fmt.Sprintf("thread limit (%d/%d)", thread, l.Thread))
			}
			if l.Run > 0 && run >= l.Run {
				over = append(over, fmt.Sprintf("run limit (%d/%d)", run, l.Run))
			}
			if over == nil {
				return nil, nil
			}
			text := "Model call limits exceeded: " + strings.Join(over, ", ")
			if l.Exceeded == Stop {
				return nil, &LimitError{thread, run, l, "", text}
			}
			return pregel.Pairs{{Key: KeyJump, Value: string(JumpEnd)}, {Key: KeyMessages, Value: []message.Message{message.AI(text)}}}, nil
		},
		AfterModel: func(_ context.Context, state map[string]any) (any, error) {
			return pregel.Pairs{{Key: inThread, Value: count(state[inThread]) + 1}, {Key: inRun, Value: count(state[inRun]) + 1}}, nil
		},
		err: l.check("limit of model calls", End, Stop),
	}
}

// LimitToolCalls is a Middleware that bounds the calls of a tool, or of all tools if the name is
// empty: LangChain's ToolCallLimitMiddleware. Calls count when the model asks for them. An agent
// can have one for each tool. One that has an answer already counts, and gets no other.
func LimitToolCalls(name string, l Limit) Middleware {
	const inThread, inRun = "thread_tool_call_count", "run_tool_call_count"
	m := Middleware{
		Name: "ToolCallLimitMiddleware",
		State: []graph.Field{
			graph.Key(inThread, channel.LastValue[map[string]any]()),
			graph.Key(inRun, channel.UntrackedValue[map[string]any](channel.Guarded)),
		},
		Jumps: []Jump{JumpEnd},
		err:   l.check("limit of tool calls", Continue, End, Stop),
	}
	key, whose, told := "__all__", "Tool", "Tool call limit exceeded. Do not make additional tool calls."
	if name != "" {
		m.Name += "[" + name + "]"
		m.about = []string{name}
		key, whose, told = name, "'"+name+"' tool", "Tool call limit exceeded. Do not call '"+name+"' again."
	}
	if m.err == nil && l.Thread > 0 && l.Run > l.Thread {
		m.err = fmt.Errorf("%w: limit of tool calls: %d in a run, and %d in a thread", ErrOptions, l.Run, l.Thread)
	}
	m.AfterModel = func(_ context.Context, state map[string]any) (any, error) {
		asked, answers, err := lastCalls(state)
		if err != nil || asked == nil || len(asked.ToolCalls) == 0 {
			return nil, err
		}
		threads, runs := counts(state[inThread]), counts(state[inRun])
		before := count(threads[key])
		thread, run := before, count(runs[key])
		var blocked []message.ToolCall
		counted := false
		for _, c := range asked.ToolCalls {
			if name != "" && c.Name != name {
				continue
			}
			counted = true
			switch {
			case l.Thread > 0 && thread >= l.Thread || l.Run > 0 && run >= l.Run:
				blocked = append(blocked, c)
			default:
				thread, run = thread+1, run+1
			}
		}
		if !counted {
			return nil, nil
		}
		run += len(blocked)
		threads[key], runs[key] = thread, run
		total, open := thread+len(blocked), waiting(asked, answers)
		answered := func(c message.ToolCall) bool {
			return !slices.ContainsFunc(open, func(o message.ToolCall) bool { return o.ID == c.ID })
		}
		if blocked = slices.DeleteFunc(blocked, answered); len(blocked) == 0 {
			return pregel.Pairs{{Key: inThread, Value: threads}, {Key: inRun, Value: runs}}, nil
		}
		var over []string
		if l.Thread > 0 && total > l.Thread {
			over = append(over, fmt.Sprintf("thread limit exceeded (%d/%d calls)", total, l.Thread))
		}
		if l.Run > 0 && run > l.Run {
			over = append(over, fmt.Sprintf("run limit exceeded (%d/%d calls)", run, l.Run))
		}
		text := whose + " call limit reached: " + strings.Join(over, " and ") + "."
		if l.Exceeded == Stop {
			return nil, &LimitError{total, run, l, name, text}
		}
		var messages []message.Message
		for _, c := range blocked {
			messages = append(messages, failed(c, told))
		}
		if l.Exceeded != End {
			return pregel.Pairs{{Key: inThread, Value: threads}, {Key: inRun, Value: runs}, {Key: KeyMessages, Value: messages}}, nil
		}
		for _, c := range open {
			if !slices.ContainsFunc(blocked, func(b message.ToolCall) bool { return b.ID == c.ID }) {
				messages = append(messages, failed(c, "Execution stopped before this tool call could run because another tool call in the same batch exceeded the limit."))
			}
		}
		messages = append(messages, message.AI(text))
		threads[key] = before // none of them runs
		return pregel.Pairs{{Key: inThread, Value: threads}, {Key: inRun, Value: runs}, {Key: KeyJump, Value: string(JumpEnd)}, {Key: KeyMessages, Value: messages}}, nil
	}
	return m
}

// counts is a copy of numbers in a state.
func counts(v any) map[string]any {
	m, _ := v.(map[string]any)
	if m == nil {
		return map[string]any{}
	}
	return maps.Clone(m)
}
