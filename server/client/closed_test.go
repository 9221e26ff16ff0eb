package client

import (
	"net/http"
	"testing"

	"github.com/stele-go/stele/base/methods"
)

// TestServerIsGone: every call of every part of a client to a server that is gone fails, and so does each whose
// context has ended; none panics or waits, with arguments that make sense and with none.
func TestServerIsGone(t *testing.T) {
	c := serve(t, func(http.ResponseWriter, *http.Request) { abort() })
	plausible := []any{"t", []string{"a"}, RunRequest{AssistantID: "a"}, []RunRequest{{AssistantID: "a"}}, CronRequest{}}
	for _, v := range []any{c, c.Assistants, c.Threads, c.Runs, c.Crons, c.Store} {
		methods.Ended(t, v, nil, plausible)
		for _, args := range [][]any{plausible, nil} {
			methods.Each(t, v, t.Context(), nil, args, func(t *testing.T, a methods.Answer) {
				if a.Says && a.Err == nil {
					t.Error("there is no error")
				}
			})
		}
	}
}
