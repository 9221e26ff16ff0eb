package server

import (
	"errors"
	"net/http"
	"time"
)

// output writes an answer in pieces, each within a time, so that a client that does not
// read is cut off instead of kept.
type output struct {
	c     *call
	rc    *http.ResponseController
	head  func(h http.Header) // sets the header of the answer
	begun bool
}

func (c *call) output(head func(h http.Header)) *output {
	return &output{c: c, rc: http.NewResponseController(c.w), head: head}
}

func (o *output) write(b []byte) error {
	if err := o.last(b); err != nil {
		return err
	}
	_ = o.rc.Flush()                       // a ResponseWriter of a test, or of a wrapper, may not know it
	_ = o.rc.SetWriteDeadline(time.Time{}) // with HTTP/2 it would end a stream that is idle
	return nil
}

// last writes the last bytes of the answer, which are sent when the handler returns.
func (o *output) last(b []byte) error {
	if !o.begun {
		o.begun = true
		o.head(o.c.w.Header())
		o.c.w.WriteHeader(http.StatusOK)
	}
	_, err := o.c.w.Write(b)
	if err == nil && o.c.r.Method == http.MethodHead {
		err = errHead
	}
	return err
}

// errHead ends the answer to a HEAD request.
var errHead = errors.New("the request is for the head alone")

// inPieces asks proxies to pass on each piece of an answer as it comes: nginx not to buffer it, and others not
// to compress it, as HAProxy would hold back the last event.
func inPieces(h http.Header) {
	h.Set("Cache-Control", "no-store, no-transform")
	h.Set("X-Accel-Buffering", "no")
}
