package pregel

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/stele-go/stele/pregel/internal/answer"
)

// Expose publishes a value of the running body under a name, for who looks at the thread meanwhile:
// StateSnapshot.Exposed, and the thread's state over HTTP. It is for bodies that run for days, whose state is in
// their variables. The newest value of a name counts, until the superstep ends; those of tasks side by side need
// names of their own. Nothing else reads it.
//
// The value is stored like a pending write, in the order of the task's saves, and so survives a crash as they do;
// under Exit it is stored when the run stops. A body that runs again, and exposes again what it did, changes
// nothing: the values of a name are told apart by their order, and the first one at a place is kept. So a value
// should be made of what the body's calls, sleeps and signals gave.
// Each value is kept until the superstep ends, as each call is.
//
// Errors: ErrOutsideTask; ErrNoSaver; an *ArgumentError for an empty name; that of the serializer for a value that
// cannot be stored.
func Expose(ctx context.Context, name string, value any) error {
	r, err := attemptFrom(ctx)
	if err != nil {
		return fmt.Errorf("expose %q: %w", name, err)
	}
	if name == "" {
		return &ArgumentError{Field: "name", Reason: "is missing"}
	}
	r.out.touch()
	n := r.task.exposed.next(name)
	anchor, place := r.anchor()
	if anchor == nil {
		return fmt.Errorf("expose %q: %w", name, ErrNoSaver)
	}
	x := &exposed{task: anchor.task, at: strings.Join(append([]string{anchor.task.id, name}, place...), "|"), n: n, name: name, value: value}
	step := anchor.step.Get()
	if err := step.ask(request{kind: reqExpose, exposed: x, stored: make(chan error, 1)}); err != nil {
		return fmt.Errorf("expose %q: %w", name, err)
	}
	return nil
}

// counts are how often a body has exposed a value, by name.
type counts struct {
	mu sync.Mutex
	of map[string]int64
}

func (c *counts) next(name string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int64{}
	}
	c.of[name]++
	return c.of[name]
}

func (c *counts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of = nil
}

// exposed is a value that a body exposes: the n-th of the name by the body at a place in a task that stores.
type exposed struct {
	task  *task
	at    string
	n     int64
	name  string
	value any
}

// exposedOf reads a record of what was exposed. ok is false for another record.
func exposedOf(record map[string]any) (x exposed, ok bool) {
	x.name, ok = record["exposed"].(string)
	x.n, _ = record["n"].(int64)
	x.at, _ = record["at"].(string)
	x.value = record["value"]
	return x, ok
}

// expose stores a value, unless it is stored.
func (l *loop) expose(x *exposed) error {
	if x.n <= l.pos.waits.exposedAt[x.at] {
		return nil
	}
	record := map[string]any{"exposed": x.name, "at": x.at, "n": x.n, "value": x.value, "when": l.run.now().UnixMicro()}
	if err := l.recordWait(x.task, fmt.Sprint("exposed ", x.n, " ", x.at), record); err != nil {
		return err
	}
	l.pos.waits.expose(*x)
	return nil
}

// expose notes what has been exposed.
func (w *waitsReached) expose(x exposed) {
	if w.exposedAt == nil {
		w.exposedAt = map[string]int64{}
	}
	w.exposedAt[x.at] = max(w.exposedAt[x.at], x.n)
}

// exposedIn are the newest values in pending writes; nil if there are none.
func exposedIn(pending []answer.Write) map[string]any {
	newest := map[string]exposed{}
	for _, w := range pending {
		record, _ := w.Value.(map[string]any)
		if w.Channel != chWaits {
			continue
		}
		if x, ok := exposedOf(record); ok && x.n >= newest[x.name].n {
			newest[x.name] = x
		}
	}
	var values map[string]any
	for name, x := range newest {
		if values == nil {
			values = map[string]any{}
		}
		values[name] = x.value
	}
	return values
}
