package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/base/jsontext"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/message/pyrepr"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/serde"
)

// Response is the form of an agent's answer: a JSON object that fits one of the Forms. It is in the
// state and the result under KeyResponse, as a map; ResponseOf reads it. If an answer does not fit, the
// model is told so, by Errors, and asked again. With the provider's own strategy it ends the run
// instead, with a *ResponseError.
type Response struct {
	// Forms are the forms. By the provider's own way there is one.
	Forms []Form
	// Strategy is how the model gives its answer.
	Strategy Strategy
	// Answer is the text of the tool message behind an answer; empty means a text with the answer.
	Answer string
	// Errors handles an answer that does not fit (a *ResponseError), and several answers in one message
	// (a *SeveralResponsesError). It returns a text for the model, which is asked again, or an error
	// that ends the run. Nil tells the model the error.
	Errors func(ctx context.Context, err error) (answer string, failure error)
}

// Form is one form of an answer.
type Form struct {
	// Name is the name of the tool with which the model answers.
	Name        string
	Description string
	// Schema describes the answer and checks it.
	Schema tool.Schema
	// Strict asks the provider to enforce all of the schema.
	Strict bool
}

// Strategy is how a model gives a structured answer.
type Strategy string

// The strategies.
const (
	// Auto is ByProvider if the model's profile has StructuredOutput, and else ByTool.
	Auto Strategy = ""
	// ByTool gives the model a tool for each form, and demands that it calls a tool.
	ByTool Strategy = "tool"
	// ByProvider asks the model for a text in the form; see model.Request.Format.
	ByProvider Strategy = "provider"
)

// ResponseError: a structured answer does not fit its form.
type ResponseError struct {
	Form    string
	Message message.Message // the answer
	Err     error           // why
}

// Error says why.
func (e *ResponseError) Error() string {
	return fmt.Sprintf("Failed to parse structured output for tool '%s': %v.", e.Form, e.Err)
}

// Unwrap returns the cause.
func (e *ResponseError) Unwrap() error { return e.Err }

// SeveralResponsesError: a model gave several structured answers in one message.
type SeveralResponsesError struct {
	Forms   []string
	Message message.Message // with the answers
}

// Error names the forms.
func (e *SeveralResponsesError) Error() string {
	return fmt.Sprintf("Model incorrectly returned multiple structured responses (%s) when only one is expected.", strings.Join(e.Forms, ", "))
}

// ErrNoResponse: a state has no structured answer.
var ErrNoResponse = errors.New("no structured response")

// ResponseOf reads the structured answer of a run's result as a T. The error is ErrNoResponse, or a
// *channel.TypeError if it cannot become a T.
func ResponseOf[T any](result map[string]any) (T, error) {
	v := result[KeyResponse]
	if v == nil {
		var none T
		return none, ErrNoResponse
	}
	return channel.Convert[T](v)
}

func (r *Response) check() error {
	if r == nil {
		return nil
	}
	if len(r.Forms) == 0 || len(r.Forms) > 1 && r.Strategy == ByProvider {
		return fmt.Errorf("%w: the response has %d forms", ErrOptions, len(r.Forms))
	}
	if r.Strategy != Auto && r.Strategy != ByTool && r.Strategy != ByProvider {
		return fmt.Errorf("%w: there is no strategy %q", ErrOptions, r.Strategy)
	}
	for i, f := range r.Forms {
		if f.Name == "" || f.Schema == nil {
			return fmt.Errorf("%w: form %d lacks a name or a schema", ErrOptions, i)
		}
		if slices.ContainsFunc(r.Forms[:i], func(g Form) bool { return g.Name == f.Name }) {
			return fmt.Errorf("%w: two forms have the name %q", ErrOptions, f.Name)
		}
		if _, err := json.Marshal(f.Schema); err != nil {
			return fmt.Errorf("%w: form %q: %w", ErrOptions, f.Name, err)
		}
	}
	return nil
}

// asTools reports whether forms may be given to the model as tools.
func (r *Response) asTools() bool { return r != nil && r.Strategy != ByProvider }

