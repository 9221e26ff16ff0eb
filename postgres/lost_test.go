//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/saver"

	"github.com/stele-go/stele/postgres/pgtest"
)

// relayed is a saver whose connections lead through a relay, and the address of its database.
func relayed(t *testing.T) (r *pgtest.Relay, s *postgres.Saver, url string) {
	t.Helper()
	url = pgtest.Shared(t).Database(t)
	open(t, url, postgres.Options{})
	r, through := pgtest.NewRelay(t, url)
	s, err := postgres.Open(t.Context(), through, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return r, s, url
}

// The answer to a commit is lost: the call finds out by itself that it was written, and
// neither fails nor writes twice.
func TestLostAnswers(t *testing.T) {
	r, s, url := relayed(t)
	first := put(t, s, "t", "", map[string]any{"n": 1})
	r.LoseNext("\"public\".stele_put(", nil)
	req := request(t, s, "t", first.CheckpointID, map[string]any{"n": 2})
	req.Config.ExpectHead = saver.Head(first.CheckpointID)
	cfg, err := s.PutRequest(t.Context(), req)
	if err != nil {
		t.Fatalf("a put with a lost answer: %v", err)
	}
	if got := get(t, s, saver.Config{ThreadID: "t"}); got.Config.CheckpointID != cfg.CheckpointID {
		t.Errorf("head %v, want %v", got.Config, cfg)
	}
	r.LoseNext("\"public\".stele_put_writes(", nil)
	if err := s.PutWrites(t.Context(), cfg, []saver.Write{{Channel: "ch", Value: saver.ValueOf(1)}}, "task", ""); err != nil {
		t.Fatalf("writes with a lost answer: %v", err)
	}
	if got := get(t, s, cfg).PendingWrites; len(got) != 1 {
		t.Errorf("writes %v", got)
	}
	if n := pgtest.Column(t, pgtest.Connect(t, url), `SELECT count(*)::text FROM stele_voided`)[0]; n != "2" {
		t.Errorf("%s calls were settled, want 2", n)
	}
}

// TestLostTransactions: a connection that is lost inside a transaction of several round trips costs no call: nothing
// of it was committed.
func TestLostTransactions(t *testing.T) {
	r, s, _ := relayed(t)
	at := put(t, s, "t", "", map[string]any{"n": 1})
	for name, call := range map[string]func() error{
		"Threads": func() error {
			_, found, err := saver.ThreadOf(t.Context(), s, "t")
			if err == nil && !found {
				err = saver.ErrNotFound
			}
			return err
		},
		"List": func() error {
			for tup, err := range s.List(t.Context(), saver.Query{Filter: map[string]any{"no": "such"}}) {
				return fmt.Errorf("%v %w", tup, err)
			}
			return nil
		},
		"DeltaChannelHistory": func() error {
			_, err := s.DeltaChannelHistory(t.Context(), at, []string{"n"})
			return err
		},
		"CountAttempt": func() error {
			n, err := s.CountAttempt(t.Context(), at)
			if err == nil && n != 1 {
				err = fmt.Errorf("%d attempts", n)
			}
			return err
		},
		"CopyThread": func() error { return s.CopyThread(t.Context(), "t", "copy") },
		"SetTTL":     func() error { return s.SetTTL(t.Context(), "t", time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			begun, cut := false, false
			r.Cut(func(b []byte) bool { // what comes first in a transaction
				cut = begun
				begun = begun || strings.Contains(string(b), "begin")
				return cut
			}, nil)
			if err := call(); err != nil {
				t.Error(err)
			}
			if r.Cut(nil, nil); !cut {
				t.Error("no connection was lost")
			}
		})
	}
}

// A call that was given up is settled by Sync: what arrives later writes nothing.
func TestLateArrivalsWriteNothing(t *testing.T) {
	r, s, _ := relayed(t)
	first := put(t, s, "t", "", map[string]any{"n": 1})
	put(t, s, "t", first.CheckpointID, map[string]any{"n": 2}) // every statement is described by now
	arrive := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	r.LoseNext("\"public\".stele_put(", arrive, cancel)
	req := request(t, s, "t", first.CheckpointID, map[string]any{"n": 3})
	if _, err := s.PutRequest(ctx, req); !errors.Is(err, saver.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Fatalf("put: %v, want ErrOutcomeUnknown", err)
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(arrive)
	select {
	case <-r.Answered:
	case <-time.After(time.Minute):
		t.Fatal("the server does not answer to what came late")
	}
	if _, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t", CheckpointID: req.Checkpoint.ID}); !errors.Is(err, saver.ErrNotFound) {
		t.Errorf("what came late: %v, want ErrNotFound", err)
	}
}
