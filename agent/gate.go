package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// gate may hold a call of a tool back. It is called where the tool runs: behind every WrapTool, with
// the name and the arguments that the tool is called with. Hooks decide about calls before that, and
// note the calls that they let pass. A gate decides again about a call without such a note: one that
// was changed since, or that did not come through the hooks, such as by a Command that goes to the
// tools.
//
// A note holds for one run of one call, with its arguments, of one message. Once the call has run, the task that
// ran it takes the notes back together with its answer, so that a call whose answer is removed is decided anew.
// When the model is asked, what is left lapses. A crash before the answer is stored leaves the notes: the call runs
// again, under the same idempotency key, and nobody is asked twice.
type gate interface {
	pass(ctx context.Context, d *door, r tool.Request, next tool.Runner) (any, error)
	// notes are those by which the gate, under a name, may have let a call pass behind the model.
	notes(name string, d *door) ([]string, error)
}

// ErrNoCall: something led to the tools with a call that no AI message has. The run fails, and the call
// does not run. One that has its answer, or whose message is not the newest, is passed over.
var ErrNoCall = errors.New("no AI message has this call")

// door is one call of a tool under way. If call is empty, it is a call of the model.
type door struct {
	state   map[string]any // of the graph, whatever was sent with the call
	call    message.ToolCall
	asked   *message.Message   // the newest AI message
	waiting []message.ToolCall // its calls that have no answer

	mu      sync.Mutex
	decided map[decidedKey]Decision // while the call runs, also if it is tried again
	counted map[*toolLimit]bool
	asks    int // of the model
	before  int // nodes of the model that Sends of the superstep run, before this one
	beside  int // such nodes, but for this one
}

type decidedKey struct {
	gate, tool string // the names
}

type middlewareKey struct{}

// named is a context for a function of a middleware, which is the same under each name.
func (m Middleware) named(ctx context.Context) context.Context {
	return context.WithValue(ctx, middlewareKey{}, m.Name)
}

// middlewareOf is the name of the middleware whose function is called.
func middlewareOf(ctx context.Context) string {
	name, _ := ctx.Value(middlewareKey{}).(string)
	return name
}

type doorKey struct{}

// doorOf is the door of the call that is made; nil outside of an agent.
func doorOf(ctx context.Context) *door {
	d, _ := ctx.Value(doorKey{}).(*door)
	return d
}

// enter runs a call of the newest AI message that has no answer, and no other.
func (a *agent) enter(wraps func(context.Context, tool.Request, tool.Runner) (any, error)) func(context.Context, tool.Request, tool.Runner) (any, error) {
	return func(ctx context.Context, r tool.Request, run tool.Runner) (any, error) {
		input, err := pregel.ReadState(ctx)
		if err != nil {
			return nil, err
		}
		d := &door{call: r.ToolCall, decided: map[decidedKey]Decision{}, counted: map[*toolLimit]bool{}}
		if d.state, err = stateOf(input); err != nil {
			return nil, err
		}
		list, err := Messages(d.state)
		if err != nil {
			return nil, err
		}
		is := func(c message.ToolCall) bool { return c.ID == r.ID }
		if !slices.ContainsFunc(list, func(m message.Message) bool { return slices.ContainsFunc(m.ToolCalls, is) }) {
			return nil, &stopError{d, fmt.Errorf("%w: %q with id %q", ErrNoCall, r.Name, r.ID)}
		}
		asked, answers := newestCalls(list)
		d.asked, d.waiting = asked, waiting(asked, answers)
		if !slices.ContainsFunc(d.waiting, is) {
			return pregel.Command{}, nil // it has its answer, or the conversation went on without
		}
		if twice, err := runsBeside(ctx, is); err != nil || twice {
			return pregel.Command{}, err
		}
		out, err := wraps(context.WithValue(ctx, doorKey{}, d), r, run)
		if stops(d, err) {
			return nil, &stopError{d, err}
		} else if err != nil {
			return nil, err
		}
		if out, err = withOwnID(ctx, out, list); err != nil {
			return nil, err
		}
		update, err := a.late(d)
		if err != nil {
			return nil, err
		}
		if update, err = a.spend(update, d); err != nil {
			return nil, err
		}
		if update != nil {
			list, ok := out.([]any)
			if !ok {
				list = []any{out}
			}
			out = append(slices.Clip(list), pregel.Command{Update: update})
		}
		return out, nil
	}
}

// withOwnID is what a call returned, whose answer does not take the place of another message: a tool may give each answer the
// same id, as one that comes from a cache. Those of the calls beside it are not known, so then it has none of its own.
func withOwnID(ctx context.Context, out any, list []message.Message) (any, error) {
	sends, _, err := pregel.Sent(ctx)
	switch x := out.(type) {
	case message.Message:
		if x.Type == message.TypeTool && (len(sends) > 1 || slices.ContainsFunc(list, func(m message.Message) bool { return m.ID == x.ID })) {
			x.ID = ""
		}
		return x, err
	case message.List:
		return withOwnID(ctx, []message.Message(x), list)
	case []message.Message:
		x = slices.Clone(x)
		for i := range x {
			own, err := withOwnID(ctx, x[i], list)
			if err != nil {
				return nil, err
			}
			x[i], _ = own.(message.Message)
		}
		return x, err
	case pregel.Command:
		pairs, ok := pregel.PairsOf(x.Update)
		at := slices.IndexFunc(pairs, func(p pregel.Pair) bool { return p.Key == KeyMessages })
		if !ok || at < 0 {
			return x, err
		}
		pairs = slices.Clone(pairs)
		if pairs[at].Value, err = withOwnID(ctx, pairs[at].Value, list); err != nil {
			return nil, err
		}
		x.Update = pairs
		return x, nil
	case []any:
		x = slices.Clone(x)
		for i := range x {
			if x[i], err = withOwnID(ctx, x[i], list); err != nil {
				return nil, err
			}
		}
		return x, err
	}
	return out, err
}

