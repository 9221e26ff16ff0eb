package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/serde"
)

// frame is an event as a client of the streaming protocol's first version gets it.
type frame struct {
	name string
	data []byte
}

// metadata names the frame that says which attempt of a run begins. noMetadata, among the
// modes of a renderer, leaves it out: a client that names the modes it wants gets no others.
const (
	metadata   = "metadata"
	noMetadata = "-metadata"
)

// renderer turns the events of a run into frames. It must see all events of a run, as some depend on
// earlier ones: a message on its earlier parts, and the end on whether an error was reported.
type renderer struct {
	codec     serde.Serializer
	run       string
	modes     []string // stream modes that the client asks for
	subgraphs bool
	messages  map[string]message.Chunk // by id: what came so far
	failure   []byte                   // of an attempt, until another begins
}

func newRenderer(codec serde.Serializer, r runs.Run, modes []string) *renderer {
	return &renderer{codec: codec, run: r.ID, modes: modes, subgraphs: r.Subgraphs, messages: map[string]message.Chunk{}}
}

// frames returns the frames that a client gets for an event.
func (f *renderer) frames(ev runs.Event) ([]frame, error) {
	data, err := ev.JSON(f.codec)
	if err != nil {
		return nil, err
	}
	switch ev.Kind {
	case runs.KindAttempt:
		f.failure = nil
		if slices.Contains(f.modes, noMetadata) {
			return nil, nil
		}
		meta, err := encode(struct {
			RunID   string `json:"run_id"`
			Attempt int    `json:"attempt"`
		}{f.run, ev.Attempt})
		return []frame{{metadata, meta}}, err
	case runs.KindError:
		f.failure = data
		return nil, nil
	case runs.KindEnd:
		return f.end(data)
	}
	if len(ev.Namespace) > 0 && !f.subgraphs {
		return nil, nil
	}
	suffix := ""
	if len(ev.Namespace) > 0 {
		suffix = "|" + strings.Join(ev.Namespace, "|")
	}
	if ev.Kind != modeMessages {
		if !slices.Contains(f.modes, string(ev.Kind)) {
			return nil, nil
		}
		return []frame{{string(ev.Kind) + suffix, data}}, nil
	}
	var out []frame
	if slices.Contains(f.modes, modeMessages) {
		if out, err = f.message(data); err != nil {
			return nil, err
		}
	}
	if slices.Contains(f.modes, modeTuple) {
		out = append(out, frame{"messages" + suffix, data})
	}
	return out, nil
}

// end returns the frames that a client gets when the run has ended: none, unless it failed.
func (f *renderer) end(status []byte) ([]frame, error) {
	var word runs.Status
	if err := json.Unmarshal(status, &word); err != nil {
		return nil, err
	}
	if word != runs.Error {
		return nil, nil
	}
	failure := f.failure
	if failure == nil {
		var err error
		if failure, err = encode(pregeljson.Failure{Error: "RunFailed", Message: "the run was given up"}); err != nil {
			return nil, err
		}
	}
	return []frame{{"error", failure}}, nil
}

// message returns the frames for a message, or a part of one, which show the whole message so far. The
// name of such a frame does not have the message's graph; its metadata has it.
func (f *renderer) message(data []byte) ([]frame, error) {
	var pair []json.RawMessage
	if err := json.Unmarshal(data, &pair); err != nil {
		return nil, fmt.Errorf("an event of messages: %w", err)
	}
	if len(pair) != 2 {
		return nil, fmt.Errorf("an event of messages has %d parts, not a message and its metadata", len(pair))
	}
	var head struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	if err := json.Unmarshal(pair[0], &head); err != nil {
		return nil, err
	}
	so := func(name string, text []byte) frame {
		return frame{modeMessages + "/" + name, slices.Concat([]byte("["), text, []byte("]"))}
	}
	var out []frame
	sofar, known := f.messages[head.ID]
	if !known {
		meta, err := encode(map[string]any{head.ID: map[string]any{"metadata": pair[1]}})
		if err != nil {
			return nil, err
		}
		out = append(out, frame{modeMessages + "/metadata", meta})
	}
	if !strings.HasSuffix(head.Type, "MessageChunk") {
		f.messages[head.ID] = message.Chunk{}
		return append(out, so("complete", pair[0])), nil
	}
	var part message.Chunk
	if err := json.Unmarshal(pair[0], &part); err != nil {
		return nil, err
	}
	if known && !sofar.IsZero() {
		var err error
		if part, err = sofar.Add(part); err != nil {
			return nil, err
		}
	}
	f.messages[head.ID] = part
	complete, err := part.Whole()
	if err != nil {
		return nil, err
	}
	text, err := pregeljson.Marshal(complete)
	if err != nil {
		return nil, err
	}
	return append(out, so("partial", text)), nil
}

// appendFrame appends a frame in the format of server-sent events. Its data is JSON in one line.
func appendFrame(b []byte, f frame, id string) []byte {
	b = append(append(append(b, "event: "...), f.name...), "\r\ndata: "...)
	b = append(append(b, f.data...), "\r\n"...)
	if id != "" {
		b = append(append(append(b, "id: "...), id...), "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// heartbeat is a comment: it says that the stream lives.
var heartbeat = []byte(": heartbeat\r\n\r\n")
