// Package silence ends requests over HTTP of which nothing is heard any more: a server that is stopped, or
// behind a network that loses everything, breaks no connection.
//
// It is for this repository, and makes no promise to others.
package silence

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Error is why a request was given up. It matches context.DeadlineExceeded.
type Error struct {
	Host  string
	After time.Duration // that nothing was heard
}

// Error names the server and the time.
func (e *Error) Error() string {
	return fmt.Sprintf("nothing was heard of %s for %v", e.Host, e.After)
}

// Unwrap gives context.DeadlineExceeded.
func (e *Error) Unwrap() error { return context.DeadlineExceeded }

// Timeout is true.
func (e *Error) Timeout() bool { return true }

// Transport wraps base (nil is http.DefaultTransport), for servers that always send something: a
// request is given up when, for the time after, the server takes nothing of its body, does not begin to
// answer, or sends nothing more of the answer. Time that the caller spends between two reads does not
// count. The error is an *Error.
func Transport(base http.RoundTripper, after time.Duration) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return transport{base, after}
}

type transport struct {
	base  http.RoundTripper
	after time.Duration
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	w := &wait{ctx: ctx, cancel: cancel, after: t.after}
	w.timer = time.AfterFunc(t.after, func() { cancel(&Error{r.URL.Host, t.after}) })
	sent := r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		sent.Body = upload{r.Body, w}
	}
	res, err := t.base.RoundTrip(sent)
	w.timer.Stop()
	if err != nil {
		err = w.named(err)
		cancel(nil)
		return nil, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = &answer{res.Body, w}
	}
	return res, nil
}

// wait is the wait for a server.
type wait struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	after  time.Duration
	timer  *time.Timer // ends ctx
}

// named returns err, or an *Error if the silence of the server has caused it.
func (w *wait) named(err error) error {
	if silent, ok := context.Cause(w.ctx).(*Error); ok && err != io.EOF {
		return silent
	}
	return err
}

// upload is the body of a request: that it is read shows that the server takes it.
type upload struct {
	io.ReadCloser
	w *wait
}

// Read implements io.Reader. The wait begins anew.
func (u upload) Read(b []byte) (int, error) {
	u.w.timer.Reset(u.w.after)
	return u.ReadCloser.Read(b)
}

// answer is the body of an answer.
type answer struct {
	io.ReadCloser
	w *wait
}

// Read implements io.Reader. It waits for as long as the other side may be silent.
func (a *answer) Read(b []byte) (int, error) {
	a.w.timer.Reset(a.w.after)
	n, err := a.ReadCloser.Read(b)
	a.w.timer.Stop()
	if err != nil {
		err = a.w.named(err)
	}
	return n, err
}

// Close implements io.Closer, and ends the wait.
func (a *answer) Close() error {
	a.w.timer.Stop()
	err := a.ReadCloser.Close()
	a.w.cancel(nil)
	return err
}
