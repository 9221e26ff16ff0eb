package server

import (
	"io"
	"math"
	"net/http"
	"time"
)

// lingerBytes is the least number of bytes of a body that are read after its answer.
const lingerBytes = 64 << 20

// requestBody knows whether the body of a request was read to its end.
type requestBody struct {
	io.ReadCloser
	begun, ended bool
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	b.begun = true
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err == io.EOF
	return n, err
}

// lingering prepares a request whose answer may be sent before its body was read. It returns the
// request to use, and a function to be called after the answer.
//
// Such an answer is 401, 404, 413 or 422. A connection that is closed with unread bytes is reset, and a
// client that is still sending loses the answer. So the answer is sent, and the rest of the body is
// read and dropped: for the time that a client has for a body, and four times as much as a body may be.
// Only then the connection is closed. A client that has used up that time is not waited for again, and
// a WebSocket has no body. HTTP/2 needs nothing of this: there a stream ends by itself.
func lingering(w *statusWriter, r *http.Request, most time.Duration, maxBody int64) (*http.Request, func()) {
	if !hasBody(r) || r.ProtoMajor != 1 || w.rc.EnableFullDuplex() != nil {
		return r, func() {}
	}
	body := &requestBody{ReadCloser: r.Body}
	own := *r
	own.Body = body
	return &own, func() {
		// such a client sends nothing unless it is told to
		if w.status == http.StatusSwitchingProtocols || body.ended || !body.begun && r.Header.Get("Expect") != "" {
			return
		}
		if w.rc.Flush() == nil && w.status != http.StatusRequestTimeout && w.rc.SetReadDeadline(time.Now().Add(most)) == nil {
			_, _ = io.CopyN(io.Discard, body, max(4*min(maxBody, math.MaxInt64/4), lingerBytes))
		}
		if body.ended {
			return
		}
		if conn, _, err := w.rc.Hijack(); err == nil { // net/http would wait for another request
			_ = conn.Close()
		}
	}
}
