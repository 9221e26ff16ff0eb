package store

import "context"

// opsAtATime is how many operations InBatches does in one commit.
const opsAtATime = 500

// Batched makes the calls of a Store that are one operation out of its Batch. A Store that has its
// work done elsewhere embeds it. It does not check keys, and of namespaces only those of puts:
// Batch does. Errors are those of Batch, and of Store for the call.
type Batched func(ctx context.Context, ops ...Op) ([]Result, error)

// one is the result of one operation.
func (b Batched) one(ctx context.Context, op Op) (Result, error) {
	results, err := b(ctx, op)
	if err != nil {
		return Result{}, err
	}
	return results[0], nil
}

// InBatches does operations whose results nobody needs, some at a time, in their order. Each batch is one
// commit, and all of them are not: after an error, which is that of a Batch, or a crash, the first are done. So
// they are such that may be done again.
func (b Batched) InBatches(ctx context.Context, ops []Op) error {
	for ; len(ops) > opsAtATime; ops = ops[opsAtATime:] {
		if _, err := b(ctx, ops[:opsAtATime]...); err != nil {
			return err
		}
	}
	_, err := b(ctx, ops...)
	return err
}

// Get implements Store.
func (b Batched) Get(ctx context.Context, ns Namespace, key string, opts ...GetOption) (*Item, error) {
	op := GetOp{Namespace: ns, Key: key}
	for _, o := range opts {
		o(&op)
	}
	r, err := b.one(ctx, op)
	if err == nil && r.Item == nil {
		err = notFound(ns, key)
	}
	return r.Item, err
}

// Put implements Store.
func (b Batched) Put(ctx context.Context, ns Namespace, key string, value map[string]any, opts ...PutOption) error {
	op, err := putOf(ns, key, value, opts)
	if err != nil {
		return err
	}
	_, err = b(ctx, op)
	return err
}

// putOf is the operation of a Put.
func putOf(ns Namespace, key string, value map[string]any, opts []PutOption) (PutOp, error) {
	op := PutOp{Namespace: ns, Key: key, Value: value}
	if err := CheckNamespace(ns); err != nil {
		return op, err
	}
	if value == nil {
		return op, invalidf("value", "nil; Delete removes an item")
	}
	for _, o := range opts {
		o(&op)
	}
	return op, nil
}

// Delete implements Store.
func (b Batched) Delete(ctx context.Context, ns Namespace, key string) error {
	_, err := b(ctx, PutOp{Namespace: ns, Key: key})
	return err
}

// Search implements Store.
func (b Batched) Search(ctx context.Context, q Query) ([]Found, error) {
	r, err := b.one(ctx, q)
	return r.Found, err
}

// ListNamespaces implements Store.
func (b Batched) ListNamespaces(ctx context.Context, q NamespaceQuery) ([]Namespace, error) {
	r, err := b.one(ctx, q)
	return r.Namespaces, err
}
