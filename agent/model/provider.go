package model

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// ErrRequest: a request has something that the provider has no form for, such as a kind of content.
// Nothing was sent.
var ErrRequest = errors.New("the model cannot be asked this")

// ProviderError: a provider refused a call, or broke it off. It is an agent.RetryAfterError.
type ProviderError struct {
	// Provider is the name of the provider, as in the response metadata: "openai".
	Provider string
	// Status is the status of HTTP; 0 if there was no answer, or if it broke off.
	Status int
	// Kind is the provider's name for what is wrong, such as "rate_limit_error"; empty if it
	// gave none.
	Kind string
	// Message is what the provider says.
	Message string
	// After is how long to wait before the next call; 0 if the provider did not say.
	After time.Duration
	// Temporary: the same call may succeed later.
	Temporary bool
	// Err is the error of the provider's library.
	Err error
}

// Error names the provider and the reason.
func (e *ProviderError) Error() string {
	text := e.Provider
	if e.Status != 0 {
		text += ": " + strconv.Itoa(e.Status)
		if name := http.StatusText(e.Status); name != "" {
			text += " " + name
		}
	}
	if e.Kind != "" {
		text += ": " + e.Kind
	}
	switch {
	case e.Message != "":
		text += ": " + e.Message
	case e.Err != nil:
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the error of the provider's library.
func (e *ProviderError) Unwrap() error { return e.Err }

// RetryAfter is how long to wait before the next call; 0 if that is not known.
func (e *ProviderError) RetryAfter() time.Duration { return e.After }

// Refused makes the error of a call that a provider answered with an HTTP status other than 2xx. It is temporary
// if the status is 408, 409, 429 or at least 500, unless the header x-should-retry says otherwise.
// When to call again is in the header Retry-After, or in retry-after-ms.
func Refused(provider string, status int, header http.Header, kind, message string, err error) *ProviderError {
	e := &ProviderError{Provider: provider, Status: status, Kind: kind, Message: message, Err: err}
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		e.Temporary = true
	default:
		e.Temporary = status >= 500
	}
	if again, err := strconv.ParseBool(header.Get("x-should-retry")); err == nil {
		e.Temporary = again
	}
	e.After = retryAfter(header)
	return e
}

// retryAfter reads when to call again.
func retryAfter(header http.Header) time.Duration {
	after := header.Get("Retry-After")
	text, unit := header.Get("retry-after-ms"), time.Millisecond
	if text == "" {
		text, unit = after, time.Second
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 {
		return time.Duration(min(n, 1e9) * float64(unit))
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// Broken is the error of a call without an answer, or with one that broke off: the connection
// failed, or the answer cannot be read, or it has no end, for which err is io.ErrUnexpectedEOF. It
// is temporary unless there is something in the answer that cannot be read.
func Broken(provider string, err error) *ProviderError {
	e := &ProviderError{Provider: provider, Temporary: true, Err: err}
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch isSyntax := errors.As(err, &syntax); {
	case errors.Is(err, io.ErrUnexpectedEOF), isSyntax && syntax.Error() == endOfJSON:
		e.Message = "the answer broke off"
	case isSyntax, errors.As(err, &typ), errors.Is(err, bufio.ErrTooLong):
		e.Temporary = false
		e.Message = fmt.Sprintf("the answer cannot be read: %v", err)
	}
	return e
}

// endOfJSON is the error text of encoding/json for a text that ends too early, for which it has no
// error value.
var endOfJSON = json.Unmarshal([]byte("{"), new(any)).Error()

// temporary reports whether a call that failed with err may succeed later.
func temporary(ctx context.Context, err error) bool {
	var e *ProviderError
	return ctx.Err() == nil && errors.As(err, &e) && e.Temporary
}
