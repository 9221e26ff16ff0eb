package pregel

import (
	"context"
	"fmt"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// With Options.AtomicStore, what a task puts into the store is treated like a write to a
// channel. It is discarded if the attempt fails. It is stored with the pending writes of the
// task, so that another process can resume the run with it. When the superstep ends, the
// puts of all tasks are committed with its checkpoint.

// atomicStore has the methods of a store that Options.AtomicStore needs; *store.Local implements it.
type atomicStore interface {
	store.Store
	Check(ops ...store.PutOp) ([]store.PutOp, error)
	Prepare(ctx context.Context, ops ...store.PutOp) (saver.Change, error)
}

// checkAtomicStore refuses a store or a saver that cannot store items with checkpoints.
func (g *Graph) checkAtomicStore() error {
	if !g.opts.AtomicStore {
		return nil
	}
	var ok bool
	if g.items, ok = g.opts.Store.(atomicStore); !ok {
		return &GraphError{Reason: fmt.Sprintf("AtomicStore needs a store that prepares puts, as *store.Local does; Store is a %T", g.opts.Store)}
	}
	return nil
}

// taskStore is the store as a task sees it. It buffers the puts of the task.
type taskStore struct {
	atomicStore
	run *taskAttempt
}

// Put implements store.Store.
func (s *taskStore) Put(ctx context.Context, ns store.Namespace, key string, value map[string]any, opts ...store.PutOption) error {
	return store.Batched(s.Batch).Put(ctx, ns, key, value, opts...)
}

// Delete implements store.Store.
func (s *taskStore) Delete(_ context.Context, ns store.Namespace, key string) error {
	return s.buffer(store.PutOp{Namespace: ns, Key: key})
}

// Batch implements store.Store.
func (s *taskStore) Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	var puts []store.PutOp
	var reads []store.Op
	var at []int
	for i, op := range ops {
		if p, ok := op.(store.PutOp); ok {
			puts = append(puts, p)
			continue
		}
		reads, at = append(reads, op), append(at, i)
	}
	results := make([]store.Result, len(ops))
	if len(reads) > 0 {
		found, err := s.atomicStore.Batch(ctx, reads...)
		if err != nil {
			return nil, err
		}
		for k, i := range at {
			results[i] = found[k]
		}
	}
	return results, s.buffer(puts...)
}

func (s *taskStore) buffer(ops ...store.PutOp) error {
	if len(ops) == 0 {
		return nil
	}
	ops, err := s.Check(ops...)
	if err != nil {
		return err
	}
	records := make([]any, len(ops))
	for i, op := range ops {
		records[i] = recordOf(op)
	}
	return s.run.out.buffer(records)
}

// buffer adds puts to the writes. It fails if the attempt has ended, because nobody would
// store them.
func (a *taskOutput) buffer(records []any) error {
	a.touch()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return ErrOutsideTask
	}
	a.writes = append(a.writes, write{chItems, records})
	return nil
}

// recordOf encodes op as plain data.
func recordOf(op store.PutOp) map[string]any {
	r := map[string]any{"ns": anys(op.Namespace), "key": op.Key}
	if op.Value != nil {
		r["value"] = op.Value
	}
	if op.TTL != 0 {
		r["ttl"] = int64(op.TTL)
	}
	if op.NoIndex {
		r["no_index"] = true
	}
	if op.IndexFields != nil {
		r["fields"] = anys(op.IndexFields)
	}
	return r
}

// opsOf decodes a list of records that recordOf encoded. It accepts any data.
func opsOf(v any) ([]store.PutOp, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("want a list of items, got %T", v)
	}
	ops := make([]store.PutOp, len(list))
	for i, e := range list {
		r, ok := e.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("item %d: want a map, got %T", i, e)
		}
		if err := opOf(r, &ops[i]); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
	}
	return ops, nil
}

func opOf(r map[string]any, op *store.PutOp) (err error) {
	ns, err := stringsOf(r["ns"])
	if err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	op.Namespace = ns
	var ok [4]bool
	op.Key, ok[0] = r["key"].(string)
	op.Value, ok[1] = r["value"].(map[string]any)
	ttl, isTTL := r["ttl"].(int64)
	op.TTL, ok[2] = time.Duration(ttl), isTTL
	op.NoIndex, ok[3] = r["no_index"].(bool)
	for i, name := range []string{"key", "value", "ttl", "no_index"} {
		if _, there := r[name]; !ok[i] && (there || i == 0) {
			return fmt.Errorf("%s: got %T", name, r[name])
		}
	}
	if fields, there := r["fields"]; there {
		if op.IndexFields, err = stringsOf(fields); err != nil {
			return fmt.Errorf("fields: %w", err)
		}
	}
	return nil
}

func stringsOf(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("want a list, got %T", v)
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], ok = e.(string); !ok {
			return nil, fmt.Errorf("element %d: want a text, got %T", i, e)
		}
	}
	return out, nil
}

// itemsAtOnce is how many items one Batch may store.
const itemsAtOnce = 10_000
