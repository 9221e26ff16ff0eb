package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/message/pyrepr"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
)

// Tool is something that a model can ask to be run. It is safe for concurrent use.
type Tool interface {
	// Definition is what a model is told of the tool. It is always the same.
	Definition() Definition
	// Call runs the tool. What it returns becomes the answer; see New. The context is that
	// of the node that runs it: pregel.Ask, pregel.Emit and pregel.Task work in it.
	Call(ctx context.Context, call Call) (any, error)
}

// Definition is what a model is told of a tool.
type Definition struct {
	Name        string
	Description string
	// Parameters is the JSON Schema of the arguments, which are an object.
	Parameters json.RawMessage
}

// Call is a tool call that is being run.
type Call struct {
	message.ToolCall
	// State is the state of the graph: the input of the node that runs the call or, if the call
	// was sent to it, what pregel.ReadState returns. It must not be changed.
	State any
}

// Schema describes the arguments of a tool, and checks them. Package
// github.com/stele-go/stele/agent/providers/schema makes one of a struct.
type Schema interface {
	// MarshalJSON is the JSON Schema.
	json.Marshaler
	// Validate says why the arguments do not fit.
	Validate(args map[string]any) error
}

// Unchecked is a JSON Schema that only tells a model about the arguments. They are checked by
// the types of the struct that they fill, and nothing else.
type Unchecked json.RawMessage

// MarshalJSON implements Schema.
func (s Unchecked) MarshalJSON() ([]byte, error) { return json.RawMessage(s).MarshalJSON() }

// Validate implements Schema. It accepts everything.
func (s Unchecked) Validate(map[string]any) error { return nil }

// ErrDefinition: a tool, or a list of tools, cannot be used.
var ErrDefinition = errors.New("unusable tool")

// New makes a tool of a function. Its arguments are read into an In, a struct or another type that an object of JSON
// can be read into, by the rules of encoding/json. Arguments that s refuses, or that In cannot hold, are an *InvocationError, and
// f is not called.
//
// What f returns is the answer:
//
//   - a text, or a list of content blocks, is the content of the tool message,
//   - a message.Message of type tool is the message,
//   - a pregel.Command, or a list of Commands and tool messages, changes state and steers the
//     graph; among what it writes must be the tool message that answers the call,
//   - a Result is a content, and an artifact that models do not see,
//   - anything else is the content as JSON.
//
// An error of f becomes an answer, or ends the run, as Options.Errors says. The error is
// ErrDefinition if name is empty, f is nil, s has no JSON, or In cannot hold an object.
func New[In, Out any](name, description string, s Schema, f func(ctx context.Context, in In) (Out, error)) (Tool, error) {
	if name == "" {
		return nil, fmt.Errorf("%w: it has no name", ErrDefinition)
	}
	if f == nil {
		return nil, fmt.Errorf("%w: %q has no function", ErrDefinition, name)
	}
	if s == nil {
		return nil, fmt.Errorf("%w: %q has no schema", ErrDefinition, name)
	}
	text, err := s.MarshalJSON()
	if err != nil || !json.Valid(text) {
		return nil, fmt.Errorf("%w: the schema of %q: %w", ErrDefinition, name, errors.Join(err, errSchema))
	}
	if in := reflect.TypeFor[In](); !takesObject(in) {
		return nil, fmt.Errorf("%w: %q takes a %v; arguments are an object: make it a struct", ErrDefinition, name, in)
	}
	return &function[In, Out]{Definition{name, description, text}, s, f}, nil
}

// takesObject reports whether encoding/json reads an object into a t.
func takesObject(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer:
		return takesObject(t.Elem())
	case reflect.Interface:
		return t.NumMethod() == 0
	}
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Map
}

// Must returns t, and panics if err is not nil. It is for tools that are variables of a package:
//
//	var weather = tool.Must(tool.New("weather", "The weather here.", schema, look))
func Must(t Tool, err error) Tool {
	if err != nil {
		panic(err)
	}
	return t
}

