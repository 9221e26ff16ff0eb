package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrNotFound matches an Error of status 404.
	ErrNotFound = errors.New("not found")
	// ErrConflict matches an Error of status 409: a thread is busy, or something is there
	// already.
	ErrConflict = errors.New("conflict")
	// ErrUnauthorized matches an Error of status 401 or 403.
	ErrUnauthorized = errors.New("not authorized")
	// ErrInvalid matches an Error of status 400 or 422: the request is wrong.
	ErrInvalid = errors.New("invalid request")
	// ErrRunFailed matches every RunError.
	ErrRunFailed = errors.New("the run failed")
	// ErrHistoryCut matches an Error of status 410 and a RunError of this kind: a stream cannot go on, because events that the client
	// has seen are lost. Read the state, and stream the run from its beginning.
	ErrHistoryCut = errors.New("the events behind which the stream is to go on are lost")
	// ErrLimit matches every LimitError.
	ErrLimit = errors.New("an answer is larger than the limit")
)

// Error is an answer that refuses a request. Match it with ErrNotFound, ErrConflict,
// ErrUnauthorized or ErrInvalid, or look at its Status.
type Error struct {
	Method, Path string
	Status       int
	Detail       string // why, in the server's words
	// RetryAfter is when the server wants to be asked again; 0 if it does not say.
	RetryAfter time.Duration
}

// Error has the request, the status and the detail.
func (e *Error) Error() string {
	return fmt.Sprintf("client: %s %s: status %d: %s", e.Method, e.Path, e.Status, e.Detail)
}

// Is matches the errors of this package that stand for the status.
func (e *Error) Is(target error) bool {
	switch e.Status {
	case http.StatusNotFound:
		return target == ErrNotFound
	case http.StatusConflict:
		return target == ErrConflict
	case http.StatusUnauthorized, http.StatusForbidden:
		return target == ErrUnauthorized
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return target == ErrInvalid
	case http.StatusGone:
		return target == ErrHistoryCut
	}
	return false
}

// RunError is how a run failed.
type RunError struct {
	Kind    string `json:"error"` // the name of a class in Python, or of a type in Go
	Message string `json:"message"`
}

// Error has kind and message.
func (e *RunError) Error() string { return "client: the run failed: " + e.Kind + ": " + e.Message }

// Is makes every RunError match ErrRunFailed, and one that says so ErrHistoryCut.
func (e *RunError) Is(target error) bool {
	return target == ErrRunFailed || target == ErrHistoryCut && e.Kind == historyCut
}

// historyCut is the kind of error of a stream that cannot go on.
const historyCut = "HistoryCut"

var errCut = &RunError{Kind: historyCut, Message: ErrHistoryCut.Error()}

// runErrorOf reads the data of an event of an error.
func runErrorOf(data []byte) *RunError {
	e := &RunError{}
	if json.Unmarshal(data, e) != nil || e.Kind == "" && e.Message == "" {
		e.Kind, e.Message = "Error", string(data)
	}
	return e
}

// LimitError: an answer, or an event of a stream, is larger than the client takes.
type LimitError struct{ Limit int64 }

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("client: an answer, or an event, has more than %d bytes", e.Limit)
}

// Is makes every LimitError match ErrLimit.
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// mostDetail bounds what is read of an answer that refuses.
const mostDetail = 64 << 10

// errorOf is the error of an answer.
func errorOf(r *http.Request, resp *http.Response) *Error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, mostDetail)) // what there is of it says enough
	e := &Error{Method: r.Method, Path: r.URL.Path, Status: resp.StatusCode, Detail: detailOf(text)}
	if e.Detail == "" {
		e.Detail = http.StatusText(e.Status)
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 && seconds < 1<<20 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// detailOf is the reason in an answer: its detail, the message of the streaming protocol, or
// its text.
func detailOf(text []byte) string {
	var told struct {
		Detail  json.RawMessage `json:"detail"`
		Message string          `json:"message"`
		Error   string          `json:"error"`
	}
	if json.Unmarshal(text, &told) != nil {
		return strings.TrimSpace(string(text))
	}
	var detail string
	switch {
	case json.Unmarshal(told.Detail, &detail) == nil:
		return detail
	case len(told.Detail) > 0:
		return string(told.Detail)
	case told.Message != "":
		return told.Message
	case told.Error != "":
		return told.Error
	}
	return strings.TrimSpace(string(text))
}
