package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/server/internal/streamv2"
)

// streamAPI follows runs, their events and their end, for clients that wait.
type streamAPI struct {
	queue     runs.Queue
	view      *runView
	events    *streamv2.Threads
	locks     *locks
	heartbeat time.Duration
	done      <-chan struct{} // the server closes
	log       *slog.Logger
	follows   bool // another server leads
	marks     bool // ids of events have marks; see eventID
}

// streamed streams a run, and cancels it if the client leaves and asked for that.
func (s *streamAPI) streamed(c *call, r runs.Run, stateless bool, modes []string, from eventID, live, cancel bool) error {
	out := c.output(func(h http.Header) {
		streamHeaders(h)
		h.Set("Location", place(r, false)+"/stream")
		h.Set("Content-Location", place(r, stateless))
	})
	end, err := s.stream(c, out, r, modes, from, live)
	gone := errors.Is(err, runs.ErrNotFound)
	if err == nil {
		gone, err = s.isDeleted(c.ctx, end)
	}
	switch {
	case gone:
		return tell(out, "RunDeleted", deletedRun(r.ID))
	case errors.Is(err, errCut):
		return tell(out, "HistoryCut", errCut)
	}
	return s.left(c.ctx, out, r.ID, end.Status, cancel, err)
}

// tell returns a failure, or writes it as the last frame of an answer that has begun.
func tell(out *output, name string, f *failure) error {
	if !out.begun {
		return f
	}
	text, err := encode(pregeljson.Failure{Error: name, Message: f.detail})
	if err == nil {
		_ = out.write(appendFrame(nil, frame{"error", text}, "")) // the client may be gone
	}
	return err
}

// streamHeaders begin an answer of server-sent events.
func streamHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	inPieces(h)
}

// stream answers with the events of a run behind one, in the modes that the client asks
// for. If live is true, it begins with what comes now. If the run is resumable, each frame
// has the id of its event; of several frames of one event the last has it. errCut: the event is lost.
func (s *streamAPI) stream(c *call, out *output, r runs.Run, modes []string, from eventID, live bool) (runs.Run, error) {
	if err := s.cut(c, r.ID, from); err != nil {
		return r, err
	}
	resumable := kwarg(r, "resumable") == true
	f := newRenderer(s.queue.Serializer(), r, modes)
	// Frames depend on earlier events, so all are read, and those that the client has are
	// not sent.
	if live {
		err := streamv2.Each(c.ctx, s.queue, r.ID, func(ev runs.Event) error {
			from = eventID{seq: ev.Seq}
			return nil
		})
		if err != nil {
			return r, err
		}
	}
	last := int64(0)
	each := func(events []runs.Event) error {
		var b []byte
		for _, ev := range events {
			frames, err := f.frames(ev)
			if err != nil {
				return err
			}
			if last = ev.Seq; from.isOther(ev) { // a follower has it now
				return errCut
			}
			if ev.Seq <= from.seq {
				continue
			}
			for i, fr := range frames {
				id := ""
				if resumable && i == len(frames)-1 {
					id = s.idOf(ev).String()
				}
				b = appendFrame(b, fr, id)
			}
			if len(b) > streamv2.PartBytes {
				if err := out.write(b); err != nil {
					return err
				}
				b = b[:0]
			}
		}
		if len(b) == 0 && out.begun {
			return nil
		}
		return out.write(b)
	}
	r, err := s.follow(c, r.ID, 0, each, out, heartbeat)
	if err == nil && from.mark != "" && last < from.seq {
		err = errCut // the run has ended with fewer
	}
	if err != nil && c.ctx.Err() == nil && err != errCut && err != errClosing && err != errHead {
		s.log.Warn("a stream was cut off", "run", r.ID, "error", err)
	}
	return r, err
}

// left ends a request that followed a run. It returns err if the answer has not begun. With cancel, it
// cancels the run if its client has left. status is the last known status of the run.
func (s *streamAPI) left(ctx context.Context, out *output, id string, status runs.Status, cancel bool, err error) error {
	if err != nil && cancel && !status.Ended() && ctx.Err() != nil {
		if _, err := s.queue.Cancel(context.WithoutCancel(ctx), id, runs.Interrupt); err != nil {
			s.log.Error("cancel the run of a client that left", "run", id, "error", err)
		}
	}
	if out.begun {
		return nil
	}
	return err
}

// deletedRun says that a run that was followed is gone.
func deletedRun(id string) *failure {
	return &failure{http.StatusNotFound, fmt.Sprintf("Run %s was deleted, or its thread, before it was told what came of it", id)}
}

