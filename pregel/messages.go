package pregel

import (
	"context"
	"fmt"
	"sync"

	"github.com/stele-go/stele/pregel/channel"
)

// messageLog remembers which messages a stream has shown, so that each is shown
// once: as it is sent, or when its node ends.
type messageLog struct {
	// mu guards seen, the ids.
	mu   sync.Mutex
	seen map[string]bool
}

// mark notes an id and reports whether it is new. A message without an id is
// always new.
func (m *messageLog) mark(id string) bool {
	if id == "" {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	isNew := !m.seen[id]
	m.seen[id] = true
	return isNew
}

// EmitMessage sends a message, or a part of one, to whoever streams in mode
// messages. Parts of one message share its id; the whole message among the
// node's output is then not shown again.
func EmitMessage(ctx context.Context, m any) error {
	r, err := runFrom(ctx)
	if err != nil {
		return fmt.Errorf("emit message: %w", err)
	}
	l := r.step.l
	if l.messages != nil {
		for _, x := range messagesIn(m, 1) {
			l.messages.mark(x.ID)
		}
	}
	r.emit(ctx, ModeMessages, MessageEvent{Message: m, Metadata: l.messageMetadata(r.task)})
	return ctx.Err()
}

func (l *loop) messageMetadata(t *task) map[string]any {
	md := map[string]any{"langgraph_step": l.step, "langgraph_node": t.name, "langgraph_triggers": t.triggers,
		"langgraph_path": t.where(), "langgraph_checkpoint_ns": t.ns}
	for k, v := range t.metadata {
		md[k] = v
	}
	return md
}

// emitMessages shows the messages among what t wrote, but for those it was given
// and those already shown.
func (l *loop) emitMessages(t *task, writes []write) {
	if l.messages == nil || t.hidden() {
		return
	}
	for _, m := range messagesIn(t.input, 2) {
		l.messages.mark(m.ID)
	}
	parts := splitNS(t.ns)
	for _, w := range writes {
		for _, m := range messagesIn(w.value, 1) {
			if l.messages.mark(m.ID) {
				l.custom.emit(Event{NS: parts[:len(parts)-1], Mode: ModeMessages, Data: MessageEvent{Message: m, Metadata: l.messageMetadata(t)}})
			}
		}
	}
}

// messagesIn finds messages in v: itself, its elements, and at depth 2 the
// values of a map and their elements.
func messagesIn(v any, depth int) []channel.Message {
	switch x := v.(type) {
	case channel.Message:
		return []channel.Message{x}
	case *channel.Message:
		if x != nil {
			return []channel.Message{*x}
		}
	case []channel.Message:
		return x
	case []any:
		var out []channel.Message
		for _, e := range x {
			if m, ok := e.(channel.Message); ok {
				out = append(out, m)
			}
		}
		return out
	case map[string]any:
		if depth < 2 {
			return nil
		}
		var out []channel.Message
		for _, e := range x {
			out = append(out, messagesIn(e, depth-1)...)
		}
		return out
	}
	return nil
}
