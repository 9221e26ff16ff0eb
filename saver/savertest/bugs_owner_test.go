package savertest

import (
	"context"
	"errors"
)

var ownerBugs = []bug{
	{"everybody gets the thread", "owner", func(m *mutant) {
		m.onOwn = func(ctx context.Context, _ string, _ bool) (func(), error) { return func() {}, ctx.Err() }
	}},
	{"who has one thread has them all", "owner", func(m *mutant) {
		m.onOwn = func(ctx context.Context, _ string, wait bool) (func(), error) { return m.Saver.Own(ctx, "any", wait) }
	}},
	{"releasing twice takes the thread from the next", "owner", func(m *mutant) {
		holders := map[string]func(){}
		m.onOwn = func(ctx context.Context, thread string, wait bool) (func(), error) {
			release, err := m.Saver.Own(ctx, thread, wait)
			if err != nil {
				return nil, err
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			holders[thread] = release
			return func() {
				m.mu.Lock()
				defer m.mu.Unlock()
				holders[thread]()
			}, nil
		}
	}},
	{"the error tells nothing", "owner", func(m *mutant) {
		m.onOwn = func(ctx context.Context, thread string, wait bool) (func(), error) {
			release, err := m.Saver.Own(ctx, thread, wait)
			if err != nil && ctx.Err() == nil {
				err = errors.New("conflict")
			}
			return release, err
		}
	}},
	{"nobody waits", "owner", func(m *mutant) {
		m.onOwn = func(ctx context.Context, thread string, _ bool) (func(), error) {
			return m.Saver.Own(ctx, thread, false)
		}
	}},
}
