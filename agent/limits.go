package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/agent/tool"
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
// ModelCallLimitMiddleware. It looks before each call, inside all middleware, and counts each of a node that succeeds:
// also those of a WrapModel that calls the model again, such as RetryModel, which LangChain counts as one. End ends the
// agent with an AI message, and Stop fails the run.
func LimitModelCalls(l Limit) Middleware {
	const inThread, inRun = "thread_model_call_count", "run_model_call_count"
	// over is the text of a limit that is reached; "" if none is.
	over := func(state map[string]any, asked int) (string, error) {
		thread, run := count(state[inThread])+asked, count(state[inRun])+asked
		var over []string
		if l.Thread > 0 && thread >= l.Thread {
			over = append(over, fmt.Sprintf("thread limit (%d/%d)", thread, l.Thread))
		}
		if l.Run > 0 && run >= l.Run {
			over = append(over, fmt.Sprintf("run limit (%d/%d)", run, l.Run))
		}
		if over == nil {
			return "", nil
		}
		text := "Model call limits exceeded: " + strings.Join(over, ", ")
		if l.Exceeded == Stop {
			return "", &LimitError{thread, run, l, "", text}
		}
		return text, nil
	}
	return Middleware{
		Name:  "ModelCallLimitMiddleware",
		maker: "LimitModelCalls",
		State: []graph.Field{
			graph.Key(inThread, channel.LastValue[int]()),
			graph.Key(inRun, channel.UntrackedValue[int](channel.Guarded)),
		},
		Jumps: []Jump{JumpEnd},
		BeforeModel: func(_ context.Context, state map[string]any) (any, error) {
			text, err := over(state, 0)
			if err != nil || text == "" {
				return nil, err
			}
			return pregel.Pairs{{Key: KeyJump, Value: string(JumpEnd)}, {Key: KeyMessages, Value: []message.Message{message.AI(text)}}}, nil
		},
		AfterModel: func(_ context.Context, state map[string]any) (any, error) {
			if !wasAsked(state) {
				return nil, nil
			}
			return pregel.Pairs{{Key: inThread, Value: count(state[inThread]) + 1}, {Key: inRun, Value: count(state[inRun]) + 1}}, nil
		},
		// A Command can lead to the model past the hook before it, and a WrapModel can ask it again. The hook behind it
		// counts one.
		limit: &modelLimit{over, func(state map[string]any, more int) pregel.Pairs {
			return pregel.Pairs{{Key: inThread, Value: count(state[inThread]) + more}, {Key: inRun, Value: count(state[inRun]) + more}}
		}},
		err: l.check("limit of model calls", End, Stop),
	}
}

// modelLimit is a LimitModelCalls, where the model is asked: over is its text if there were as many calls as asked
// since the state, and counted the update by more of them.
type modelLimit struct {
	over    func(state map[string]any, asked int) (string, error)
	counted func(state map[string]any, more int) pregel.Pairs
}

// mayAsk counts a call of the model that is about to be made, or returns the text of a limit that is reached.
func (a *agent) mayAsk(d *door) (text string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range a.opts.Middleware {
		if m.limit == nil {
			continue
		}
		if text, err = m.limit.over(d.state, d.before+d.asks); err != nil {
			return "", &stopError{d, err}
		} else if text != "" {
			return text, nil
		}
	}
	d.asks++
	return "", nil
}

// asks is the update by the calls of the model that its node made, but for one, which the hook behind it counts. Of several
// nodes of a superstep the first counts one for each other; what the others ask again is not counted.
func (a *agent) asks(d *door) (update pregel.Pairs) {
	d.mu.Lock()
	defer d.mu.Unlock()
	more := d.asks - 1 + d.beside
	for _, m := range a.opts.Middleware {
		if m.limit != nil && more > 0 && d.before == 0 {
			update = append(update, m.limit.counted(d.state, more)...)
		}
	}
	return update
}

// Calls of tools are counted under these keys.
const (
	toolsInThread = "thread_tool_call_count"
	toolsInRun    = "run_tool_call_count"
)

// toolLimit is a LimitToolCalls.
type toolLimit struct {
	Limit
	tool  string // "" is all
	key   string // under which it counts
	whose string
	told  string // to the model
}

