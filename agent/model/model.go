package model

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
)

// Model is a chat model. It is safe for concurrent use.
//
// Stream answers a request with the parts of one AI message, in order; the usage is in one of
// them, or in several that add up. An error is yielded once and last, beside a zero chunk; the
// parts before it are no answer. When ctx ends, the stream ends soon, with an error that matches
// that of ctx. A caller may stop early; the model then frees what it holds. Nothing is sent before
// the stream is ranged over, and each time it is ranged over is a call of its own.
type Model interface {
	// Stream asks the model; see Model.
	Stream(ctx context.Context, r Request) iter.Seq2[message.Chunk, error]
}

// Request is a request to a model. The model must not change it.
type Request struct {
	// Messages are the conversation. A system message is the first, if there is one. Call and
	// Collect give the model one that keeps to message.Rules.
	Messages []message.Message
	// Tools are what the model may call.
	Tools []tool.Definition
	// ToolChoice says which: empty leaves it to the model, ToolAny demands a call of one of
	// them, and anything else is the name of the one to call.
	ToolChoice string
	// Format is the form of the answer, if the model has a way of its own to keep to one.
	Format *Format
	// Settings are settings of the provider for this call, such as "temperature", under the
	// names that the provider has for them. What it does not know it ignores or refuses.
	Settings map[string]any
}

// ToolAny is the ToolChoice that demands a call.
const ToolAny = "any"

// Format is a form that an answer must have: a JSON text that fits the schema.
type Format struct {
	Name   string
	Schema json.RawMessage
	// Strict asks the provider to enforce all of the schema.
	Strict bool
}

// Profile describes the abilities of a model.
type Profile struct {
	// StructuredOutput: the model keeps to a Request.Format.
	StructuredOutput bool
	// MaxInputTokens is how much it reads; 0 is unknown.
	MaxInputTokens int
	// Provider is who answers, as "model_provider" in the response metadata of its messages says;
	// empty is unknown.
	Provider string
}

// Profiled is a Model that knows its Profile.
type Profiled interface {
	// Profile returns the abilities of the model. It is always the same.
	Profile() Profile
}

// ProfileOf is the profile of m, or the zero Profile if m is not Profiled.
func ProfileOf(m Model) Profile {
	if p, ok := m.(Profiled); ok {
		return p.Profile()
	}
	return Profile{}
}

// ErrNoAnswer: a model ended its stream without a chunk, or with chunks that make no AI message.
var ErrNoAnswer = errors.New("the model gave no answer")

// Call asks a model and returns its answer whole. A conversation that providers would refuse is
// repaired first, by message.Repair, and a call of the answer that has no id, or that of a call before
// it, gets another. Each chunk is shown to whoever streams the run
// in mode messages; the answer has their id, so that it is not shown again when the node returns
// it. If the model gives no id, the message gets a random UUID. Outside of a node nothing is
// shown. A tool call with arguments that are cut off is an invalid one; see
// message.Chunk.Complete.
//
// The errors are those of the model, message.ErrMerge if its chunks do not fit together, and
// ErrNoAnswer. An answer that failed midway is none, although its beginning was shown.
func Call(ctx context.Context, m Model, r Request) (message.Message, error) {
	return collect(ctx, m, r, func(c message.Chunk) error {
		if err := pregel.EmitMessage(ctx, c); err != nil && !errors.Is(err, pregel.ErrOutsideTask) {
			return err
		}
		return nil
	})
}

// Collect is Call without showing anything: for answers that are not part of the conversation, such as
// a summary.
func Collect(ctx context.Context, m Model, r Request) (message.Message, error) {
	return collect(ctx, m, r, func(message.Chunk) error { return nil })
}

// collect adds up the chunks of an answer, and hands each to show under the id of the answer.
func collect(ctx context.Context, m Model, r Request, show func(message.Chunk) error) (message.Message, error) {
	r.Messages, _ = message.Repair(r.Messages, message.Rules{})
	var id string
	var chunks []message.Chunk
	for c, err := range m.Stream(ctx, r) {
		if err != nil {
			return message.Message{}, err
		}
		if id == "" {
			if id = c.ID; id == "" {
				id = channel.NewMessageID()
			}
		}
		c.ID = id
		if err := show(c); err != nil {
			return message.Message{}, err
		}
		chunks = append(chunks, c)
	}
	if err := ctx.Err(); err != nil { // a model that was stopped may have ended its stream in silence
		return message.Message{}, err
	}
	if len(chunks) == 0 {
		return message.Message{}, ErrNoAnswer
	}
	sum, err := chunks[0].Add(chunks[1:]...)
	if err != nil {
		return message.Message{}, err
	}
	answer, err := sum.Complete() // no part is to come: half of a tool call is no call
	if err != nil {
		return message.Message{}, err
	}
	if answer.Type != message.TypeAI {
		return message.Message{}, ErrNoAnswer
	}
	message.Metered(ctx, answer)
	all, _ := message.Repair(append(slices.Clip(r.Messages), answer), message.Rules{Open: true})
	return all[len(all)-1], nil
}
