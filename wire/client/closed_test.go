package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// plausible are arguments with which calls get as far as they can.
var plausible = []any{"t", saver.Config{ThreadID: "t", CheckpointID: "1f0f5200-24f1-6000-8000-bde4e02ab92a"}, saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}, []string{"t"},
	saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}},
	saver.RetentionPolicy{KeepLast: 1}, saver.PruneAll, []saver.Write{{Channel: "c", Value: saver.ValueOf(1)}},
	store.Namespace{"a"}, map[string]any{"n": 1}, store.GetOp{Namespace: store.Namespace{"a"}, Key: "key"}}

// TestAfterClose: every method of a client that was closed says so, and with a context that has ended it
// fails; none panics or waits.
func TestAfterClose(t *testing.T) {
	c := (&hole{}).client(t)
	except := map[string]string{"Close": "ends the client", "NextVersion": "mints, and stores nothing"}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, v := range []any{c, c.Items()} {
		except := except
		if v != any(c) {
			except = nil
		}
		for _, args := range [][]any{plausible, nil} {
			methods.Each(t, v, ended, except, args, func(t *testing.T, a methods.Answer) {
				if a.Takes && a.Says && a.Err == nil {
					t.Error("there is no error")
				}
			})
		}
		methods.Each(t, v, t.Context(), except, nil, func(*testing.T, methods.Answer) {})
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{c, c.Items()} {
		except := except
		if v != any(c) {
			except = nil
		}
		methods.Each(t, v, t.Context(), except, plausible, func(t *testing.T, a methods.Answer) {
			if a.Says && !errors.Is(a.Err, saver.ErrClosed) {
				t.Errorf("the error is %v", a.Err)
			}
		})
	}
}
