package client

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestHistoryCut: a stream that broke off ends with ErrHistoryCut when events that it yielded are lost, and yields none of those in their
// place: whether the server knows it by the id that it was asked for, before or after it has begun to answer, or only the newest event is
// another one, or comes no more. Where nothing is lost it goes on.
func TestHistoryCut(t *testing.T) {
	number := func(id string) string { // of ids of both servers, below 10
		id, _, _ = strings.Cut(strings.TrimPrefix(id, "a."), ".")
		return id
	}
	const one, two = "values 1 1.aaaaaaaa", "values 2 2.bbbbbbbb"
	for name, c := range map[string]struct {
		seen, again []string // frames: name, data and id
		more        string   // the data of what is yielded behind a rejoin; "cut" for ErrHistoryCut
		ended       bool     // the run has ended, else a connection breaks off
	}{
		"refused":                          {seen: []string{one, two}, again: []string{"410"}, more: "cut"},
		"told":                             {seen: []string{one, two}, again: []string{`error {"error":"HistoryCut","message":"lost"}`}, more: "cut"},
		"told behind frames without an id": {seen: []string{one, two}, again: []string{"updates 3", `error {"error":"HistoryCut","message":"lost"}`}, more: "cut"},
		"another newest event":             {seen: []string{one, two}, again: []string{"values 3 2.cccccccc"}, more: "cut"},
		"it looks the same":                {seen: []string{one, two}, again: []string{"values 2 2.cccccccc"}, more: "cut"},
		"another one of several frames":    {seen: []string{one, two}, again: []string{"updates 3", "values 3 2.cccccccc"}, more: "cut"},
		"another one that shows nothing":   {seen: []string{one, two}, again: []string{"values 4 3.dddddddd"}, more: "cut"},
		"the next has several frames":      {seen: []string{one, two}, again: []string{"updates 4", "values 4 3.dddddddd"}, more: "cut"},
		"another one begins as it did":     {seen: []string{one, "updates 2", two}, again: []string{"updates 2", "values 3 2.cccccccc"}, more: "cut"},
		"the first frame is another":       {seen: []string{one, two, "updates 3"}, again: []string{two, "updates 4", "values 4 3.dddddddd"}, more: "cut"},
		"it has ended with fewer":          {seen: []string{one, two}, more: "cut", ended: true},

		"nothing is lost":             {seen: []string{one, two}, again: []string{two, "updates 3", "values 4 3.dddddddd"}, more: "3 4", ended: true},
		"a frame came again":          {seen: []string{one, two, "updates 3"}, again: []string{two, "updates 3", "values 4 3.dddddddd"}, more: "4", ended: true},
		"the server gives no marks":   {seen: []string{one, two}, again: []string{"values 2 2", "values 3 3"}, more: "3", ended: true},
		"another, and without a mark": {seen: []string{one, two}, again: []string{"updates 3", "values 3 2", "values 4 3"}, more: "3 3 4", ended: true},
		"the server begins to":        {seen: []string{"values 1 1", "values 2 2"}, again: []string{two, "values 3 3.cccccccc"}, more: "3", ended: true},
		"it is shown otherwise":       {seen: []string{one, two}, again: []string{"updates 0", "values 0 2.bbbbbbbb", "values 3 3.cccccccc"}, more: "3", ended: true},
		"ids of another server":       {seen: []string{"values 1 a.1", "values 2 a.2"}, again: []string{"values 2 a.2", "values 3 a.3"}, more: "3", ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			var streams atomic.Int32
			cl := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/stream") {
					fmt.Fprint(w, `{"run_id":"r","thread_id":"t","status":"success"}`)
					return
				}
				w.Header().Set("Location", "/threads/t/runs/r/stream")
				frames := c.seen
				if n := streams.Add(1); n > 4 {
					t.Error("it asks too often")
				} else if n > 1 {
					frames = c.again
				}
				event := "" // the frames of one
				for _, text := range frames {
					parts := strings.SplitN(text, " ", 3)
					if text == "410" {
						http.Error(w, `{"detail":"lost"}`, http.StatusGone)
						return
					}
					event += "event: " + parts[0] + "\ndata: " + parts[1] + "\n"
					if len(parts) == 3 {
						event += "id: " + parts[2] + "\n"
					}
					if event += "\n"; len(parts) < 3 {
						continue
					}
					if number(parts[2]) > number(r.Header.Get("Last-Event-ID")) {
						fmt.Fprint(w, event)
					}
					event = ""
				}
				fmt.Fprint(w, event)
				_ = http.NewResponseController(w).Flush()
				if streams.Load() == 1 || !c.ended {
					abort()
				}
			}, WithRetries(2))
			var got []string
			var last error
			for ev, err := range cl.Runs.Stream(t.Context(), "t", RunRequest{StreamResumable: true}) {
				if last = err; err == nil {
					got = append(got, string(ev.Data))
				}
			}
			var want []string
			for _, text := range c.seen {
				want = append(want, strings.Split(text, " ")[1])
			}
			if c.more != "cut" {
				want = append(want, strings.Fields(c.more)...)
			}
			if !slices.Equal(got, want) || errors.Is(last, ErrHistoryCut) != (c.more == "cut") || c.more != "cut" && last != nil {
				t.Errorf("%v, %v; want %v", got, last, want)
			}
		})
	}
}
