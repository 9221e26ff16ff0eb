package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestSilentServer: calls and streams end though the server says nothing, before an answer and in the
// middle of one. They are not sent again, as that would take as long.
func TestSilentServer(t *testing.T) {
	ctx := context.Background()
	for name, call := range map[string]func(c *Client) error{
		"a read":  func(c *Client) error { return c.OK(ctx) },
		"a write": func(c *Client) error { return c.Threads.Delete(ctx, "t") },
		"a stream": func(c *Client) error {
			for _, err := range c.Runs.JoinStream(ctx, "t", "r", JoinOptions{}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", begun ", begun), func(t *testing.T) {
				over := make(chan struct{})
				c := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if begun {
						w.Header().Set("Content-Type", "text/event-stream")
						_, _ = w.Write([]byte(": x\n"))
						w.(http.Flusher).Flush()
					}
					<-over
				}, WithSilence(100*time.Millisecond))
				defer close(over)
				ended := make(chan error, 1)
				go func() { ended <- call(c) }()
				select {
				case err := <-ended:
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("the error is %v", err)
					}
				case <-time.After(time.Minute):
					t.Error("the call does not end before the server is back")
				}
			})
		}
	}
}
