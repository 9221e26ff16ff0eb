package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Event is an event of a stream.
type Event struct {
	// ID is what JoinOptions.LastEventID takes to go on behind this event. It is "" if the run
	// is not resumable, and where several events belong together for all but the last.
	ID string
	// Mode is the stream mode, or "metadata" for the first event of each attempt at a run.
	// ModeMessages has "messages/metadata", "messages/partial" and "messages/complete".
	Mode string
	// Namespace is the graph inside that the event is about; empty at the outermost.
	Namespace []string
	Data      json.RawMessage
	// RunID and ThreadID are where the event is from, as far as the server says.
	RunID, ThreadID string
}

// FromStart, as LastEventID, stands for the beginning of a run.
const FromStart = "-1"

func streaming(req call) call {
	h := http.Header{}
	if req.header != nil {
		h = req.header.Clone()
	}
	h.Set("Accept", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	req.header = h
	return req
}

// located is the address that an answer says its run can be joined at; "" if it is none of
// the server's.
func (c *Client) located(resp *http.Response) string {
	at := resp.Header.Get("Location")
	if strings.HasPrefix(at, "/") && !strings.HasPrefix(at, "//") {
		at = c.origin + at
		if !strings.HasPrefix(at, c.base+"/") { // the server does not know of the path that it is below
			at = c.base + resp.Header.Get("Location")
		}
	}
	if !strings.HasPrefix(at, c.base+"/") {
		return ""
	}
	return at
}

// place reads the ids of run and thread in an address.
func place(at string) (threadID, runID string) {
	u, err := url.Parse(at)
	if err != nil {
		return "", ""
	}
	parts := strings.Split(u.Path, "/")
	for i := 0; i+1 < len(parts); i++ {
		switch parts[i] {
		case "threads":
			threadID = parts[i+1]
		case "runs":
			runID = parts[i+1]
		}
	}
	return threadID, runID
}

// following yields the events of a run over as many connections as it takes.
//
// A server names events by ids, and resumes behind the one that Last-Event-ID names. Servers differ in
// what an id stands for: stele's gives one to the last of the frames that belong to one event,
// LangGraph's may give the same to several events of one millisecond. So the client resumes behind the
// last id whose frames it has surely seen all, which is the one before the newest, and leaves out
// frames that come again. It remembers the frames that it has seen behind that id as hashes: the server
// sends the same frames in the same order.
type following struct {
	c *Client
	// address is where the run can be joined; "" if it cannot.
	address   string
	resumable bool // the server keeps the events

	after string // Last-Event-ID: everything up to it was seen
	last  string // the newest id
	// tail are the frames seen behind after. The first old of them came up to the last frame
	// with the newest id.
	tail []uint64
	old  int
	// again is how many frames of the tail are to come again. held are those that came in their place; see settle.
	again, came int
	held        []frame
}

// mostTail bounds the tail. A server that gives so few ids cannot resume.
const mostTail = 1 << 16

var seed = maphash.MakeSeed()

func (fr frame) sum() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	id := ""
	if fr.hasID { // else it is one that came before, or not on this connection
		id, _ = marked(fr.id) // a server may have begun or ceased to give marks
	}
	for _, s := range []string{id, fr.name} {
		_, _ = h.WriteString(s) // it cannot fail
		_ = h.WriteByte(0)
	}
	_, _ = h.Write(fr.data)
	return h.Sum64()
}

// seen reports whether a frame has come before, and else remembers it.
func (f *following) seen(fr frame) bool {
	sum := fr.sum()
	if f.again > 0 {
		if f.tail[f.came] == sum {
			f.came++
			f.again--
			return true
		}
		f.again, f.tail, f.old = 0, f.tail[:f.came], min(f.old, f.came) // the rest does not come
	}
	f.resumable = f.resumable || fr.hasID
	if !f.resumable {
		return false
	}
	fresh := fr.hasID && fr.id != f.last
	if fresh {
		if f.last != "" {
			f.after, f.tail = f.last, slices.Clone(f.tail[f.old:])
		} else if f.after == "" { // a stream that began in the middle: there is no id before
			f.after, f.last, f.tail, f.old = fr.id, fr.id, nil, 0
			return false
		}
		f.last = fr.id
	}
	if len(f.tail) >= mostTail {
		f.resumable, f.tail = false, nil
		return false
	}
	f.tail = append(f.tail, sum)
	if fr.hasID {
		f.old = len(f.tail)
	}
	return false
}

