package silence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/silence"
)

// TestTransport: a request ends wherever the server falls silent, and one whose answer is read late
// does not.
func TestTransport(t *testing.T) {
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/never":
			<-over
		case "/begun":
			io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			<-over
		case "/echo":
			io.Copy(w, r.Body)
		}
	}))
	defer s.Close()
	defer close(over)
	short := &http.Client{Transport: silence.Transport(nil, 50*time.Millisecond)}
	for _, path := range []string{"/never", "/begun"} {
		res, err := short.Post(s.URL+path, "text/plain", strings.NewReader("x"))
		if path == "/begun" && err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		var silent *silence.Error
		if !errors.As(err, &silent) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", path, err)
		}
	}
	patient := &http.Client{Transport: silence.Transport(nil, time.Minute)}
	res, err := patient.Post(s.URL+"/echo", "text/plain", strings.NewReader(strings.Repeat("x", 1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(res.Body)
	if err != nil || len(got) != 1<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	res.Body.Close()
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, stop)
	r, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/never", nil)
	if _, err := patient.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller's own end: %v", err)
	}
}
