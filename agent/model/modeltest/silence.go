package modeltest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stele-go/stele/agent/model"
)

// Silence checks that a call ends though its provider says nothing, before an answer and in the middle of
// one. open makes a model that waits for a second at most, and does not try again.
func Silence(t *testing.T, open func(t *testing.T, url string) model.Model) {
	for name, begun := range map[string]bool{"before an answer": false, "in an answer": true} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if begun {
					w.Header().Set("Content-Type", "text/event-stream")
					w.(http.Flusher).Flush()
				}
				<-over
			}))
			defer s.Close()
			defer close(over)
			ended := make(chan error, 1)
			go func() {
				_, err := model.Collect(context.Background(), open(t, s.URL), Ask())
				ended <- err
			}()
			select {
			case err := <-ended:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error is %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("the call does not end before the provider is back")
			}
		})
	}
}
