package savertest

import (
	"context"
	"errors"

	"github.com/stele-go/stele/saver"
)

var ownerBugs = []bug{
	{"everybody gets the thread", "owner", func(m *mutant) {
		m.onOwn = func(ctx context.Context, _ string, _ bool) (*saver.Lease, error) {
			return saver.NewLease("t", 1, nil, nil, func() {}), ctx.Err()
		}
	}},
	{"who has one thread has them all", "owner", func(m *mutant) {
		m.onOwn = func(ctx context.Context, thread string, wait bool) (*saver.Lease, error) {
			lease, err := m.Saver.Own(ctx, "any", wait)
			if err != nil {
				return nil, err
			}
			return saver.NewLease(thread, lease.Epoch(), nil, nil, lease.Release), nil
		}
	}},
	{"the error tells nothing", "owner", func(m *mutant) {
		m.onOwn = func(ctx context.Context, thread string, wait bool) (*saver.Lease, error) {
			lease, err := m.Saver.Own(ctx, thread, wait)
			if err != nil && ctx.Err() == nil {
				err = errors.New("conflict")
			}
			return lease, err
		}
	}},
	{"put ignores epochs", "owner", func(m *mutant) { m.onPut = func(req *saver.PutRequest) { req.Config.Epoch = 0 } }},
	{"put writes ignores epochs", "owner", func(m *mutant) {
		m.onWrites = func(cfg *saver.Config, _ *[]saver.Write, _ *string) { cfg.Epoch = 0 }
	}},
	{"delete for runs ignores leases", "owner", func(m *mutant) { m.onOwned = func(owned **saver.Lease) { *owned = nil } }},
	{"every lease has the same epoch", "owner", func(m *mutant) {
		m.onOwn = func(ctx context.Context, thread string, wait bool) (*saver.Lease, error) {
			lease, err := m.Saver.Own(ctx, thread, wait)
			if err != nil {
				return nil, err
			}
			return saver.NewLease(thread, 7, nil, nil, lease.Release), nil
		}
		m.onPut = func(req *saver.PutRequest) { req.Config.Epoch = 0 }
		m.onWrites = func(cfg *saver.Config, _ *[]saver.Write, _ *string) { cfg.Epoch = 0 }
		m.onOwned = func(owned **saver.Lease) { *owned = nil }
	}},
	{"nobody waits", "owner", func(m *mutant) {
		m.onOwn = func(ctx context.Context, thread string, _ bool) (*saver.Lease, error) {
			return m.Saver.Own(ctx, thread, false)
		}
	}},
}
