package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire"
)

// Items is the long-term store of a server. It implements store.Store, store.Scanner and
// store.Sweeper, and is safe for concurrent use.
type Items struct {
	store.Batched
	c *Client
}

var (
	_ store.Store   = (*Items)(nil)
	_ store.Scanner = (*Items)(nil)
	_ store.Sweeper = (*Items)(nil)
)

// Items returns the long-term store beside the saver.
func (c *Client) Items() *Items {
	s := &Items{c: c}
	s.Batched = s.Batch
	return s
}

// Batch implements store.Store. If the call had to be asked again, its reads may see its own
// puts.
func (s *Items) Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	writes := false
	for i, op := range ops {
		switch op := op.(type) {
		case store.PutOp:
			writes = true
		case store.Query:
			if _, err := store.CompileFilter(op.Filter); err != nil {
				return nil, err
			}
		case store.GetOp, store.NamespaceQuery:
		default:
			return nil, saver.Invalidf("ops", "operation %d has type %T", i, op)
		}
	}
	p := wire.Batch{Ops: ops}
	body, _, err := s.c.call(ctx, request{method: "store_batch", writes: writes, params: &p})
	if err != nil {
		return nil, ofItems(err)
	}
	return wire.DecodeResults(body, ops)
}

// ofItems converts a server's error to one of package store, if it is one.
func ofItems(err error) error {
	var invalid *saver.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	switch {
	case invalid.Field == wire.FieldNamespace:
		return &store.NamespaceError{Reason: invalid.Reason}
	case invalid.Field == wire.FieldVector:
		return &store.VectorError{Reason: invalid.Reason}
	case invalid.Field == wire.FieldIndex:
		return fmt.Errorf("%w: %w", store.ErrNoIndex, err)
	}
	return err
}

// Scan implements store.Scanner.
func (s *Items) Scan(ctx context.Context, q store.Query) iter.Seq2[store.Found, error] {
	p := wire.Batch{Ops: []store.Op{q}}
	if _, err := store.CompileFilter(q.Filter); err != nil {
		return func(yield func(store.Found, error) bool) { yield(store.Found{}, err) }
	}
	return func(yield func(store.Found, error) bool) {
		for f, err := range listing[store.Found](ctx, s.c, "store_scan", &p) {
			if err != nil {
				err = ofItems(err)
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// Sweep implements store.Sweeper.
func (s *Items) Sweep(ctx context.Context) (int, error) {
	a, err := write[wire.Expired](ctx, s.c, "store_sweep", wire.Threads{})
	return a.Expired, err
}
