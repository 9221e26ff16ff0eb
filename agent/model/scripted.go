package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/message"
)

// Answer is the answer of a Scripted model to one request. The zero Answer is a message without text.
type Answer struct {
	// Message is the answer. It is streamed in parts: its text word by word, and the arguments of each
	// tool call in two pieces. The arguments of an invalid tool call stay invalid when the parts are
	// joined, unless they are the beginning of an object. An empty Type is message.TypeAI.
	Message message.Message
	// Chunks are streamed in place of Message.
	Chunks []message.Chunk
	// Delay passes before each chunk, unless the context ends.
	Delay time.Duration
	// Err ends the stream after the chunks; without Chunks, in place of the answer.
	Err error
}

// Text is an answer in words.
func Text(text string) Answer { return Answer{Message: message.AI(text)} }

// Calls is an answer that calls tools.
func Calls(calls ...message.ToolCall) Answer { return Answer{Message: message.AI("", calls...)} }

// Fail is an answer that fails.
func Fail(err error) Answer { return Answer{Err: err} }

// ErrScriptEnded: a Scripted model was asked more often than it has answers.
var ErrScriptEnded = errors.New("the scripted model has no answer left")

// Scripted is a Model that gives prepared answers. It remembers its requests, and answers them in the
// order in which they arrive.
type Scripted struct {
	answer  func(ctx context.Context, r Request) (Answer, error)
	profile Profile

	// mu guards the rest.
	mu       sync.Mutex
	left     []Answer
	requests []Request
}

// NewScripted makes a model that gives these answers, each once, in their order. After the last
// the error is ErrScriptEnded.
func NewScripted(answers ...Answer) *Scripted {
	s := &Scripted{left: slices.Clone(answers)}
	s.answer = func(context.Context, Request) (Answer, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.left) == 0 {
			return Answer{}, ErrScriptEnded
		}
		next := s.left[0]
		s.left = s.left[1:]
		return next, nil
	}
	return s
}

// NewScriptedFunc makes a model that answers by a function. An answer that depends on the messages
// alone is the same when a node runs again after a crash. f may be called by several goroutines
// concurrently.
func NewScriptedFunc(f func(ctx context.Context, r Request) (Answer, error)) *Scripted {
	return &Scripted{answer: f}
}

// WithProfile gives the model a profile, before it is used, and returns it.
func (s *Scripted) WithProfile(p Profile) *Scripted {
	s.profile = p
	return s
}

// Profile implements Profiled.
func (s *Scripted) Profile() Profile { return s.profile }

// Requests returns the requests so far.
func (s *Scripted) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Stream implements Model.
func (s *Scripted) Stream(ctx context.Context, r Request) iter.Seq2[message.Chunk, error] {
	return func(yield func(message.Chunk, error) bool) {
		r.Messages, r.Tools = slices.Clone(r.Messages), slices.Clone(r.Tools)
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		a, err := s.answer(ctx, r)
		if err == nil && a.Chunks == nil && a.Err == nil {
			a.Chunks, err = split(a.Message)
		}
		if err != nil {
			yield(message.Chunk{}, err)
			return
		}
		for _, c := range a.Chunks {
			if err := pause(ctx, a.Delay); err != nil {
				yield(message.Chunk{}, err)
				return
			}
			if !yield(c, nil) {
				return
			}
		}
		if a.Err != nil {
			yield(message.Chunk{}, a.Err)
		}
	}
}

// pause returns after d, or when ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// split makes the chunks of a message, as Answer.Message says, with the rest in the last one.
func split(m message.Message) ([]message.Chunk, error) {
	if m.Type == "" {
		m.Type = message.TypeAI
	}
	if m.Type != message.TypeAI {
		return nil, fmt.Errorf("%w: its script has a message of type %q", ErrNoAnswer, m.Type)
	}
	var out []message.Chunk
	part := func(c message.Chunk) {
		c.Type, c.ID = message.TypeAI, m.ID
		out = append(out, c)
	}
	if m.Blocks == nil {
		for _, word := range strings.SplitAfter(m.Content, " ") {
			if word != "" {
				part(message.Chunk{Message: message.Message{Content: word}})
			}
		}
		m.Content = ""
	}
	for i, c := range m.ToolCalls {
		args := c.Args
		if args == nil {
			args = map[string]any{}
		}
		text, err := json.Marshal(args)
		if err != nil {
			return nil, fmt.Errorf("arguments of the scripted call of %q: %w", c.Name, err)
		}
		half := len(text) / 2
		part(message.Chunk{ToolCallChunks: []message.ToolCallChunk{{Name: c.Name, ID: c.ID, Args: string(text[:half]), Index: &i}}})
		part(message.Chunk{ToolCallChunks: []message.ToolCallChunk{{Args: string(text[half:]), Index: &i}}})
	}
	for i, c := range m.InvalidToolCalls {
		at := len(m.ToolCalls) + i
		part(message.Chunk{ToolCallChunks: []message.ToolCallChunk{{Name: c.Name, ID: c.ID, Args: c.Args, Index: &at}}})
	}
	m.ToolCalls, m.InvalidToolCalls = nil, nil
	return append(out, message.Chunk{Message: m, Last: true}), nil
}
