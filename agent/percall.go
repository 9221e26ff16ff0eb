package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
)

// Approval is the question about one call that AskPerson asks with Review.PerCall, in LangChain's
// form. Its answer is a Decision. The question's ResponseSchema describes it. A Decision that is
// not allowed, an edit to another tool, and arguments that the tool does not take are refused with
// a *pregel.AnswerError, and the question still waits.
type Approval struct {
	Type        string         `json:"type"` // "tool_approval"
	ID          string         `json:"tool_call_id"`
	Name        string         `json:"name"`
	Args        map[string]any `json:"args"`
	Description string         `json:"description"`
}

// DecideEach makes the Command that answers questions of AskPerson with Review.PerCall: decide is
// called for each. The error is a *channel.TypeError if one of them is another question.
func DecideEach(questions []pregel.Interrupt, decide func(Approval) Decision) (pregel.Command, error) {
	answers := map[string]any{}
	for _, q := range questions {
		a, err := channel.Convert[Approval](q.Value)
		if err != nil {
			return pregel.Command{}, err
		}
		answers[q.ID] = decide(a)
	}
	return pregel.Command{Resume: answers}, nil
}

// wrapEach asks a person about a call before it runs.
func (h *human) wrapEach(ctx context.Context, r tool.Request, next tool.Runner) (any, error) {
	state, _ := r.State.(map[string]any)
	gate, needed, err := h.needs(ctx, r.ToolCall, state)
	if err != nil {
		return nil, err
	}
	if !needed { // it is no approval: the call may change before it starts
		return next(ctx, r)
	}
	decision, err := h.ask(ctx, gate, state, r)
	if err != nil {
		return nil, err
	}
	if d := doorOf(ctx); d != nil && (decision.Type == Approve || decision.Type == Edit) { // an edit does not change the tool
		d.decide(decidedKey{middlewareOf(ctx), r.Name}, Decision{Type: Approve})
	}
	return h.obey(ctx, r, next, decision)
}

// filled is the action with arguments, if it has none.
func (a Action) filled() Action {
	if a.Args == nil {
		a.Args = map[string]any{}
	}
	return a
}

// check returns an error if an answer does not fit the question.
func (g Gate) check(r tool.Request, answer any) error {
	d, err := channel.Convert[Decision](answer)
	switch {
	case err != nil:
		return err
	case !slices.Contains(g.decisions(), d.Type):
		return fmt.Errorf("%w: %q is not among %v for a call of %q", ErrDecision, d.Type, g.decisions(), r.Name)
	case d.Type == Respond && d.Message == "" && !hasKey(answer, "message"):
		return fmt.Errorf("%w: an answer in place of %q without a message", ErrDecision, r.Name)
	case d.Type != Edit:
		return nil
	case d.Edited == nil || d.Edited.Name == "":
		return editWithout(r.Name, d.Edited)
	case d.Edited.Name != r.Name:
		return fmt.Errorf("%w: edited_action.name is %q, and the call is of %q: another tool needs a decision of its own", ErrDecision, d.Edited.Name, r.Name)
	}
	if err := tool.Check(r.Tool, d.Edited.filled().Args); err != nil {
		var invalid *tool.InvocationError
		if errors.As(err, &invalid) {
			err = invalid.Err
		}
		return fmt.Errorf("%w: edited_action.args, the arguments of %q: %w", ErrDecision, r.Name, err)
	}
	return nil
}

// hasKey reports whether v is a map with a key.
func hasKey(v any, key string) bool {
	m, _ := v.(map[string]any)
	_, ok := m[key]
	return ok
}

// schema is the JSON Schema of an answer, as pydantic makes LangChain's.
func (g Gate) schema(r tool.Request) map[string]any {
	text := func(title string) map[string]any { return map[string]any{"title": title, "type": "string"} }
	object := func(title string, required []any, properties map[string]any) map[string]any {
		return map[string]any{"title": title, "type": "object", "required": required, "properties": properties}
	}
	defs, refs, mapping := map[string]any{}, []any{}, map[string]any{}
	var one map[string]any
	for _, d := range g.decisions() {
		if mapping[string(d)] != nil {
			continue
		}
		kind := map[string]any{"const": string(d), "title": "Type", "type": "string"}
		var title string
		switch d {
		case Approve:
			title = "ApproveDecision"
			one = object(title, []any{"type"}, map[string]any{"type": kind})
		case Reject:
			title = "RejectDecision"
			one = object(title, []any{"type"}, map[string]any{"type": kind, "message": text("Message")})
		case Respond:
			title = "RespondDecision"
			one = object(title, []any{"type", "message"}, map[string]any{"type": kind, "message": text("Message")})
		case Edit:
			title = "EditDecision"
			one = object(title, []any{"type", "edited_action"}, map[string]any{"type": kind, "edited_action": map[string]any{"$ref": "#/$defs/EditedAction"}})
			args := parameters(r.Tool)
			if own, ok := args["$defs"].(map[string]any); ok { // references begin at the root
				maps.Copy(defs, own)
				delete(args, "$defs")
			}
			defs["EditedAction"] = object("EditedAction", []any{"name", "args"}, map[string]any{
				"name": map[string]any{"const": r.Name, "title": "Name", "type": "string"}, "args": args,
			})
		}
		defs[title] = one
		refs = append(refs, map[string]any{"$ref": "#/$defs/" + title})
		mapping[string(d)] = "#/$defs/" + title
	}
	if len(refs) == 1 {
		delete(defs, one["title"].(string)) //nolint:errcheck // set above
		if len(defs) > 0 {
			one["$defs"] = defs
		}
		return one
	}
	return map[string]any{"$defs": defs, "oneOf": refs, "discriminator": map[string]any{"mapping": mapping, "propertyName": "type"}}
}

// parameters returns the schema of a tool's arguments; that of any object if there is none.
func parameters(t tool.Tool) map[string]any {
	out := map[string]any{"type": "object"}
	if t != nil {
		def := t.Definition()
		if err := json.Unmarshal(def.Parameters, &out); err != nil || out == nil { // a schema may be true
			out = map[string]any{"type": "object"}
		}
		if def.Description != "" {
			out["description"] = def.Description
		}
	}
	out["title"] = "Args"
	return out
}
