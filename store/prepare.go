package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// CheckAddress refuses, with saver.ErrTooLarge, namespaces and keys that are over the limits.
func CheckAddress(ns Namespace, key string) error {
	if err := checkSize(ns); err != nil {
		return err
	}
	return checkKey(key)
}

func notFound(ns Namespace, key string) error {
	return fmt.Errorf("key %q in namespace %q: %w", key, []string(ns), ErrNotFound)
}

// prepare checks, serializes and embeds puts, so that every refusal comes before a byte is
// written. Of several puts under one key the last counts.
func (s *Local) prepare(ctx context.Context, puts []PutOp) ([]change, error) {
	type address struct{ ns, key string }
	at := make(map[address]int, len(puts))
	changes := make([]change, 0, len(puts))
	from := make([]*PutOp, 0, len(puts))
	size := 0
	for i := range puts {
		op := &puts[i]
		if err := CheckAddress(op.Namespace, op.Key); err != nil {
			return nil, err
		}
		c := change{ns: idOf(op.Namespace), key: op.Key}
		if err := s.encode(&c, op); err != nil {
			return nil, err
		}
		if size += len(c.value.Data); size > base.MaxCall {
			return nil, fmt.Errorf("the call has more than %d bytes of values: %w", base.MaxCall, saver.ErrTooLarge)
		}
		n, again := at[address{c.ns, c.key}]
		if again {
			changes[n], from[n] = c, op
			continue
		}
		at[address{c.ns, c.key}] = len(changes)
		changes, from = append(changes, c), append(from, op)
	}
	if s.opts.Index == nil {
		return changes, nil
	}
	return changes, s.embed(ctx, changes, from)
}

func (s *Local) encode(c *change, op *PutOp) error {
	if op.Value == nil {
		c.remove = true
		return nil
	}
	var err error
	if c.value, err = s.codec.Encode(op.Value); err != nil {
		return fmt.Errorf("key %q: %w", op.Key, err)
	}
	if n := len(c.value.Data); n > base.MaxValue {
		return fmt.Errorf("key %q: value of %d bytes, the limit is %d: %w", op.Key, n, base.MaxValue, saver.ErrTooLarge)
	}
	if !isEncrypted(c.value.Kind) {
		c.summary = summarize(op.Value)
	}
	switch {
	case op.TTL > 0:
		c.ttl = max(op.TTL.Microseconds(), 1)
	case op.TTL == 0:
		c.ttl = s.opts.TTL.Microseconds()
	}
	return nil
}

// isEncrypted reports whether a value of this kind is encrypted. Then neither its summary
// nor its vectors may be stored in the clear.
func isEncrypted(kind string) bool { return strings.Contains(kind, "+") }

// texts are the texts of an item to embed.
func (s *Local) texts(op *PutOp) ([]string, error) {
	if s.opts.Index == nil || op.Value == nil || op.NoIndex {
		return nil, nil
	}
	paths := op.IndexFields
	if paths == nil {
		paths = s.opts.Index.Fields
	}
	if paths == nil {
		paths = []string{"$"}
	}
	var texts []string
	for _, path := range paths {
		texts = append(texts, TextAtPath(op.Value, path)...)
	}
	if len(texts) > MaxVectors {
		return nil, fmt.Errorf("key %q: %d texts to index, the limit is %d: %w", op.Key, len(texts), MaxVectors, saver.ErrTooLarge)
	}
	return texts, nil
}

// embed calls the embedder once for all texts of a call.
func (s *Local) embed(ctx context.Context, changes []change, from []*PutOp) error {
	ix := s.opts.Index
	var texts []string
	var owners []*change // of each text
	for i := range changes {
		of, err := s.texts(from[i])
		if err != nil {
			return err
		}
		texts = append(texts, of...)
		owners = append(owners, slices.Repeat([]*change{&changes[i]}, len(of))...)
	}
	if len(texts) == 0 {
		return nil
	}
	vecs, err := ix.Vectors(ctx, texts)
	if err != nil {
		return err
	}
	for i, v := range vecs {
		owners[i].vectors = append(owners[i].vectors, v)
	}
	return nil
}

// Check refuses what Prepare would refuse, except for errors of the embedder. It returns a
// copy of ops with the values as a read would return them. A deletion may have any
// namespace.
func (s *Local) Check(ops ...PutOp) ([]PutOp, error) {
	if len(ops) > MaxBatch {
		return nil, invalidf("ops", "%d at once, the limit is %d", len(ops), MaxBatch)
	}
	out := slices.Clone(ops)
	for i := range out {
		op := &out[i]
		if op.Value != nil {
			if err := CheckNamespace(op.Namespace); err != nil {
				return nil, err
			}
		}
		if err := CheckAddress(op.Namespace, op.Key); err != nil {
			return nil, err
		}
		if op.Value == nil {
			continue
		}
		var c change
		err := s.encode(&c, op)
		if err != nil {
			return nil, err
		}
		if _, err := s.texts(op); err != nil {
			return nil, err
		}
		if op.Value, err = decodeValue(s.codec, c.value); err != nil {
			return nil, fmt.Errorf("key %q: %w", op.Key, err)
		}
		op.Namespace, op.IndexFields = slices.Clone(op.Namespace), slices.Clone(op.IndexFields)
	}
	return out, nil
}

// Prepare makes puts and deletions ready to be committed in one transaction with a
// checkpoint. So what an agent's step learned is stored with the step, or neither is.
//
//	learned, err := mem.Prepare(ctx, store.PutOp{Namespace: ns, Key: "k", Value: v})
//	_, err = disk.PutRequest(ctx, saver.PutRequest{…, Changes: []saver.Change{learned}})
//
// Nothing is stored until then. The changes of a store on a durable saver can be committed
// by that saver only, those of a store in memory by any saver/memory.Saver. There may be more
// than in a Batch: the commit has limits of its own. Errors are those of Put.
func (s *Local) Prepare(ctx context.Context, ops ...PutOp) (saver.Change, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for i := range ops {
		if err := CheckNamespace(ops[i].Namespace); err != nil && ops[i].Value != nil {
			return nil, err
		}
	}
	changes, err := s.prepare(ctx, ops)
	if err != nil {
		return nil, err
	}
	if s.disk == nil {
		m := s.back.(*memory)
		return rules.MemoryChange{Apply: func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.apply(changes)
		}}, nil
	}
	part, err := s.disk.part(changes)
	if err != nil {
		return nil, err
	}
	return engine.Prepared{Engine: s.disk.e, Change: part}, nil
}
