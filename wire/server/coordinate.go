package server

import (
	"context"
	"errors"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/wire"
)

// syncStore settles what this server answered. A follower settles nothing, nor does a leader whose place another took:
// what it answered may be in no lineage, and no other server knows.
func syncStore(c *call, _ wire.Threads) ([]byte, error) {
	if f, ok := c.c.s.opts.Saver.(interface{ Follows() bool }); ok && f.Follows() {
		return nil, fault.ErrFollower
	}
	err := c.c.s.opts.Saver.Sync(c.ctx)
	if errors.Is(err, fault.ErrFenced) {
		err = wire.Errorf(wire.CodeUnknownOutcome, "%v", err)
	}
	return nil, err
}

func stats(c *call, _ wire.Threads) ([]byte, error) {
	return wire.Encode(c.c.s.opts.Stats())
}

// own takes a lease for as long as the connection lasts.
func own(c *call, p wire.Threads) ([]byte, error) {
	l, err := c.c.s.opts.Saver.Own(c.ctx, p.Thread, p.Wait)
	if err != nil {
		return nil, err
	}
	cn := c.c
	cn.mu.Lock()
	cn.last++
	o := wire.Owned{Lease: cn.last, Epoch: l.Epoch()}
	cn.leases[o.Lease] = l
	cn.mu.Unlock()
	if l.Lost() != nil {
		go cn.watch(o.Lease, l)
	}
	return wire.Encode(o)
}

// watch tells the client when a lease is lost.
func (c *conn) watch(id int64, l *saver.Lease) {
	select {
	case <-c.ctx.Done():
	case <-l.Lost():
		_ = c.notify("lost", wire.Control{Lease: id}) // a hint
	}
}

func release(c *call, p wire.Threads) ([]byte, error) {
	c.c.mu.Lock()
	l := c.c.leases[p.Lease]
	delete(c.c.leases, p.Lease)
	c.c.mu.Unlock()
	if l != nil {
		l.Release()
	}
	return nil, nil
}

func countAttempt(c *call, p wire.At) ([]byte, error) {
	attempts := func(v any) []byte { return wire.MustEncode(wire.Attempts{Attempts: v.(int)}) }
	return c.once(p.Call, effect{do: func(ctx context.Context) (any, error) {
		return c.c.s.opts.Saver.CountAttempt(ctx, p.Config)
	}, answer: func(v any) ([]byte, error) { return attempts(v), nil }, keep: attempts})
}

func deltaHistory(c *call, p wire.At) ([]byte, error) {
	for try := 0; ; try++ {
		h, err := c.c.s.opts.Saver.DeltaChannelHistory(c.ctx, p.Config, p.Channels)
		if err != nil {
			return nil, err
		}
		b, err := wire.Encode(h)
		if errors.Is(err, saver.ErrNotFound) && try < moved {
			continue
		}
		return b, err
	}
}