// marked are the number and the mark of an id. Ids of servers that may lose events have a mark of the event behind its number:
// another event that got the number has another one. Any other id is returned whole, with the mark "".
func marked(id string) (number, mark string) {
	number, mark, _ = strings.Cut(id, ".")
	if _, err := strconv.ParseUint(mark, 16, 32); err != nil || len(mark) != 8 {
		return id, ""
	}
	return number, mark
}

// settle returns what is to be done now with a frame, and those that were held back before it. cut: events that were seen are lost. So
// it is if another event has the number of the newest one, or if an event with a mark comes in place of the tail, which a server would
// have sent again. What comes in its place without an id is held back until the next id says which event it is of. A server that
// gives no marks loses nothing.
func (f *following) settle(fr frame) (now []frame, cut bool) {
	last, mark := marked(f.last)
	var number, other string
	if fr.hasID {
		number, other = marked(fr.id)
	}
	switch again := f.again > 0 && len(f.held) == 0 && f.tail[f.came] == fr.sum(); {
	case mark == "":
	case other != "" && number == last && other != mark:
		return nil, true
	case f.again == 0, again:
	case other != "" && number == last: // the same event, as another version of the server shows it
		f.held, f.came, f.again = nil, f.old, len(f.tail)-f.old
		return nil, false
	case other != "":
		return nil, true
	case fr.hasID:
	case isError(fr.name): // it is the last one
		f.held = nil
	case len(f.held) < mostTail:
		f.held = append(f.held, fr)
		return nil, false
	}
	now, f.held = append(f.held, fr), nil
	return now, false
}

// isCut reports whether a run that has ended has less than was seen of it.
func (f *following) isCut() bool {
	_, mark := marked(f.last)
	return mark != "" && f.again > 0
}

func isError(name string) bool {
	mode, _ := split(name)
	return mode == "error"
}

// rejoin opens the stream again.
func (f *following) rejoin(ctx context.Context) (*http.Response, error) {
	req := streaming(call{method: http.MethodGet, reads: !f.resumable})
	if f.after != "" {
		req.header.Set("Last-Event-ID", f.after)
	}
	f.again, f.came, f.held = len(f.tail), 0, nil
	return f.c.openAt(ctx, f.address, req)
}

// run yields events, those of resp first if it is not nil.
func (f *following) run(ctx context.Context, resp *http.Response, yield func(Event, error) bool) {
	threadID, runID := place(f.address)
	if resp != nil {
		if t, r := place(resp.Header.Get("Content-Location")); r != "" {
			threadID, runID = orElse(t, threadID), r
		}
	}
	first := resp == nil
	for failures, checked := 0, false; ; {
		var err error
		if resp == nil {
			resp, err = f.rejoin(ctx)
			var refused *Error
			switch {
			case err != nil && first && !f.resumable:
				f.address = "" // a stream that was not begun is not resumed
			case !first && errors.As(err, &refused):
				err = fmt.Errorf("client: a stream broke off, and is not resumed: %w", err)
			}
		}
		first = false
		if err == nil {
			stop := false
			err = f.c.eachFrame(ctx, resp, func(fr frame) bool {
				now, cut := f.settle(fr)
				if cut {
					stop = true
					yield(Event{}, errCut)
				}
				for _, fr := range now {
					if stop {
						break
					}
					if f.seen(fr) {
						continue
					}
					failures, checked = 0, false
					ev := Event{ID: fr.id, Data: fr.data, RunID: runID, ThreadID: threadID}
					if !fr.hasID {
						ev.ID = ""
					}
					ev.Mode, ev.Namespace = split(fr.name)
					if isError(fr.name) {
						stop = true
						yield(ev, runErrorOf(fr.data))
					} else {
						stop = !yield(ev, nil)
					}
				}
				return !stop
			})
			resp = nil
			if stop {
				return
			}
		}
		if ctx.Err() != nil {
			yield(Event{}, context.Cause(ctx))
			return
		}
		if err == io.EOF {
			// A server that closes ends its streams in good order too. Only a stream that was
			// opened after the run had ended is known to have everything.
			if checked || !f.resumable || f.address == "" {
				if checked && f.isCut() {
					yield(Event{}, errCut)
				}
				return
			}
			ended, e := f.ended(ctx, threadID, runID)
			switch {
			case e == nil && ended && f.last == "": // there is nothing to be behind of
				return
			case e == nil && ended:
				checked = true
				continue
			case e == nil:
				err = io.ErrUnexpectedEOF
			default:
				err = e
			}
		}
		wait, again := retryable(err)
		if !again || !f.resumable || f.address == "" || failures >= f.c.retries {
			yield(Event{}, broken(err))
			return
		}
		if f.c.pause(ctx, max(wait, backoff(failures))) != nil {
			yield(Event{}, context.Cause(ctx))
			return
		}
		failures, checked = failures+1, false
	}
}