// runsBeside reports whether another task of the superstep runs a call: of several that do, the one that
// was sent first.
func runsBeside(ctx context.Context, is func(message.ToolCall) bool) (bool, error) {
	sends, own, err := pregel.Sent(ctx)
	for i, s := range sends {
		if i == own {
			break
		}
		if s.Node == NodeTools && slices.ContainsFunc(tool.Sent(s.Arg), is) {
			return true, nil
		}
	}
	return false, err
}

// gates leads a call through all gates, and runs it. One that a person makes a call of another tool goes
// through all of them again.
func (a *agent) gates(ctx context.Context, r tool.Request, run tool.Runner) (any, error) {
	d := doorOf(ctx)
	if d == nil {
		return nil, fmt.Errorf("tool %q: %w", r.Name, pregel.ErrOutsideTask)
	}
	next, renamed := run, 0
	var first tool.Runner
	for _, m := range slices.Backward(a.opts.Middleware) {
		if m.gate != nil {
			inner := next
			next = func(ctx context.Context, r tool.Request) (any, error) {
				return m.gate.pass(m.named(ctx), d, r, func(ctx context.Context, passed tool.Request) (any, error) {
					if passed.Name == r.Name {
						return inner(ctx, passed)
					}
					if renamed++; renamed > len(a.opts.Middleware)*(len(a.tools)+1) { // each decides once about each tool
						return nil, fmt.Errorf("%w: edits of the call %q lead from tool to tool in a circle", ErrDecision, r.ID)
					}
					return first(ctx, passed)
				})
			}
		}
	}
	first = func(ctx context.Context, r tool.Request) (any, error) { return next(ctx, a.found(r)) }
	return first(ctx, r)
}

// keyPassed is the key of the notes about the calls of the newest AI message that gates let pass: its
// id, and a digest of each. It is stele's own; LangChain leaves it alone.
const keyPassed = "gates_passed"

// passedField is the channel of the notes. A write replaces them, but for one with "spent", which takes some back:
// several tasks write such in one superstep.
func passedField() graph.Field {
	return graph.Key(keyPassed, channel.Reduce[any](func(old, write any) any {
		change, _ := write.(map[string]any)
		spent, ok := change["spent"].([]any)
		if !ok {
			return write
		}
		notes, _ := old.(map[string]any)
		all, _ := notes["calls"].([]any)
		all = slices.DeleteFunc(slices.Clone(all), func(n any) bool {
			_, isNote := n.(string) // what else is there, somebody else has put there, and it may not be comparable
			return isNote && slices.Contains(spent, n)
		})
		return map[string]any{"message": notes["message"], "calls": all}
	}))
}

// spend is an update that takes back the notes by which a call passed that has run.
func (a *agent) spend(update pregel.Pairs, d *door) (pregel.Pairs, error) {
	var spent []any
	for _, m := range a.opts.Middleware {
		if m.gate == nil {
			continue
		}
		notes, err := m.gate.notes(m.Name, d)
		if err != nil {
			return nil, err
		}
		for _, n := range notes {
			if hasNote(d.state, n) {
				spent = append(spent, n)
			}
		}
	}
	if spent == nil {
		return update, nil
	}
	return append(update, pregel.Pair{Key: keyPassed, Value: map[string]any{"spent": spent}}), nil
}

// lapse is an update by which no call passes that was let pass before and has not run.
func lapse(update pregel.Pairs, state map[string]any) pregel.Pairs {
	notes, _ := state[keyPassed].(map[string]any)
	if all, _ := notes["calls"].([]any); len(all) == 0 {
		return update
	}
	return append(update, pregel.Pair{Key: keyPassed, Value: map[string]any{"message": "", "calls": []any{}}})
}

// note returns a digest of the calls of an AI message that a gate let pass.
func note(gate string, asked *message.Message, what ...any) (string, error) {
	text, err := json.Marshal([]any{gate, asked.ID, what})
	if err != nil {
		return "", fmt.Errorf("a tool call of message %q: %w", asked.ID, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), nil
}

// withNotes is an update that adds notes about an AI message to those in a state.
func withNotes(update pregel.Pairs, state map[string]any, asked *message.Message, notes []string) pregel.Pairs {
	if len(notes) == 0 {
		return update
	}
	all := []any{}
	if old, _ := state[keyPassed].(map[string]any); old["message"] == asked.ID {
		all, _ = old["calls"].([]any)
	}
	for _, n := range notes {
		all = append(slices.Clip(all), n)
	}
	return append(update, pregel.Pair{Key: keyPassed, Value: map[string]any{"message": asked.ID, "calls": all}})
}

// hasNote reports whether a state has a note.
func hasNote(state map[string]any, note string) bool {
	old, _ := state[keyPassed].(map[string]any)
	all, _ := old["calls"].([]any)
	return slices.Contains(all, any(note))
}
