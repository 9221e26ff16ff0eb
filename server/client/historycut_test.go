package client

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
)

// TestHistoryCut: a stream that broke off ends with ErrHistoryCut when events that it yielded are lost: whether the server
// knows it by the id that it was asked for, before or after it has begun to answer, or only the newest event is another one.
func TestHistoryCut(t *testing.T) {
	const first = "event: values\ndata: 1\nid: 1.aaaaaaaa\n\nevent: values\ndata: 2\nid: 2.bbbbbbbb\n\n"
	for name, again := range map[string]func(w http.ResponseWriter){
		"refused": func(w http.ResponseWriter) { http.Error(w, `{"detail":"lost"}`, http.StatusGone) },
		"told": func(w http.ResponseWriter) {
			fmt.Fprint(w, "event: error\ndata: {\"error\":\"HistoryCut\",\"message\":\"lost\"}\n\n")
		},
		"another newest event": func(w http.ResponseWriter) { fmt.Fprint(w, "event: values\ndata: 3\nid: 2.cccccccc\n\n") },
	} {
		var n atomic.Int32
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/threads/t/runs/r/stream")
			if n.Add(1) > 1 {
				if last := r.Header.Get("Last-Event-ID"); last != "1.aaaaaaaa" {
					t.Errorf("%s: joined behind %q", name, last)
				}
				again(w)
				return
			}
			fmt.Fprint(w, first)
			_ = http.NewResponseController(w).Flush()
			abort()
		}, WithRetries(2))
		var events int
		var last error
		for ev, err := range c.Runs.Stream(t.Context(), "t", RunRequest{StreamResumable: true}) {
			if last = err; err == nil {
				events++
			} else if ev.ID == "2.cccccccc" {
				t.Errorf("%s: it yields %+v", name, ev)
			}
		}
		if events != 2 || !errors.Is(last, ErrHistoryCut) || n.Load() != 2 {
			t.Errorf("%s: %d events, %v, %d requests", name, events, last, n.Load())
		}
	}
}
