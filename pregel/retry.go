package pregel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// RetryPolicy says which errors of a node are retried, and when. A zero field has
// LangGraph's default.
type RetryPolicy struct {
	InitialInterval time.Duration // 0: 500 ms
	BackoffFactor   float64       // 0: 2
	MaxInterval     time.Duration // 0: 128 s
	MaxAttempts     int           // 0: 3, the first one counted
	NoJitter        bool          // jitter adds up to one second to each wait
	// RetryOn decides about an error; nil is RetryTransient. It is not asked about
	// interrupts and commands to a parent.
	RetryOn func(error) bool
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	p.InitialInterval = cmp.Or(p.InitialInterval, 500*time.Millisecond)
	p.BackoffFactor = cmp.Or(p.BackoffFactor, 2)
	p.MaxInterval = cmp.Or(p.MaxInterval, 128*time.Second)
	p.MaxAttempts = cmp.Or(p.MaxAttempts, 3)
	if p.RetryOn == nil {
		p.RetryOn = RetryTransient
	}
	return p
}

// RetryTransient is the default of RetryPolicy.RetryOn: LangGraph's default in Go's terms.
// It retries lost and refused connections, timeouts of a node or a request, HTTP statuses
// that blame the server (an error with StatusCode or HTTPStatusCode of 500 to 599, or of 0
// for no response), and any error that it does not know to be permanent. It does not retry
// other HTTP statuses, bad input (refused answers, values of the wrong type, numbers and JSON that cannot be
// parsed), errors of the operating system, panics, the end of a context, and errors that
// say they are not Temporary.
func RetryTransient(err error) bool {
	var timeout *NodeTimeoutError
	var temporary interface{ Temporary() bool }
	if errors.As(err, &timeout) || isConnection(err) {
		return true
	}
	if status, ok := httpStatus(err); ok {
		return status == 0 || status >= 500 && status < 600
	}
	if isLasting(err) {
		return false
	}
	if errors.As(err, &temporary) {
		return temporary.Temporary()
	}
	return true
}

// isConnection reports whether a connection failed, or a request timed out.
func isConnection(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var request *url.Error
	for _, is := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, &op) || errors.As(err, &dns) || errors.As(err, &request) && request.Timeout()
}

// httpStatus is the status an error carries, as the clients of HTTP services give
// it.
func httpStatus(err error) (status int, ok bool) {
	var plain interface{ StatusCode() int }
	var named interface{ HTTPStatusCode() int }
	switch {
	case errors.As(err, &plain):
		return plain.StatusCode(), true
	case errors.As(err, &named):
		return named.HTTPStatusCode(), true
	}
	return 0, false
}

// isLasting reports whether a second attempt would fail as the first did.
func isLasting(err error) bool {
	for _, is := range []error{ErrInvalidUpdate, saver.ErrFenced, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, is) {
			return true
		}
	}
	var (
		panicked *PanicError
		answer   *AnswerError
		value    *channel.TypeError
		number   *strconv.NumError
		syntax   *json.SyntaxError
		field    *json.UnmarshalTypeError
		path     *fs.PathError
		link     *os.LinkError
		call     *os.SyscallError
		errno    syscall.Errno
	)
	return errors.As(err, &panicked) || errors.As(err, &answer) || errors.As(err, &value) || errors.As(err, &number) ||
		errors.As(err, &syntax) || errors.As(err, &field) ||
		errors.As(err, &path) || errors.As(err, &link) || errors.As(err, &call) || errors.As(err, &errno)
}

// RetryOnErrors makes a predicate for RetryPolicy.RetryOn that accepts errors matching one
// of targets; none if there are no targets.
func RetryOnErrors(targets ...error) func(error) bool {
	return func(err error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
	}
}