// ended reports whether the run has ended. One that is not there has.
func (f *following) ended(ctx context.Context, threadID, runID string) (bool, error) {
	if threadID == "" {
		return true, nil // it cannot be resumed
	}
	r, err := f.c.Runs.Get(ctx, threadID, runID)
	if err != nil {
		var e *Error
		if errors.As(err, &e) && e.Status < 500 && e.Status != http.StatusTooManyRequests {
			return true, nil
		}
		return false, err
	}
	return r.Ended(), nil
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

// broken is the error of a stream that broke off.
func broken(err error) error {
	var e *Error
	var l *LimitError
	if errors.As(err, &e) || errors.As(err, &l) {
		return err
	}
	return fmt.Errorf("client: a stream broke off: %w", err)
}

// split is the mode and the namespace in the name of a frame.
func split(name string) (mode string, ns []string) {
	parts := strings.Split(name, "|")
	if len(parts) == 1 {
		return name, nil
	}
	return parts[0], parts[1:]
}

// eachFrame calls each with the frames of an answer, until it returns false, which is no
// error. At the end of the answer the error is io.EOF.
func (c *Client) eachFrame(ctx context.Context, resp *http.Response, each func(frame) bool) error {
	defer resp.Body.Close()
	fs := newFrames(resp.Body, c.limit)
	for {
		fr, err := fs.next()
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return err
		}
		if !each(fr) {
			return nil
		}
	}
}

// ThreadStreamOptions say from where, and what, Threads.Stream shows.
type ThreadStreamOptions struct {
	// LastEventID is the Event.ID behind which the stream begins; "" is what comes from now on.
	LastEventID string
	// Modes are "run_modes", the default: what each run was made with; and "lifecycle": where runs
	// begin and end. LangGraph's own server has "state_update" too.
	Modes []string
}

// Stream yields the events of all runs of a thread, one run after another, until ctx ends or
// the caller stops. A stream that breaks off is resumed behind the last event that has an id.
func (t *Threads) Stream(ctx context.Context, id string, o ThreadStreamOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		after := o.LastEventID
		open := func() (*http.Response, error) {
			req := streaming(get("threads", id, "stream"))
			req.query = url.Values{}
			for _, m := range o.Modes {
				req.query.Add("stream_modes", m)
			}
			if after != "" {
				req.header.Set("Last-Event-ID", after)
			}
			return t.c.open(ctx, req)
		}
		err := t.c.lasting(ctx, open, func(fr frame) bool {
			ev := Event{Data: fr.data, ThreadID: id}
			if fr.hasID {
				ev.ID, after = fr.id, fr.id
			}
			ev.Mode, ev.Namespace = split(fr.name)
			return yield(ev, nil)
		})
		if err != nil {
			yield(Event{}, err)
		}
	}
}

// lasting calls each with the frames of a stream that has no end, until each returns false.
func (c *Client) lasting(ctx context.Context, open func() (*http.Response, error), each func(frame) bool) error {
	began := false
	for failures := 0; ; failures++ {
		resp, err := open()
		if err == nil {
			began = true
			stopped := false
			err = c.eachFrame(ctx, resp, func(fr frame) bool {
				failures = 0
				stopped = !each(fr)
				return !stopped
			})
			if stopped {
				return nil
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait, again := retryable(err)
		if !began || !again || failures >= c.retries {
			return broken(err)
		}
		if c.pause(ctx, max(wait, backoff(failures))) != nil {
			return context.Cause(ctx)
		}
	}
}
