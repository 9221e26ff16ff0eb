//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/saver"
)

// impatient are options with which a server that is silent is soon given up.
func impatient(schema string) postgres.Options {
	return postgres.Options{Schema: schema, StatementTimeout: 500 * time.Millisecond, RetryTime: 100 * time.Millisecond, LeaseTime: time.Second}
}

// TestSilentServer: every call ends though nothing is heard of the server, wherever in the call that
// begins, and though its context never ends. What the server has done all the same is no failure,
// but of unknown outcome.
func TestSilentServer(t *testing.T) {
	url, ctx := pgtest.Shared(t).Database(t), t.Context()
	direct := open(t, url, postgres.Options{})
	there := func(thread string) (bool, error) {
		_, err := direct.GetTuple(ctx, saver.Config{ThreadID: thread})
		if errors.Is(err, saver.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
	gone := func(at saver.Config) (bool, error) {
		is, err := there(at.ThreadID)
		return !is, err
	}
	writes := []saver.Write{{Channel: "ch", Value: saver.ValueOf(1)}}
	var wg sync.WaitGroup
	var tried atomic.Int64
	table := map[string]struct {
		call func(s *postgres.Saver, at saver.Config) error
		done func(at saver.Config) (bool, error) // whether something has changed; nil for one that changes nothing, or nothing that counts
	}{
		"PutRequest": {
			func(s *postgres.Saver, at saver.Config) error {
				_, err := s.PutRequest(ctx, request(t, s, "new "+at.ThreadID, "", map[string]any{"n": 1}))
				return err
			},
			func(at saver.Config) (bool, error) { return there("new " + at.ThreadID) },
		},
		"PutWrites": {
			func(s *postgres.Saver, at saver.Config) error { return s.PutWrites(ctx, at, writes, "task", "") },
			func(at saver.Config) (bool, error) {
				tup, err := direct.GetTuple(ctx, at)
				return err == nil && len(tup.PendingWrites) > 0, err
			},
		},
		"GetTuple": {call: func(s *postgres.Saver, at saver.Config) error {
			_, err := s.GetTuple(ctx, at)
			return err
		}},
		"List": {call: func(s *postgres.Saver, at saver.Config) (err error) {
			for _, err = range s.List(ctx, saver.Query{ThreadID: at.ThreadID}) {
			}
			return err
		}},
		"List by metadata": {call: func(s *postgres.Saver, at saver.Config) (err error) {
			for _, err = range s.List(ctx, saver.Query{ThreadID: at.ThreadID, Filter: map[string]any{"source": "loop"}}) {
			}
			return err
		}},
		"Threads": {call: func(s *postgres.Saver, at saver.Config) error {
			_, _, err := saver.ThreadOf(ctx, s, at.ThreadID)
			return err
		}},
		"DeltaChannelHistory": {call: func(s *postgres.Saver, at saver.Config) error {
			_, err := s.DeltaChannelHistory(ctx, at, []string{"n"})
			return err
		}},
		"CountAttempt": {
			func(s *postgres.Saver, at saver.Config) error {
				_, err := s.CountAttempt(ctx, at)
				return err
			},
			func(at saver.Config) (bool, error) {
				n, err := direct.CountAttempt(ctx, at)
				return n > 1, err
			},
		},
		"CopyThread": {
			func(s *postgres.Saver, at saver.Config) error {
				return s.CopyThread(ctx, at.ThreadID, "copy "+at.ThreadID)
			},
			func(at saver.Config) (bool, error) { return there("copy " + at.ThreadID) },
		},
		"DeleteThread": {func(s *postgres.Saver, at saver.Config) error { return s.DeleteThread(ctx, at.ThreadID) }, gone},
		"DeleteForRuns": {
			func(s *postgres.Saver, at saver.Config) error {
				_, err := s.DeleteForRuns(ctx, []string{at.ThreadID}, nil)
				return err
			},
			gone,
		},
		"Prune": {
			func(s *postgres.Saver, at saver.Config) error {
				_, err := s.Prune(ctx, []string{at.ThreadID}, saver.PruneAll)
				return err
			},
			gone,
		},
		"Retain": {call: func(s *postgres.Saver, at saver.Config) error {
			_, err := s.Retain(ctx, saver.RetentionPolicy{KeepLast: 1, ThreadIDs: []string{at.ThreadID}}, false)
			return err
		}},
		"SetTTL": {call: func(s *postgres.Saver, at saver.Config) error { return s.SetTTL(ctx, at.ThreadID, time.Hour) }},
		"TTL": {call: func(s *postgres.Saver, at saver.Config) error {
			_, err := s.TTL(ctx, at.ThreadID)
			return err
		}},
		"Sweep": {call: func(s *postgres.Saver, _ saver.Config) error {
			_, err := s.Sweep(ctx)
			return err
		}},
		"Own": {call: func(s *postgres.Saver, at saver.Config) error {
			lease, err := s.Own(ctx, at.ThreadID, true)
			if err == nil {
				lease.Release()
			}
			return err
		}},
		"Sync": {call: func(s *postgres.Saver, at saver.Config) error {
			if err := s.PutWrites(saver.DeferSync(ctx), at, writes, "task", ""); err != nil {
				return err
			}
			return s.Sync(ctx)
		}},
		"Open": {call: func(s *postgres.Saver, _ saver.Config) error {
			_, err := postgres.OpenPool(ctx, postgres.Inside(s).Pool, impatient(""))
			return err
		}},
		"Setup": {call: func(s *postgres.Saver, at saver.Config) error {
			return postgres.SetupPool(ctx, postgres.Inside(s).Pool, impatient(at.ThreadID))
		}},
	}
	methods.Covered(t, direct, table, map[string]string{"Put": "see PutRequest", "Close": "see TestStoppedServer", "Metrics": "asks nobody", "NextVersion": "asks nobody",
		"Serializer": "asks nobody"})
	for name, c := range table {
		wg.Go(func() {
			pgtest.InSilence(t, url, func(url string) (func() error, func(error) error) {
				s, err := pgtest.Patiently(func() (*postgres.Saver, error) { return postgres.Open(ctx, url, impatient("")) })
				if err != nil {
					return func() error { return err }, func(error) error { return err }
				}
				req := request(t, direct, fmt.Sprint(name, tried.Add(1)), "", map[string]any{"n": 1})
				req.Metadata["run_id"] = req.Config.ThreadID
				at, err := direct.PutRequest(ctx, req)
				if err != nil {
					return func() error { return err }, func(error) error { return err }
				}
				return func() error { return c.call(s, at) }, func(err error) error {
					defer s.Close()
					if _, err := pgtest.Patiently(func() (any, error) { return nil, s.Sync(ctx) }); err != nil {
						return err
					}
					if c.done == nil || errors.Is(err, saver.ErrOutcomeUnknown) {
						return nil
					}
					done, unread := c.done(at)
					if unread == nil && done != (err == nil) {
						return fmt.Errorf("done: %v, and the error is %w", done, err)
					}
					return unread
				}
			})
		})
	}
	wg.Wait()
}

// TestStoppedServer: calls and Close end though the processes of the server are stopped, and what was
// under way is settled when they go on.
func TestStoppedServer(t *testing.T) {
	srv, err := newServer()
	if err != nil {
		pgtest.Need(t, err)
	}
	defer srv.Close()
	url, ctx := srv.Database(t), t.Context()
	direct := open(t, url, postgres.Options{})
	s, err := pgtest.Patiently(func() (*postgres.Saver, error) { return postgres.Open(ctx, url, impatient("")) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	closed, err := pgtest.Patiently(func() (*postgres.Saver, error) { return postgres.Open(ctx, url, impatient("")) })
	if err != nil {
		t.Fatal(err)
	}
	req := request(t, s, "t", "", map[string]any{"n": 1})
	goOn := srv.Freeze(t)
	ended := make(chan error, 2)
	go func() {
		_, err := s.PutRequest(ctx, req)
		ended <- err
	}()
	go func() { ended <- closed.Close() }()
	for range 2 {
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, saver.ErrOutcomeUnknown) && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("a call does not end before the server goes on")
		}
	}
	goOn()
	if _, err := pgtest.Patiently(func() (any, error) { return nil, s.Sync(ctx) }); err != nil {
		t.Fatal(err)
	}
	before, first := direct.GetTuple(ctx, saver.Config{ThreadID: "t"})
	if first != nil && !errors.Is(first, saver.ErrNotFound) {
		t.Fatal(first)
	}
	// Either way: what is there now stays, and what is not never comes.
	put(t, direct, "other", "", nil)
	after, second := direct.GetTuple(ctx, saver.Config{ThreadID: "t"})
	if (first == nil) != (second == nil) || first == nil && before.Config.CheckpointID != after.Config.CheckpointID {
		t.Errorf("after Sync: %v %v, then %v %v", before, first, after, second)
	}
}
