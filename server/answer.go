package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// failure is an answer that says why a request was not done.
type failure struct {
	status int
	detail string
}

// Error is the detail.
func (f *failure) Error() string { return f.detail }

func fail(status int, format string, args ...any) error {
	return &failure{status, fmt.Sprintf(format, args...)}
}

// errFollower is the answer of a server whose store follows a leader, or cannot lead while its bucket is away, to all
// that changes something.
var errFollower = &failure{http.StatusServiceUnavailable, "This server follows another one, or waits until it can lead, and takes no changes. Try again at the leader, or later."}

var errNotFound = &failure{http.StatusNotFound, "Not Found"}

// instead is an error, or another one in place of a refusal with a status.
func instead(err error, status int, other error) error {
	var f *failure
	if errors.As(err, &f) && f.status == status {
		return other
	}
	return err
}

// isAny reports whether an error is one of some.
func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}

// failureOf returns the answer to a request that failed with err. For an error that only the operator
// may see, the answer has no details, and logged is true.
func failureOf(err error) (f *failure, logged bool) {
	if errors.As(err, &f) {
		return f, false
	}
	is := func(targets ...error) bool { return isAny(err, targets...) }
	var missing *pregel.SubgraphError
	network := errors.As(err, new(*net.OpError))
	switch {
	case errors.As(err, new(*pregel.PanicError)): // whatever the engine makes of it
		return &failure{http.StatusInternalServerError, "Internal Server Error"}, true
	case is(saver.ErrEraseUnfinished): // whatever stopped it
		return &failure{http.StatusServiceUnavailable, "Everything is deleted, but not yet erased from all files. The same request goes on."}, true
	case is(ErrUserActive):
		return &failure{http.StatusConflict, err.Error()}, false
	case errors.As(err, &missing):
		return &failure{http.StatusNotFound, missing.Error()}, false
	case is(syscall.EFBIG):
		return &failure{http.StatusInsufficientStorage, "A file has reached the limit of its size: ulimit -f, LimitFSIZE of its service, or that of the file system. Nothing was stored. The operator of this server raises it."}, true
	case is(fault.ErrDiskFull):
		return &failure{http.StatusInsufficientStorage, "The disk is full. Nothing was stored. Free space on it. A store in a directory takes deletions meanwhile, and their space returns."}, true
	case is(fault.ErrFollower):
		return errFollower, false
	case is(fault.ErrFenced):
		return &failure{http.StatusServiceUnavailable, "Another server leads now, and nothing was stored. Try again there."}, false
	case is(fault.ErrStale):
		return &failure{http.StatusServiceUnavailable, "This server may not have the newest state at the moment. Try again."}, true
	case is(fault.ErrPoisoned, fault.ErrReadOnly, fault.ErrClosed, fault.ErrLockLost):
		return &failure{http.StatusServiceUnavailable, "The store takes no writes."}, true
	case is(fault.ErrTooManyFiles):
		return &failure{http.StatusServiceUnavailable, "The server has too many files open. Nothing was stored. Try again; its operator raises the limit."}, true
	case errors.As(err, new(*fs.PathError)): // the store's, or one that a function of the program reads
		return &failure{http.StatusServiceUnavailable, "A file that the server needs cannot be used."}, true
	case network && errors.As(err, new(*url.Error)): // no store, but a service that a function of the program asks
		return &failure{http.StatusServiceUnavailable, "A service that the server needs cannot be reached. Try again."}, true
	case network:
		return &failure{http.StatusServiceUnavailable, "The store cannot be reached. Try again."}, true
	case is(ErrAuthUnavailable):
		return &failure{http.StatusServiceUnavailable, "Nobody can be authenticated at the moment."}, true
	case is(pregel.ErrConflict):
		return &failure{http.StatusConflict, "The thread is in use by a run. Try again when it has ended."}, false
	case is(pregel.ErrOtherVersion):
		return &failure{http.StatusConflict, err.Error()}, false
	case is(saver.ErrTooLarge):
		return &failure{http.StatusRequestEntityTooLarge, err.Error()}, false
	case is(pregel.ErrInvalidUpdate, channel.ErrInvalidUpdate, pregel.ErrInvalidArgument, pregel.ErrEmptyInput, pregel.ErrInvalidGraph,
		store.ErrNamespace, store.ErrNoIndex):
		return &failure{http.StatusBadRequest, err.Error()}, false
	case is(saver.ErrInvalid, runs.ErrInvalid, pregel.ErrNoStore):
		return &failure{http.StatusUnprocessableEntity, err.Error()}, false
	case is(runs.ErrNotFound, saver.ErrNotFound):
		return errNotFound, false
	case is(context.Canceled, context.DeadlineExceeded):
		return &failure{http.StatusServiceUnavailable, "The request was given up."}, false
	}
	return &failure{http.StatusInternalServerError, "Internal Server Error"}, true
}

// writeJSON answers with a value that encoding/json can write.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	text, err := encode(v)
	if err != nil {
		return err
	}
	return writeText(w, status, text)
}

// writeText answers with JSON.
func writeText(w http.ResponseWriter, status int, text []byte) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may be gone
	return nil
}

func writeFailure(w http.ResponseWriter, f *failure) {
	text, _ := json.Marshal(map[string]string{"detail": f.detail}) // a text can always be written
	h := w.Header()
	if (f.status == http.StatusTooManyRequests || f.status == http.StatusServiceUnavailable) && h.Get("Retry-After") == "" { // nobody knows when
		h.Set("Retry-After", "1")
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text))) // it is whole for a client that is still sending
	w.WriteHeader(f.status)
	_, _ = w.Write(text)
}

// statusWriter notes the status of an answer. It lets the client take a time over each piece of it.
type statusWriter struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	status  int
}

// piece is how much of an answer a client must read within Config.WriteTimeout.
const piece = 64 << 10

// Write implements http.ResponseWriter.
func (c *statusWriter) Write(b []byte) (n int, err error) {
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	for first := true; err == nil && (first || len(b) > 0); first = false {
		c.more()
		var m int
		m, err = c.ResponseWriter.Write(b[:min(len(b), piece)])
		n, b = n+m, b[m:]
	}
	return n, err
}

// more gives the client c.timeout from now on for the next piece. The error is ignored, because the
// ResponseWriter of a test or of a wrapper may not support deadlines.
func (c *statusWriter) more() { _ = c.rc.SetWriteDeadline(time.Now().Add(c.timeout)) }

// WriteHeader implements http.ResponseWriter.
func (c *statusWriter) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.more()
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (c *statusWriter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// discarded takes an answer and keeps its head alone.
type discarded struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (d *discarded) Header() http.Header { return d.header }

// Write implements http.ResponseWriter.
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (d *discarded) WriteHeader(status int) { d.status = status }
