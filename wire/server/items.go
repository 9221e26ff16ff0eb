package server

import (
	"context"
	"errors"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/wire"
)

func hasItems(s *Server) bool { return s.opts.Items != nil }

func scansItems(s *Server) bool {
	_, ok := s.opts.Items.(store.Scanner)
	return ok
}

func sweepsItems(s *Server) bool {
	_, ok := s.opts.Items.(store.Sweeper)
	return ok
}

// storeBatch does a batch. If its puts were done before, it reads again, and puts nothing.
func storeBatch(c *call, p wire.Batch) ([]byte, error) {
	return c.once(p.Call, effect{do: func(ctx context.Context) (any, error) {
		return c.c.s.opts.Items.Batch(ctx, p.Ops...)
	}, answer: func(v any) ([]byte, error) {
		results, ok := v.([]store.Result)
		if !ok {
			var err error
			if results, err = c.readAgain(p.Ops); err != nil {
				return nil, err
			}
		}
		return wire.EncodeResults(p.Ops, results)
	}})
}

// readAgain reads for a batch that was done before, and whose writes are not done again: the results of its
// reading operations are those of now.
func (c *call) readAgain(ops []store.Op) ([]store.Result, error) {
	isPut := func(op store.Op) bool {
		_, is := op.(store.PutOp)
		return is
	}
	reads, err := c.c.s.opts.Items.Batch(c.ctx, slices.DeleteFunc(slices.Clone(ops), isPut)...)
	if err != nil {
		return nil, err
	}
	out := make([]store.Result, len(ops))
	for i := range ops {
		if !isPut(ops[i]) {
			out[i], reads = reads[0], reads[1:]
		}
	}
	return out, nil
}

// storeScan streams what one query selects, from one state of the store.
func storeScan(c *call, p wire.Batch) ([]byte, error) {
	if len(p.Ops) != 1 {
		return nil, wire.Errorf(wire.CodeBadRequest, "%d operations; a scan has one", len(p.Ops))
	}
	q, ok := p.Ops[0].(store.Query)
	if !ok {
		return nil, wire.Errorf(wire.CodeBadRequest, "a scan is a search")
	}
	return stream(c, c.c.s.opts.Items.(store.Scanner).Scan(c.ctx, q), func(f store.Found) ([]byte, error) {
		b, err := wire.Encode(&f)
		if errors.Is(err, saver.ErrNotFound) {
			return nil, nil
		}
		return b, err
	})
}

func storeSweep(c *call, p wire.Threads) ([]byte, error) {
	expired := func(v any) []byte { return wire.MustEncode(wire.Expired{Expired: v.(int)}) }
	return c.once(p.Call, effect{many: true, do: func(ctx context.Context) (any, error) {
		return c.c.s.opts.Items.(store.Sweeper).Sweep(ctx)
	}, answer: func(v any) ([]byte, error) { return expired(v), nil }, keep: expired})
}
