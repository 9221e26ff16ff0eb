package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"sync/atomic"
)

// EventsRequest says which events of a thread Threads.Events shows.
type EventsRequest struct {
	// Channels are "values", "updates", "messages", "tools", "lifecycle", "input",
	// "checkpoints", "tasks", "custom" and "custom:NAME". At least one is required.
	Channels []string `json:"channels"`
	// Namespaces are graphs inside, Depth how far below them; nil is everything.
	Namespaces [][]string `json:"namespaces,omitempty"`
	Depth      *int       `json:"depth,omitempty"`
	// Since is the ProtocolEvent.Seq behind which the stream begins; 0 is the first.
	Since int64 `json:"since,omitempty"`
}

// ProtocolEvent is an event of version 2 of the streaming protocol.
type ProtocolEvent struct {
	ID     string `json:"event_id"`
	Seq    int64  `json:"seq"` // the events of a thread are numbered
	Method string `json:"method"`
	Params struct {
		Namespace []string        `json:"namespace"`
		Timestamp int64           `json:"timestamp"` // milliseconds since 1970
		Data      json.RawMessage `json:"data"`
	} `json:"params"`
}

// Events yields the events of a thread in version 2 of the streaming protocol, until ctx ends
// or the caller stops. A stream that breaks off is resumed behind the last event: each comes
// once.
func (t *Threads) Events(ctx context.Context, id string, in EventsRequest) iter.Seq2[ProtocolEvent, error] {
	return func(yield func(ProtocolEvent, error) bool) {
		open := func() (*http.Response, error) {
			return t.c.open(ctx, streaming(read(in, "threads", id, "stream", "events")))
		}
		var wrong error
		err := t.c.lasting(ctx, open, func(fr frame) bool {
			var ev ProtocolEvent
			if err := json.Unmarshal(fr.data, &ev); err != nil {
				wrong = fmt.Errorf("client: event of thread %s: %w", id, err)
				return false
			}
			if ev.Seq > 0 {
				if ev.Seq <= in.Since {
					return true
				}
				in.Since = ev.Seq
			}
			return yield(ev, nil)
		})
		if wrong != nil {
			err = wrong
		}
		if err != nil {
			yield(ProtocolEvent{}, err)
		}
	}
}

// ProtocolError is how a command of the streaming protocol was refused.
type ProtocolError struct {
	Code    string `json:"error"` // such as "no_such_run"
	Message string `json:"message"`
}

// Error has code and message.
func (e *ProtocolError) Error() string { return "client: " + e.Code + ": " + e.Message }

// commands numbers the commands of this process.
var commands atomic.Int64

// Command sends a command of version 2 of the streaming protocol, such as "run.start" or
// "input.respond", and returns its result. One that is refused is a *ProtocolError.
func (t *Threads) Command(ctx context.Context, id, method string, arguments any) (json.RawMessage, error) {
	in := map[string]any{"id": commands.Add(1), "method": method}
	if arguments != nil {
		in["params"] = arguments
	}
	var out struct {
		Type   string          `json:"type"`
		Result json.RawMessage `json:"result"`
		ProtocolError
	}
	if err := t.c.do(ctx, post(in, "threads", id, "commands"), &out); err != nil {
		return nil, err
	}
	if out.Type == "error" {
		return nil, &out.ProtocolError
	}
	return out.Result, nil
}
