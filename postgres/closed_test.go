//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/saver"
)

// plausible are arguments with which calls get as far as they can.
var plausible = []any{"t", saver.Config{ThreadID: "t", CheckpointID: "1f0f5200-24f1-6000-8000-bde4e02ab92a"}, saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}, []string{"t"},
	saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}},
	saver.RetentionPolicy{KeepLast: 1}, saver.PruneAll, []saver.Write{{Channel: "c", Value: saver.ValueOf(1)}}}

// TestAfterClose: every method of a Saver that was closed says so, and with a context that has ended it
// fails; none panics or waits.
func TestAfterClose(t *testing.T) {
	s := open(t, pgtest.Shared(t).Database(t), postgres.Options{})
	except := map[string]string{"Close": "ends the Saver", "NextVersion": "mints, and stores nothing"}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, args := range [][]any{plausible, nil} {
		methods.Each(t, s, ended, except, args, func(t *testing.T, a methods.Answer) {
			if a.Takes && a.Says && a.Err == nil {
				t.Error("there is no error")
			}
		})
	}
	methods.Each(t, s, t.Context(), except, nil, func(*testing.T, methods.Answer) {})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	methods.Each(t, s, t.Context(), except, plausible, func(t *testing.T, a methods.Answer) {
		if a.Says && !errors.Is(a.Err, saver.ErrClosed) {
			t.Errorf("the error is %v", a.Err)
		}
	})
}
