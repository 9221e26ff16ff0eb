package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/coder/websocket"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server/internal/streamv2"
)

// socketSession is the session of a WebSocket: a client that sends commands and gets the
// events that it has subscribed to on one connection. All but the reading of the connection
// is done by one goroutine.
type socketSession struct {
	api  *protocolAPI
	c    *call
	conn *websocket.Conn
	log  *streamv2.Log
	subs map[string]streamv2.Subscription
	last int64     // the number of the last event that was sent
	run  *runs.Run // the last run that was started here
}

// maxSubscriptions bounds those of a session.
const maxSubscriptions = 256

// maxCommands is how many commands of a session may wait.
const maxCommands = 16

// socketEvents handles GET /threads/{thread_id}/stream/events, which must ask for a WebSocket.
func (s *protocolAPI) socketEvents(c *call) error {
	if !strings.EqualFold(c.r.Header.Get("Upgrade"), "websocket") {
		c.w.Header().Set("Allow", http.MethodPost)
		return fail(http.StatusMethodNotAllowed, "Method Not Allowed")
	}
	if err := s.notAnothers(c); err != nil {
		return err
	}
	// The guard has checked the origin.
	conn, err := websocket.Accept(c.w, c.r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil // it has answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(s.bodies.most)
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	c.ctx = ctx
	sess := &socketSession{api: s, c: c, conn: conn, subs: map[string]streamv2.Subscription{}}
	commands, wake := make(chan []byte, maxCommands), make(chan struct{}, 1)
	var holding atomic.Bool   // a command waits for those before it, and nothing is read
	var received atomic.Int64 // how many commands were
	go func() {
		defer cancel()
		for {
			_, text, err := conn.Read(ctx)
			if err != nil {
				return
			}
			holding.Store(true)
			select {
			case commands <- text:
			case <-ctx.Done():
				return
			}
			received.Add(1) // before holding ends: a ping looks at both
			holding.Store(false)
			select {
			case wake <- struct{}{}:
			default: // one is waiting already
			}
		}
	}()
	turn := func(l *streamv2.Log) error {
		sess.log = l
		for {
			select {
			case text := <-commands:
				if err := sess.command(text); err != nil {
					return err
				}
			default:
				return nil
			}
		}
	}
	// Nothing waits for the answer to a ping: it is read behind what the client has sent before. Only a
	// client that sent nothing, although the server read all the time, is cut off.
	var pinging atomic.Bool
	ping := func() {
		defer pinging.Store(false)
		ctx, stop := context.WithTimeout(ctx, s.writeTimeout)
		defer stop()
		before := received.Load()
		if err := conn.Ping(ctx); err != nil && ctx.Err() == context.DeadlineExceeded && !holding.Load() && received.Load() == before {
			s.log.Warn("a socket was cut off", "thread", c.path("thread_id"), "error", err)
			cancel()
		}
	}
	err = s.eachEvent(c, 0, wake, sess.events, turn, func() error {
		if !pinging.Swap(true) {
			go ping()
		}
		return nil
	})
	switch {
	case errors.Is(err, streamv2.ErrClosing):
		_ = conn.Close(websocket.StatusGoingAway, "the server closes")
	case err == nil:
		_ = conn.Close(websocket.StatusNormalClosure, "the thread is not there any more")
	case ctx.Err() == nil:
		s.log.Warn("a socket was cut off", "thread", c.path("thread_id"), "error", err)
	}
	return nil
}

func (s *socketSession) send(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.c.ctx, s.api.writeTimeout)
	defer cancel()
	return s.conn.Write(ctx, websocket.MessageText, text)
}

// events sends the events that the client has subscribed to.
func (s *socketSession) events(list []streamv2.Event) error {
	for _, e := range list {
		if known(s.subs, e) {
			if err := s.send(e); err != nil {
				return err
			}
			s.last = e.Seq
		}
	}
	return nil
}

func (s *socketSession) command(text []byte) error {
	in, err := decode(text)
	if err != nil {
		return s.send(protocolFailure(nil, refused(codeArgument, "Protocol commands must be valid JSON.")))
	}
	if err := s.api.rates.limit(s.c); err != nil {
		m, _ := in.(map[string]any)
		return s.send(protocolFailure(m["id"], s.api.refusedBy(s.c, err)))
	}
	answer, _ := s.api.command(s.c, in, s)
	return s.send(answer)
}

func (s *socketSession) through() int64 { return s.last }

// subscribe implements session.
func (s *socketSession) subscribe(ctx context.Context, id string, sub streamv2.Subscription, since int64) (replayed int, err error) {
	if _, again := s.subs[id]; !again && len(s.subs) >= maxSubscriptions {
		return 0, refused(codeArgument, "A session has %d subscriptions at most.", maxSubscriptions)
	}
	t, ok, err := s.api.threads.records.get(ctx, s.c.path("thread_id"))
	if err != nil {
		return 0, err
	}
	if ok && s.c.grant.admits(t.Metadata) {
		for past := s.api.events.Log(s.c.path("thread_id"), since); past.Seq() < s.log.Seq(); {
			events, err := past.Next(ctx)
			if err != nil {
				return replayed, err
			}
			if len(events) == 0 {
				break
			}
			for _, e := range events {
				if e.Seq > s.log.Seq() || !sub.Wants(e) || known(s.subs, e) {
					continue
				}
				if err := s.send(e); err != nil {
					return replayed, err
				}
				s.last = max(s.last, e.Seq)
				replayed++
			}
		}
	}
	s.subs[id] = sub
	return replayed, nil
}

func (s *socketSession) unsubscribe(id string) bool {
	_, ok := s.subs[id]
	delete(s.subs, id)
	return ok
}

func (s *socketSession) bind(r runs.Run) { s.run = &r }

// bound is the run that was started here, or else the last of the thread.
func (s *socketSession) bound(context.Context) (*streamv2.Translator, error) {
	switch {
	case s.run != nil && (s.log.Last() == nil || s.log.Last().Run() < s.run.ID):
		return streamv2.NewTranslator(*s.run), nil
	case s.log.Last() != nil:
		return s.log.Last(), nil
	}
	return nil, noBoundRun
}
