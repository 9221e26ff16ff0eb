package server

import (
	"context"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/wire"
)

func deleteThread(c *call, p wire.Threads) ([]byte, error) {
	return c.once(p.Call, effect{do: func(ctx context.Context) (any, error) {
		return nil, c.c.s.opts.Saver.DeleteThread(ctx, p.Thread)
	}, answer: nothing})
}

func copyThread(c *call, p wire.Threads) ([]byte, error) {
	return c.once(p.Call, effect{do: func(ctx context.Context) (any, error) {
		return nil, c.c.s.opts.Saver.CopyThread(ctx, p.Thread, p.To)
	}, answer: nothing})
}

// removal encodes the answer of a removal. For a call that was done before, the counts are known, but
// not which checkpoints it kept, as names are not stored with calls.
func removal(v any) ([]byte, error) {
	rem, _ := v.(saver.Removal)
	return wire.Encode(&rem)
}

func keepRemoval(v any) []byte {
	rem, _ := v.(saver.Removal)
	rem.Kept = nil
	return wire.MustEncode(&rem)
}

func deleteForRuns(c *call, p wire.Threads) ([]byte, error) {
	return c.once(p.Call, effect{do: func(ctx context.Context) (any, error) {
		var owned *saver.Lease
		if p.Epoch != 0 {
			owned = saver.NewLease(p.Thread, p.Epoch, nil, nil, func() {}) // as its owner says
		}
		return c.c.s.opts.Saver.DeleteForRuns(ctx, p.Runs, owned)
	}, answer: removal, keep: keepRemoval})
}

func prune(c *call, p wire.Threads) ([]byte, error) {
	return c.once(p.Call, effect{do: func(ctx context.Context) (any, error) {
		return c.c.s.opts.Saver.Prune(ctx, p.Threads, p.Strategy)
	}, answer: removal, keep: keepRemoval})
}

func threads(c *call, q saver.ThreadQuery) ([]byte, error) {
	if q.Limit == saver.NoResults {
		return wire.Encode(wire.Counted{})
	}
	return stream(c, c.c.s.opts.Saver.Threads(c.ctx, q), func(t saver.ThreadInfo) ([]byte, error) {
		return wire.Encode(&t)
	})
}

func retain(c *call, p wire.Retain) ([]byte, error) {
	if p.DryRun {
		p.Call = nil // it changes nothing
	}
	return c.once(p.Call, effect{many: true, do: func(ctx context.Context) (any, error) {
		return c.c.s.opts.Saver.Retain(ctx, p.Policy, p.DryRun)
	}, answer: wire.Encode, keep: func(v any) []byte {
		rep := v.(saver.RetentionReport)
		rep.Over, rep.Kept = nil, nil
		return wire.MustEncode(&rep)
	}})
}

func setTTL(c *call, p wire.Threads) ([]byte, error) {
	return c.once(p.Call, effect{do: func(ctx context.Context) (any, error) {
		return nil, c.c.s.opts.Saver.SetTTL(ctx, p.Thread, p.TTL)
	}, answer: nothing})
}

func sweep(c *call, p wire.Threads) ([]byte, error) {
	expired := func(v any) []byte { return wire.MustEncode(wire.Expired{Expired: v.(saver.SweepReport).Expired}) }
	return c.once(p.Call, effect{many: true, do: func(ctx context.Context) (any, error) {
		return c.c.s.opts.Saver.Sweep(ctx)
	}, answer: func(v any) ([]byte, error) { return expired(v), nil }, keep: expired})
}

func erase(c *call, p wire.Threads) ([]byte, error) {
	return c.once(p.Call, effect{many: true, do: func(ctx context.Context) (any, error) {
		return nil, c.c.s.opts.Saver.(saver.Eraser).Erase(ctx, p.Threads...)
	}, answer: nothing})
}