// isDeleted reports whether a run that was interrupted is deleted. A request that deletes a thread
// interrupts its runs first, and holds the lock until all is removed.
func (s *streamAPI) isDeleted(ctx context.Context, r runs.Run) (bool, error) {
	if r.Status != runs.Interrupted {
		return false, nil
	}
	defer s.locks.thread(r.ThreadID)()
	_, err := s.queue.Get(ctx, r.ID)
	if errors.Is(err, runs.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// joinStream streams a run that another request made: from the event behind Last-Event-ID,
// or from now on.
func (s *streamAPI) joinStream(c *call, r runs.Run) error {
	modes := modesOfRun(r)
	// The SDK for Python sends an empty one if it is asked for none.
	only, err := c.words("stream_mode", append([]string{metadata}, streamModes.enum...)...)
	if err != nil {
		return err
	}
	if len(only) > 0 {
		modes = slices.DeleteFunc(slices.Clone(modes), func(m string) bool { return !slices.Contains(only, m) })
		if !slices.Contains(only, metadata) {
			modes = append(modes, noMetadata)
		}
	}
	cancel, err := c.isTrue("cancel_on_disconnect", false)
	if err != nil {
		return err
	}
	// The last event that the client has; if it names none, it wants what comes from now on.
	last := strings.TrimSpace(c.r.Header.Get("Last-Event-ID"))
	return s.streamed(c, r, false, modes, parseEventID(last), last == "", cancel)
}

// join waits for a run and answers with its result.
func (s *streamAPI) join(c *call, r runs.Run) error {
	cancel, err := c.isTrue("cancel_on_disconnect", false)
	if err != nil {
		return err
	}
	return s.wait(c, r, cancel, s.view.outcome)
}

// wait answers with the result of a run when it has ended. The header is sent soon, and line breaks
// after it keep the connection open: JSON allows them.
func (s *streamAPI) wait(c *call, r runs.Run, cancel bool, result func(context.Context, runs.Run) (any, error)) error {
	out := c.output(func(h http.Header) {
		h.Set("Location", place(r, false)+"/join")
		h.Set("Content-Location", place(r, false))
		h.Set("Content-Type", "application/json")
		inPieces(h)
	})
	// As long as a run is watched, a queue may have its events in memory: they are read for the result.
	_, stop := s.queue.Watch(r.ID)
	defer stop()
	end, err := s.follow(c, r.ID, 0, nil, out, []byte("\n"))
	gone := errors.Is(err, runs.ErrNotFound)
	if err != nil && !gone {
		return s.left(c.ctx, out, r.ID, end.Status, cancel, err)
	}
	var came any
	if !gone {
		came, err = result(c.ctx, end)
		var unknown error
		if gone, unknown = s.isDeleted(c.ctx, end); err == nil {
			err = unknown
		}
	}
	switch {
	case gone && !out.begun:
		return deletedRun(r.ID)
	case gone:
		came, err = map[string]any{pregelError: pregeljson.Failure{Error: "RunDeleted", Message: deletedRun(r.ID).detail}}, nil
	case err != nil:
		s.log.Error("read what came of a run", "run", r.ID, "error", err)
		came = map[string]any{pregelError: pregeljson.Failure{Error: "InternalServerError", Message: "Internal Server Error"}}
	}
	text, compact := came.(json.RawMessage)
	if !compact {
		text, err = encode(came)
	}
	if err == nil {
		_ = out.last(text) // the client may be gone
	}
	return nil
}

// watchPoll is how long a lost hint of Queue.Watch can go unnoticed.
const watchPoll = 500 * time.Millisecond

// headWait is how long the header of an answer is held back, so that a quick run needs one sync and is
// answered with one write.
const headWait = 200 * time.Millisecond

// endWatcher is a queue that wakes who waits for the end of a run for that alone.
type endWatcher interface {
	WatchEnd(id string) (ended <-chan struct{}, stop func())
}

// follow calls each, unless it is nil, with the stored and coming events of a run behind after, until
// the run has ended or each fails. If that takes longer than headWait, it sends the header of the
// answer, and then beat from time to time; out may be nil. It returns an error early when the client is
// gone or the server closes. Everything it sends, and the run at its end, is durable.
func (s *streamAPI) follow(c *call, id string, after int64, each func([]runs.Event) error, out *output, beat []byte) (runs.Run, error) {
	watch := s.queue.Watch
	if q, ok := s.queue.(endWatcher); ok && each == nil {
		watch = q.WatchEnd
	}
	changed, stop := watch(id)
	defer stop()
	next := time.Now().Add(s.heartbeat) // when to send something
	if out != nil && !out.begun {
		next = time.Now().Add(min(headWait, s.heartbeat))
	}
	t := time.NewTimer(watchPoll)
	defer t.Stop()
	events := streamv2.Reader{Queue: s.queue, Run: id, After: after}
	for {
		r, err := s.peek(c.ctx, id) // before its events: once it has ended there are no more
		if err != nil {
			return r, err
		}
		n := 0
		for each != nil {
			some, more, err := events.Next(c.ctx)
			if err == nil && len(some) > 0 {
				err = each(some)
			}
			if err != nil {
				return r, err
			}
			if n += len(some); !more {
				break
			}
		}
		if r.Status.Ended() {
			return r, nil
		}
		if n > 0 {
			next = time.Now().Add(s.heartbeat)
			continue
		}
		t.Reset(min(time.Until(next), watchPoll))
		select {
		case <-changed:
		case <-t.C:
		case <-c.ctx.Done():
			return r, context.Cause(c.ctx)
		case <-s.done:
			return r, errClosing
		}
		if time.Now().Before(next) {
			continue
		}
		next = time.Now().Add(s.heartbeat)
		if out == nil {
			continue
		}
		if out.begun {
			err = out.write(beat)
		} else if r, err = s.queue.Get(c.ctx, id); err == nil {
			s.view.workers.tell(c.ctx, c.w.Header(), r)
			err = out.write(nil)
		}
		if err != nil {
			return r, err
		}
	}
}

// peek is a run as it is. If it has ended that is durable, and else it may not be.
func (s *streamAPI) peek(ctx context.Context, id string) (runs.Run, error) {
	r, err := s.queue.Get(saver.DeferSync(ctx), id)
	if err == nil && r.Status.Ended() {
		return s.queue.Get(ctx, id)
	}
	return r, err
}

// errClosing ends requests under way when the server closes.
var errClosing = fail(http.StatusServiceUnavailable, "The server closes.")