var errSchema = errors.New("it is not JSON")

type function[In, Out any] struct {
	def    Definition
	schema Schema
	run    func(context.Context, In) (Out, error)
}

// Definition implements Tool.
func (t *function[In, Out]) Definition() Definition { return t.def }

// Call implements Tool.
func (t *function[In, Out]) Call(ctx context.Context, call Call) (any, error) {
	in, err := t.read(call.Args)
	if err != nil {
		return nil, err
	}
	return t.run(ctx, in)
}

// read reads arguments into an In.
func (t *function[In, Out]) read(args map[string]any) (in In, err error) {
	if args == nil {
		args = map[string]any{}
	}
	if err := t.schema.Validate(args); err != nil {
		return in, &InvocationError{Tool: t.def.Name, Args: args, Err: err}
	}
	text, err := json.Marshal(args)
	if err == nil {
		err = json.Unmarshal(text, &in)
	}
	if err != nil {
		return in, &InvocationError{Tool: t.def.Name, Args: args, Err: err}
	}
	return in, nil
}

// Check implements checker.
func (t *function[In, Out]) Check(args map[string]any) error {
	_, err := t.read(args)
	return err
}

// checker is a Tool that can tell whether it takes arguments, without being run.
type checker interface {
	Check(args map[string]any) error
}

// Check returns the error with which a tool that New made would refuse arguments, an
// *InvocationError. A tool that has a method Unwrap, as one that is wrapped for tracing, is looked
// into. Of other tools it knows nothing, and returns nil.
func Check(t Tool, args map[string]any) error {
	for t != nil {
		if c, ok := t.(checker); ok {
			return c.Check(args)
		}
		wrapper, ok := t.(interface{ Unwrap() Tool })
		if !ok {
			break
		}
		t = wrapper.Unwrap()
	}
	return nil
}

// Result is the answer of a tool that also has a part for programs alone.
type Result struct {
	// Content is the answer, as New has it; no message, Command or Result.
	Content any
	// Artifact is stored with the message; see message.Message.Artifact.
	Artifact any
}

// InvocationError: a model gave a tool arguments that it does not take. The tool did not run.
type InvocationError struct {
	Tool string
	Args map[string]any
	Err  error
}

// Error is what LangGraph tells a model of it.
func (e *InvocationError) Error() string {
	return fmt.Sprintf("Error invoking tool '%s' with kwargs %s with error:\n %v\n Please fix the error and try again.", e.Tool, pyrepr.String(e.Args), e.Err)
}

// Unwrap returns the cause.
func (e *InvocationError) Unwrap() error { return e.Err }

type callKey struct{}

// CallOf returns the call that a tool's context belongs to. ok is false if it belongs to none.
func CallOf(ctx context.Context) (call Call, ok bool) {
	call, ok = ctx.Value(callKey{}).(Call)
	return call, ok
}

// ErrOutsideCall: the context does not belong to a tool that is being run.
var ErrOutsideCall = errors.New("called outside of a tool")

// IdempotencyKey is pregel.IdempotencyKey for the call that is being run: a key for its side
// effect, the same each time it runs, and another than that of a call beside it. The error is
// ErrOutsideCall, or that of pregel.IdempotencyKey.
func IdempotencyKey(ctx context.Context) (string, error) {
	call, ok := CallOf(ctx)
	if !ok {
		return "", ErrOutsideCall
	}
	return pregel.IdempotencyKey(ctx, call.ID)
}

// State returns the state of the graph that runs a tool, as an S. Of a state that is a map, an S
// that is a struct gets the keys it has. The error is ErrOutsideCall, or a *channel.TypeError if
// the state cannot become an S.
func State[S any](ctx context.Context) (S, error) {
	call, ok := CallOf(ctx)
	if !ok {
		var zero S
		return zero, ErrOutsideCall
	}
	return channel.Convert[S](call.State)
}