// LimitToolCalls is a Middleware that bounds the calls of a tool, or of all tools if the name is empty:
// LangChain's ToolCallLimitMiddleware. Calls count when the model asks for them. An agent can have one
// for each tool. A call that has an answer already counts, and keeps it. A call that a person or the
// program turned into one of the tool counts when it starts. If that exceeds the limit, it is answered
// with an error, also with End.
func LimitToolCalls(name string, l Limit) Middleware {
	t := &toolLimit{l, name, "__all__", "Tool", "Tool call limit exceeded. Do not make additional tool calls."}
	m := Middleware{
		Name:  "ToolCallLimitMiddleware",
		maker: "LimitToolCalls",
		State: []graph.Field{
			// Of several writes the last counts: it is of the last call, and counts those before it.
			graph.Key(toolsInThread, channel.Reduce[any](func(_, write any) any { return write })),
			graph.Key(toolsInRun, channel.UntrackedValue[map[string]any](channel.Unguarded)),
			passedField(),
		},
		Jumps:      []Jump{JumpEnd},
		AfterModel: t.afterModel,
		err:        l.check("limit of tool calls", Continue, End, Stop),
		gate:       t,
	}
	if name != "" {
		m.Name += "[" + name + "]"
		m.about = []string{name}
		t.key, t.whose, t.told = name, "'"+name+"' tool", "Tool call limit exceeded. Do not call '"+name+"' again."
	}
	if m.err == nil && l.Thread > 0 && l.Run > l.Thread {
		m.err = fmt.Errorf("%w: limit of tool calls: %d in a run, and %d in a thread", ErrOptions, l.Run, l.Thread)
	}
	return m
}

// over reports whether there may be no further call.
func (t *toolLimit) over(thread, run int) bool {
	return t.Thread > 0 && thread >= t.Thread || t.Run > 0 && run >= t.Run
}

// text says which limits are exceeded by these numbers of calls.
func (t *toolLimit) text(thread, run int) string {
	var over []string
	if t.Thread > 0 && thread > t.Thread {
		over = append(over, fmt.Sprintf("thread limit exceeded (%d/%d calls)", thread, t.Thread))
	}
	if t.Run > 0 && run > t.Run {
		over = append(over, fmt.Sprintf("run limit exceeded (%d/%d calls)", run, t.Run))
	}
	return t.whose + " call limit reached: " + strings.Join(over, " and ") + "."
}

func (t *toolLimit) afterModel(_ context.Context, state map[string]any) (any, error) {
	asked, answers, err := lastCalls(state)
	if err != nil || asked == nil || len(asked.ToolCalls) == 0 || jumpsElsewhere(state) {
		return nil, err
	}
	threads, runs := counts(state[toolsInThread]), counts(state[toolsInRun])
	before := count(threads[t.key])
	thread, run := before, count(runs[t.key])
	var blocked []message.ToolCall
	var notes []string
	open := waiting(asked, answers)
	answered := func(c message.ToolCall) bool {
		return !slices.ContainsFunc(open, func(o message.ToolCall) bool { return o.ID == c.ID })
	}
	counted := false
	for _, c := range asked.ToolCalls {
		if t.tool != "" && c.Name != t.tool {
			continue
		}
		n, err := note("limit", asked, t.key, c.ID)
		if err != nil {
			return nil, err
		}
		if !wasAsked(state) && (hasNote(state, n) || answered(c)) { // a jump led here once more
			continue
		}
		counted = true
		if t.over(thread, run) {
			blocked = append(blocked, c)
			continue
		}
		thread, run, notes = thread+1, run+1, append(notes, n)
	}
	if !counted {
		return nil, nil
	}
	run += len(blocked)
	threads[t.key], runs[t.key] = thread, run
	total := thread + len(blocked)
	update := pregel.Pairs{{Key: toolsInThread, Value: threads}, {Key: toolsInRun, Value: runs}}
	if blocked = slices.DeleteFunc(blocked, answered); len(blocked) == 0 {
		return withNotes(update, state, asked, notes), nil
	}
	text := t.text(total, run)
	if t.Exceeded == Stop {
		return nil, &LimitError{total, run, t.Limit, t.tool, text}
	}
	var messages []message.Message
	for _, c := range blocked {
		messages = append(messages, failed(c, t.told))
	}
	if t.Exceeded != End {
		return withNotes(append(update, pregel.Pair{Key: KeyMessages, Value: messages}), state, asked, notes), nil
	}
	for _, c := range open {
		if !slices.ContainsFunc(blocked, func(b message.ToolCall) bool { return b.ID == c.ID }) {
			messages = append(messages, failed(c, "Execution stopped before this tool call could run because another tool call in the same batch exceeded the limit."))
		}
	}
	messages = append(messages, message.AI(text))
	threads[t.key] = before // none of them runs
	return append(update, pregel.Pair{Key: KeyJump, Value: string(JumpEnd)}, pregel.Pair{Key: KeyMessages, Value: messages}), nil
}

