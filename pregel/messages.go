package pregel

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/stele-go/stele/pregel/channel"
)

// messageLog remembers which messages a stream has shown, so that each is shown once, either
// when it is sent or when its node ends.
type messageLog struct {
	// mu guards seen, the ids.
	mu   sync.Mutex
	seen map[string]bool
}

// mark records an id and reports whether it is new.
func (m *messageLog) mark(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	isNew := !m.seen[id]
	m.seen[id] = true
	return isNew
}

// know marks the messages in a task's input, so that they are not shown.
func (m *messageLog) know(input any) {
	if isState(input) {
		m.markAll(input)
	}
}

func (m *messageLog) markAll(v any) {
	mapMessages(v, func(x channel.Identified) string {
		id := x.MessageID()
		if id != "" {
			m.mark(id)
		}
		return id
	})
}

// EmitMessage sends a message, or a part of one, to whoever streams in mode messages. The
// parts of a message share its id. If the whole message is in the node's output, it is not
// shown again.
func EmitMessage(ctx context.Context, m any) error {
	r, err := attemptFrom(ctx)
	if err != nil {
		return fmt.Errorf("emit message: %w", err)
	}
	if step := r.step.Get(); step.messages != nil {
		step.messages.markAll(m)
		r.out.touch()
		run := step.run.Get()
		within := run.ns
		if within == "" {
			within = r.task.ns
		}
		md := run.messageMetadata(r.task, step.step, within)
		step.custom.emit(Event{NS: graphNS(r.task), Mode: ModeMessages, Data: MessageEvent{Message: m, Metadata: md}})
		step.queue.waitRoom(ctx)
	}
	return ctx.Err()
}

// graphNS is the namespace of the graph of t. A call belongs to the graph of its caller.
func graphNS(t *task) []string {
	parts := splitNS(t.ns)
	drop := 1
	for p := t.where(); p.callerReports() && len(p) == 4; drop++ {
		caller, ok := p[1].(Path)
		if !ok {
			break
		}
		p = caller
	}
	return parts[:max(len(parts)-drop, 0)]
}

// named returns a node's output with ids for messages that have none, so that the state keeps each
// message under the id with which it is shown. It copies the values that it changes.
func named(out any, newID func() string) any {
	return mapMessages(out, func(m channel.Identified) string {
		if id := m.MessageID(); id != "" {
			return id
		}
		return newID()
	})
}

// unnamed returns the writes of t for the cache, without the ids that messages were given here: each
// use of a cached result makes new messages. Without a cache it returns nil.
func (t *task) unnamed(writes []write) []write {
	if t.cacheKey == nil {
		return nil
	}
	own := slices.Clone(writes)
	for i, w := range own {
		own[i].value = mapMessages(w.value, func(m channel.Identified) string {
			if id := m.MessageID(); !t.given[id] {
				return id
			}
			return ""
		})
	}
	return own
}

// isState reports whether v has keys: a map, Pairs or a struct.
func isState(v any) bool {
	switch v.(type) {
	case map[string]any, Pairs:
		return true
	case nil, channel.Identified, Send, *Send, Command, *Command:
		return false
	}
	return reflect.Indirect(reflect.ValueOf(v)).Kind() == reflect.Struct
}

// mapMessages gives every message in v, the input or output of a node, the id that f returns for
// it: v itself, the elements of a list, the values of a state and their elements, and the update
// of a Command. If no id changes, it returns v itself.
func mapMessages(v any, f func(channel.Identified) string) any {
	switch x := v.(type) {
	case Command:
		x.Update = mapState(x.Update, f)
		return x
	case *Command:
		if x != nil {
			c := *x
			c.Update = mapState(c.Update, f)
			return &c
		}
	case []Command:
		out := slices.Clone(x)
		for i := range out {
			out[i].Update = mapState(out[i].Update, f)
		}
		return out
	case []any:
		if slices.ContainsFunc(x, func(e any) bool { _, ok := commandOf(e); return ok }) {
			out := slices.Clone(x)
			for i, e := range out {
				out[i] = mapMessages(e, f)
			}
			return out
		}
	}
	return mapState(v, f)
}

// mapState is mapMessages for values other than Commands.
func mapState(v any, f func(channel.Identified) string) any {
	switch x := v.(type) {
	case map[string]any:
		var out map[string]any
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if n, changed := mapList(x[k], f); changed {
				if out == nil {
					out = maps.Clone(x)
				}
				out[k] = n
			}
		}
		if out != nil {
			return out
		}
		return x
	case Pairs:
		out := slices.Clone(x)
		for i, p := range out {
			out[i].Value, _ = mapList(p.Value, f)
		}
		return out
	}
	if n, changed := mapList(v, f); changed {
		return n
	}
	if isState(v) {
		return mapFields(v, f)
	}
	return v
}

// mapFields is mapState for a struct.
func mapFields(v any, f func(channel.Identified) string) any {
	rv := reflect.Indirect(reflect.ValueOf(v))
	out := reflect.New(rv.Type()).Elem()
	out.Set(rv)
	changed := false
	for i := range rv.NumField() {
		if !rv.Type().Field(i).IsExported() {
			continue
		}
		if n, ok := mapList(rv.Field(i).Interface(), f); ok {
			out.Field(i).Set(reflect.ValueOf(n))
			changed = true
		}
	}
	if !changed {
		return v
	}
	return out.Interface()
}

// mapList is mapMessages for a message or a list of messages. It reports whether it made a
// copy.
func mapList(v any, f func(channel.Identified) string) (any, bool) {
	if m, ok := identified(v); ok {
		id := f(m)
		if id == m.MessageID() {
			return v, false
		}
		return renamed(reflect.TypeOf(v), m, id).Interface(), true
	}
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		return v, false
	}
	if t := list.Type().Elem(); t.Kind() != reflect.Interface && !t.Implements(identifiedType) {
		return v, false
	}
	var out reflect.Value
	for i := range list.Len() {
		m, ok := identified(list.Index(i).Interface())
		if !ok {
			continue
		}
		id := f(m)
		if id == m.MessageID() {
			continue
		}
		if !out.IsValid() {
			out = reflect.MakeSlice(list.Type(), list.Len(), list.Len())
			reflect.Copy(out, list)
		}
		out.Index(i).Set(renamed(reflect.TypeOf(m), m, id))
	}
	if !out.IsValid() {
		return v, false
	}
	return out.Interface(), true
}

// renamed is a copy of m, which is a t, with another id.
func renamed(t reflect.Type, m channel.Identified, id string) reflect.Value {
	named := reflect.ValueOf(m.WithMessageID(id))
	if t.Kind() != reflect.Pointer || named.Kind() == reflect.Pointer {
		return named
	}
	p := reflect.New(t.Elem())
	p.Elem().Set(named)
	return p
}

var identifiedType = reflect.TypeFor[channel.Identified]()

// identified is v as a message; false if it is none, or a nil pointer.
func identified(v any) (channel.Identified, bool) {
	m, ok := v.(channel.Identified)
	if rv := reflect.ValueOf(v); ok && rv.Kind() == reflect.Pointer && rv.IsNil() {
		return nil, false
	}
	return m, ok
}
