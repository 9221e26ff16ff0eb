package server_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/server/client"
)

// TestClientSignals: the client sends signals, and lists those that wait and those that were refused; it reads the steps
// of a workflow, what it exposes, and its version.
func TestClientSignals(t *testing.T) {
	letters := pregel.NewSignal[string]("letter")
	ann, bob := users(t, func(c *server.Config) {
		count := pregel.NewTask("count", func(_ context.Context, n int) (int, error) { return n + 1, nil })
		c.Graphs["letters"] = must(pregel.Entrypoint("letters", func(ctx context.Context, _ string) (string, error) {
			if err := pregel.Expose(ctx, "stage", "reads"); err != nil {
				return "", err
			}
			if _, err := count.Call(ctx, 1); err != nil {
				return "", err
			}
			return letters.Receive(ctx)
		}, pregel.EntrypointOptions{Options: pregel.Options{Saver: c.Saver, Store: c.Store, Version: "seven"}}))
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if a.Resource == "system" && u.Identity == "ann" {
				return server.Grant{}, nil
			}
			return server.OwnThings(ctx, u, a)
		}
	})
	ctx := t.Context()
	c, other := must(client.New(ann.base, client.WithAPIKey(ann.key))), must(client.New(bob.base, client.WithAPIKey(bob.key)))
	id := ann.thread()
	if err := c.Threads.Signal(ctx, id, "letter", 1, client.SignalOptions{}); !errors.Is(err, client.ErrConflict) {
		t.Errorf("to a thread that nobody has begun: %v", err)
	}
	begin := func(input any) string {
		run := must(c.Runs.Create(ctx, id, client.RunRequest{AssistantID: "letters", Input: input}))
		ann.until("the run sleeps", func() bool { return must(c.Threads.Get(ctx, id)).Status == client.Interrupted })
		return run.RunID
	}
	run := begin("x")
	if err := other.Threads.Signal(ctx, id, "letter", 1, client.SignalOptions{}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("to a thread of another user: %v", err)
	}
	st := must(c.Threads.State(ctx, id, client.At{}))
	if len(st.Exposed) != 1 || string(st.Exposed["stage"]) != `"reads"` {
		t.Errorf("exposed: %s", st.Exposed)
	}
	for st, err := range c.Threads.History(ctx, id, client.HistoryQuery{WithoutValues: true, Limit: 1}) {
		if err != nil || st.Version != "seven" || len(st.Values) > 0 && string(st.Values) != "null" {
			t.Errorf("%+v, %v", st, err)
		}
	}
	told := must(c.Threads.Steps(ctx, id, ""))
	var steps []string
	for _, s := range told.Steps {
		steps = append(steps, fmt.Sprint(s.Kind, " ", s.Name, " ", s.State, " ", string(s.Result), " ", s.Attempts))
	}
	if want := []string{`exposed stage done "reads" 0`, "call count done 2 1", "signal letter waiting  0"}; !slices.Equal(steps, want) || told.LeftOut != 0 || told.Parent != "" || told.Steps[1].Began.IsZero() {
		t.Errorf("steps %q of %+v, want %q", steps, told, want)
	}
	if versions, want := must(c.Versions(ctx)), (client.GraphVersion{Graph: "letters", Version: "seven", Runs: 1, Workers: 1}); !slices.Contains(versions, want) {
		t.Errorf("versions: %+v, want %+v", versions, want)
	}
	if _, err := other.Versions(ctx); !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("versions, for one who is no operator: %v", err)
	}

	for range 2 {
		if err := c.Threads.Signal(ctx, id, "lettre", map[string]any{"n": 1}, client.SignalOptions{Key: "k"}); err != nil {
			t.Fatal(err)
		}
	}
	list, more, err := c.Threads.Signals(ctx, id)
	if err != nil || more || len(list) != 1 || list[0].Name != "lettre" || !list[0].Keyed || string(list[0].Value) != `{"n":1}` || list[0].Sent.IsZero() || list[0].ID == "" {
		t.Fatalf("%+v, %v, %v", list, more, err)
	}
	if err := c.Threads.Signal(ctx, id, "letter", 1, client.SignalOptions{}); err != nil {
		t.Fatal(err)
	}
	ann.ended(id, run)
	refused := must(c.Threads.RefusedSignals(ctx, id))
	if len(refused) != 1 || refused[0].Name != "letter" || string(refused[0].Value) != "1" || !strings.Contains(refused[0].Error, "string") {
		t.Fatalf("refused: %+v", refused)
	}
	run = begin(nil)
	if err := c.Threads.Signal(ctx, id, "letter", "dear", client.SignalOptions{Instead: refused[0].ID}); err != nil {
		t.Fatal(err)
	}
	ann.ended(id, run)
	if refused := must(c.Threads.RefusedSignals(ctx, id)); len(refused) > 0 {
		t.Errorf("what was sent again is refused still: %+v", refused)
	}
	if err := c.Threads.DeleteRefusedSignal(ctx, id, "none"); err != nil {
		t.Error(err)
	}
	if st := must(c.Threads.Get(ctx, id)); string(st.Values) != `"dear"` {
		t.Errorf("the thread has %s", st.Values)
	}
}

// TestClientFields: what the client reads has the fields that the server writes.
func TestClientFields(t *testing.T) {
	fields := func(v any) (names []string) {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	for _, c := range [][2]any{{client.Step{}, pregel.Step{}}, {client.GraphVersion{}, metrics.QueueVersion{}}} {
		if got, want := fields(c[0]), fields(c[1]); !slices.Equal(got, want) {
			t.Errorf("%T has %q, %T %q", c[0], got, c[1], want)
		}
	}
}