// form returns the form that the model sees as the tool with a name; nil if there is none.
func (r *Response) form(name string) *Form {
	if r.asTools() {
		for i := range r.Forms {
			if r.Forms[i].Name == name {
				return &r.Forms[i]
			}
		}
	}
	return nil
}

func (r *Response) has(name string) bool { return r.form(name) != nil }

// bind adds the forms to the request, and returns the strategy; Auto without a Response. All forms must
// be among those of the agent, whose edges know their names.
func (r *Response) bind(of *Response, m model.Model, q *model.Request) (Strategy, error) {
	if r == nil {
		return Auto, nil
	}
	if err := r.check(); err != nil {
		return Auto, err
	}
	strategy := r.Strategy
	if strategy == Auto {
		strategy = ByTool
		if model.ProfileOf(m).StructuredOutput && len(r.Forms) == 1 {
			strategy = ByProvider
		}
	}
	for _, f := range r.Forms {
		if strategy == ByTool && !of.has(f.Name) {
			return Auto, fmt.Errorf("%w: the agent was made without the form %q", ErrOptions, f.Name)
		}
		schema, err := f.Schema.MarshalJSON()
		if err != nil {
			return Auto, fmt.Errorf("form %q: %w", f.Name, err)
		}
		if strategy == ByProvider {
			q.Format = &model.Format{Name: f.Name, Schema: schema, Strict: f.Strict}
			continue
		}
		q.Tools = append(slices.Clip(q.Tools), tool.Definition{Name: f.Name, Description: f.Description, Parameters: schema})
		q.ToolChoice = model.ToolAny
	}
	return strategy, nil
}

// object reads a JSON object. A number without a fraction is an integer, as it is in the arguments
// of a tool call.
func object(text string) (map[string]any, error) {
	v, err := serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: []byte(text)})
	if err != nil {
		return nil, fmt.Errorf("expected a JSON object: %w", err)
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want a JSON object, got %s", jsontext.Kind(v))
	}
	return o, nil
}

// parse reads an answer that the model gave as a text. A message with tool calls is no answer yet.
func (r *Response) parse(m message.Message) (ModelResponse, error) {
	res := ModelResponse{Messages: []message.Message{m}}
	if len(m.ToolCalls)+len(m.InvalidToolCalls) > 0 {
		return res, nil
	}
	v, err := object(m.Text())
	if err == nil {
		err = r.Forms[0].Schema.Validate(v)
	}
	if err != nil {
		return ModelResponse{}, &ResponseError{r.Forms[0].Name, m, err}
	}
	res.Response = v
	return res, nil
}

// called reads an answer that the model gave by calling a tool.
func (r *Response) called(ctx context.Context, m message.Message) (ModelResponse, error) {
	res := ModelResponse{Messages: []message.Message{m}}
	var calls []message.ToolCall
	var names []string
	for _, c := range m.ToolCalls {
		if r.has(c.Name) {
			calls, names = append(calls, c), append(names, c.Name)
		}
	}
	var err error
	switch {
	case len(calls) == 0:
		return res, nil
	case len(calls) > 1:
		err = &SeveralResponsesError{names, m}
	default:
		args := calls[0].Args
		if args == nil {
			args = map[string]any{}
		}
		if why := r.form(names[0]).Schema.Validate(args); why != nil {
			err = &ResponseError{names[0], m, why}
			break
		}
		text := r.Answer
		if text == "" {
			text = "Returning structured response: " + pyrepr.String(args)
		}
		res.Messages = append(res.Messages, message.ToolResult(calls[0], text))
		res.Response = args
		return res, nil
	}
	text := fmt.Sprintf("Error: %v\n Please fix your mistakes.", err)
	if r.Errors != nil {
		var failure error
		if text, failure = r.Errors(ctx, err); failure != nil {
			return ModelResponse{}, failure
		}
	}
	for _, c := range calls {
		res.Messages = append(res.Messages, message.ToolResult(c, text))
	}
	return res, nil
}
