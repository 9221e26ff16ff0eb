//go:build unix

package pgstore_test

import (
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
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/pgstore"
)

// TestSilentServer: every call ends though nothing is heard of the server, as TestSilentServer of the
// saver's has it.
func TestSilentServer(t *testing.T) {
	url, ctx := pgtest.Shared(t).Database(t), t.Context()
	impatient := postgres.Options{StatementTimeout: 500 * time.Millisecond, RetryTime: 100 * time.Millisecond}
	direct := openStore(t, url, postgres.Options{}, store.Options{})
	ns := store.Namespace{"a", "b"}
	value := map[string]any{"n": 1}
	there := func(key string) (bool, error) {
		_, err := direct.Get(ctx, ns, key)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
	var wg sync.WaitGroup
	var tried atomic.Int64
	table := map[string]struct {
		call func(s *pgstore.Store, key string) error
		done func(key string) (bool, error)
	}{
		"Put": {
			func(s *pgstore.Store, key string) error { return s.Put(ctx, ns, "new "+key, value) },
			func(key string) (bool, error) { return there("new " + key) },
		},
		"Delete": {
			func(s *pgstore.Store, key string) error { return s.Delete(ctx, ns, key) },
			func(key string) (bool, error) {
				is, err := there(key)
				return !is, err
			},
		},
		"Get": {call: func(s *pgstore.Store, key string) error {
			_, err := s.Get(ctx, ns, key)
			return err
		}},
		"Search": {call: func(s *pgstore.Store, _ string) error {
			_, err := s.Search(ctx, store.Query{Prefix: ns, Filter: value})
			return err
		}},
		"ListNamespaces": {call: func(s *pgstore.Store, _ string) error {
			_, err := s.ListNamespaces(ctx, store.NamespaceQuery{})
			return err
		}},
		"Sweep": {call: func(s *pgstore.Store, _ string) error {
			_, err := s.Sweep(ctx)
			return err
		}},
		"Batch": {
			func(s *pgstore.Store, key string) error {
				_, err := s.Batch(ctx, store.PutOp{Namespace: ns, Key: "new " + key, Value: value}, store.GetOp{Namespace: ns, Key: key})
				return err
			},
			func(key string) (bool, error) { return there("new " + key) },
		},
		"PutOver": {
			func(s *pgstore.Store, key string) error {
				was, err := direct.Get(ctx, ns, key, store.NoRefresh())
				if err != nil {
					return err
				}
				ok, err := s.PutOver(ctx, was, store.PutOp{Namespace: ns, Key: "new " + key, Value: value})
				if err == nil && !ok {
					return errors.New("the item is another one")
				}
				return err
			},
			func(key string) (bool, error) { return there("new " + key) },
		},
		"InBatches": {
			func(s *pgstore.Store, key string) error {
				return s.InBatches(ctx, []store.Op{store.PutOp{Namespace: ns, Key: "new " + key, Value: value}})
			},
			func(key string) (bool, error) { return there("new " + key) },
		},
		"Restore": {
			func(s *pgstore.Store, key string) error {
				return s.Restore(ctx, store.Item{Namespace: ns, Key: "new " + key, Value: value, CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(1, 0)})
			},
			func(key string) (bool, error) { return there("new " + key) },
		},
		"Append": {call: func(s *pgstore.Store, key string) error {
			return s.Append(ctx, store.Namespace{"log"}, key, key, value)
		}},
		"Move": {call: func(s *pgstore.Store, key string) error {
			_, err := s.Move(ctx, store.Namespace{"from", key}, store.Namespace{"to", key}, false)
			return err
		}},
		"Scan": {call: func(s *pgstore.Store, _ string) (err error) {
			for _, err = range s.Scan(ctx, store.Query{Prefix: ns}) {
			}
			return err
		}},
		"Sync": {call: func(s *pgstore.Store, _ string) error { return s.Sync(ctx) }},
	}
	methods.Covered(t, direct, table, map[string]string{"Close": "TestStoppedServer of the saver has it"})
	for name, c := range table {
		wg.Go(func() {
			pgtest.InSilence(t, url, func(url string) (func() error, func(error) error) {
				s, err := pgtest.Patiently(func() (*pgstore.Store, error) { return pgstore.Open(ctx, url, impatient, store.Options{}) })
				key := fmt.Sprint(name, tried.Add(1))
				if err == nil {
					err = direct.Put(ctx, ns, key, value, store.TTL(time.Hour)) // which a Get renews
				}
				if err != nil {
					return func() error { return err }, func(error) error { return err }
				}
				return func() error { return c.call(s, key) }, func(err error) error {
					defer s.Close()
					if c.done == nil || errors.Is(err, saver.ErrOutcomeUnknown) {
						return nil
					}
					done, unread := c.done(key)
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
