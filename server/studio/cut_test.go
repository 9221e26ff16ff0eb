package studio

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// cutting breaks off each stream of a run behind its first event.
func cutting(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/runs/stream") {
			w = &cutAfterFirst{ResponseWriter: w}
		}
		h.ServeHTTP(w, r)
	})
}

type cutAfterFirst struct {
	http.ResponseWriter
	begun bool
}

func (c *cutAfterFirst) Write(b []byte) (int, error) {
	if c.begun {
		return 0, errors.New("the connection is cut")
	}
	c.begun = bytes.Contains(b, []byte("run_id"))
	return c.ResponseWriter.Write(b)
}

func (c *cutAfterFirst) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// TestStreamBreaksOff: a run whose stream breaks off goes on, and the page tells how it ended.
func TestStreamBreaksOff(t *testing.T) {
	onEach(t, func(t *testing.T, b backend, _ string) {
		u, err := url.Parse(b.url)
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(New(cutting(Remote(u, nil)), Options{}))
		defer s.Close()
		p := open(t, s.URL)
		p.show("#/threads/" + b.thread(t, "hello ann"))
		p.says("Send this mail?")
		p.settled()
		p.fill("textarea[name=a0]", "certainly")
		p.click("Answer")
		p.see("the end of the run", ended)
	})
}