// pass implements gate: a call that was not counted when the model requested it counts now.
func (t *toolLimit) pass(ctx context.Context, d *door, r tool.Request, next tool.Runner) (any, error) {
	if t.tool != "" && r.Name != t.tool {
		return next(ctx, r)
	}
	known, err := t.knows(d, d.call)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	known = known || d.counted[t]
	d.mu.Unlock()
	if known {
		return next(ctx, r)
	}
	before, err := t.late(d, !t.isFor(d, d.call))
	if err != nil {
		return nil, err
	}
	thread, run := count(counts(d.state[toolsInThread])[t.key])+before, count(counts(d.state[toolsInRun])[t.key])+before
	if t.over(thread, run) {
		if t.Exceeded == Stop {
			return nil, &stopError{d, &LimitError{thread + 1, run + 1, t.Limit, t.tool, t.text(thread+1, run+1)}}
		}
		return failed(r.ToolCall, t.told), nil
	}
	d.mu.Lock()
	d.counted[t] = true
	d.mu.Unlock()
	return next(ctx, r)
}

// notes implements gate.
func (t *toolLimit) notes(_ string, d *door) ([]string, error) {
	n, err := note("limit", d.asked, t.key, d.call.ID)
	return []string{n}, err
}

// knows reports whether afterModel has counted a call.
func (t *toolLimit) knows(d *door, c message.ToolCall) (bool, error) {
	n, err := note("limit", d.asked, t.key, c.ID)
	return err == nil && hasNote(d.state, n), err
}

// isFor reports whether a call, as the model made it or a person edited it, is one of the tool.
func (t *toolLimit) isFor(d *door, c message.ToolCall) bool {
	name := c.Name
	if edited, _ := d.state[keyEdited].(map[string]any); edited[c.ID] != nil && c.ID != "" {
		if action, err := channel.Convert[Action](edited[c.ID]); err == nil {
			name = action.Name
		}
	}
	return t.tool == "" || name == t.tool
}

// late returns how many earlier calls of the same AI message, which may start at the same time, are
// counted only when they start: those of the tool; with renamed, also those that a WrapTool may turn
// into calls of it, as it did with this one.
func (t *toolLimit) late(d *door, renamed bool) (n int, err error) {
	for _, c := range d.waiting {
		if c.ID == d.call.ID {
			break
		}
		known, err := t.knows(d, c)
		if err != nil {
			return 0, err
		}
		if !known && (renamed || t.isFor(d, c)) {
			n++
		}
	}
	return n, nil
}

// late is the update of the counts by a call that was counted when it started; nil if none of them was.
// It counts those before it too: of the writes of a superstep the last stands.
func (a *agent) late(d *door) (pregel.Pairs, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.counted) == 0 {
		return nil, nil
	}
	threads, runs := counts(d.state[toolsInThread]), counts(d.state[toolsInRun])
	for _, m := range a.opts.Middleware {
		t, ok := m.gate.(*toolLimit)
		if !ok {
			continue
		}
		n, err := t.late(d, false)
		if err != nil {
			return nil, err
		}
		if d.counted[t] {
			n++
		}
		threads[t.key], runs[t.key] = t.upTo(count(threads[t.key]), n, t.Thread), t.upTo(count(runs[t.key]), n, t.Run)
	}
	return pregel.Pairs{{Key: toolsInThread, Value: threads}, {Key: toolsInRun, Value: runs}}, nil
}

// upTo is a count with n more, as far as a limit lets calls run.
func (t *toolLimit) upTo(before, n, limit int) int {
	if limit > 0 {
		n = min(n, max(limit-before, 0))
	}
	return before + n
}

// counts is a copy of numbers in a state.
func counts(v any) map[string]any {
	m, _ := v.(map[string]any)
	if m == nil {
		return map[string]any{}
	}
	return maps.Clone(m)
}
