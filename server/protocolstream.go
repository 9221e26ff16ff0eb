package server

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stele-go/stele/server/internal/streamv2"
)

// eventsParams are the fields of a request for events.
var eventsParams = append([]field{may("since", upTo(0, math.MaxInt))}, selectionParams...)

// eventsAsked is the subscription that a request for events describes, and the number behind
// which they are wanted.
func eventsAsked(in any) (sub streamv2.Subscription, since int64, err error) {
	m, _ := in.(map[string]any)
	asked := body(m)
	list, _ := asked["channels"].([]any)
	if len(list) == 0 {
		return sub, 0, fail(http.StatusBadRequest, "channels is required and must be a non-empty array")
	}
	var wrong []string
	for _, name := range list {
		if s, ok := name.(string); !ok || !streamv2.IsChannel(s) {
			wrong = append(wrong, strings.Trim(shown(name), `"`))
		}
	}
	if len(wrong) > 0 {
		return sub, 0, fail(http.StatusBadRequest, "channels contains unsupported entries: %s. Allowed: values, updates, messages, tools, custom, lifecycle, input, tasks, checkpoints, or any `custom:<name>`.", strings.Join(wrong, ", "))
	}
	if asked, err = given(eventsParams, m); err == nil {
		sub, err = selection("", asked)
	}
	return sub, int64(asked.integer("since", 0)), err
}

// streamEvents handles POST /threads/{thread_id}/stream/events: it answers with the events of
// a thread, those that are stored and those to come, until the client leaves. The thread need
// not exist yet.
func (s *protocolAPI) streamEvents(c *call) error {
	in, err := s.body(c)
	if err != nil {
		return err
	}
	sub, since, err := eventsAsked(in)
	if err != nil {
		return err
	}
	if err := s.notAnothers(c); err != nil {
		return err
	}
	if n, err := strconv.ParseInt(c.r.Header.Get("Last-Event-ID"), 10, 64); err == nil && n > since { // a browser that connects again
		since = n
	}
	out := c.output(streamHeaders)
	if err := out.write(nil); err != nil {
		return nil
	}
	err = s.eachEvent(c, since, nil, func(events []streamv2.Event) error {
		var b []byte
		for _, e := range events {
			if !sub.Wants(e) {
				continue
			}
			text, err := json.Marshal(e)
			if err != nil {
				return err
			}
			if b = appendFrame(b, frame{e.Method, text}, strconv.FormatInt(e.Seq, 10)); len(b) > streamv2.PartBytes {
				if err := out.write(b); err != nil {
					return err
				}
				b = b[:0]
			}
		}
		if len(b) == 0 {
			return nil
		}
		return out.write(b)
	}, func(*streamv2.Log) error { return nil }, func() error { return out.write(heartbeat) })
	if err != nil && c.ctx.Err() == nil && err != streamv2.ErrClosing {
		s.log.Warn("a stream of events was cut off", "thread", c.path("thread_id"), "error", err)
	}
	return nil // the answer has begun
}

// eachEvent calls each with the events of the thread behind since, and beat from time to time. Before
// each wait it calls turn; a value from also ends the wait. It returns when one of these functions
// fails, the client leaves, the server closes, or the thread is removed.
func (s *protocolAPI) eachEvent(c *call, since int64, also <-chan struct{}, each func([]streamv2.Event) error,
	turn func(*streamv2.Log) error, beat func() error) error {
	l := s.events.Log(c.path("thread_id"), since)
	l.Follow()
	defer l.Close()
	seen := false
	heart := time.Now().Add(s.heartbeat)
	for {
		t, ok, err := s.threads.records.get(c.ctx, c.path("thread_id"))
		if err != nil {
			return err
		}
		ok = ok && c.grant.admits(t.Metadata)
		if seen && !ok { // it was deleted
			return nil
		}
		seen = ok
		if seen {
			events, err := l.Next(c.ctx)
			if err == nil {
				err = each(events)
			}
			if err != nil {
				return err
			}
			if len(events) > 0 {
				heart = time.Now().Add(s.heartbeat)
				continue
			}
		}
		if err := turn(l); err != nil {
			return err
		}
		left := time.Until(heart)
		if left <= 0 {
			if err := beat(); err != nil {
				return err
			}
			left = s.heartbeat
			heart = time.Now().Add(left)
		}
		if err := l.Wait(c.ctx, left, also); err != nil {
			return err
		}
	}
}

// known reports whether one of the subscriptions wants an event.
func known(subs map[string]streamv2.Subscription, e streamv2.Event) bool {
	for _, s := range subs {
		if s.Wants(e) {
			return true
		}
	}
	return false
}
