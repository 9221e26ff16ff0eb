package wire

import (
	"errors"
	"fmt"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// Code says what an Error means.
type Code string

// The codes of errors; docs/wire.md says what each means.
const (
	CodeInvalid         Code = "invalid"
	CodeNotFound        Code = "not_found"
	CodeConflict        Code = "conflict"
	CodeOwned           Code = "owned"
	CodeFenced          Code = "fenced"
	CodeThreadDeleted   Code = "thread_deleted"
	CodeThreadExists    Code = "thread_exists"
	CodeTooLarge        Code = "too_large"
	CodeBudget          Code = "budget"
	CodeDiskFull        Code = "disk_full"
	CodeReadOnly        Code = "read_only"
	CodeUnknownOutcome  Code = "unknown_outcome"
	CodeCorrupt         Code = "corrupt"
	CodeUnavailable     Code = "unavailable"
	CodeClosing         Code = "closing"
	CodeEraseUnfinished Code = "erase_unfinished"
	CodeUnsupported     Code = "unsupported"
	CodeUnknownMethod   Code = "unknown_method"
	CodeBadRequest      Code = "bad_request"
	CodeAuth            Code = "auth"
	CodeVersion         Code = "version"
	CodeStale           Code = "stale"
	CodeCancelled       Code = "cancelled"
	CodeAncestorCycle   Code = "ancestor_cycle"
	CodeInternal        Code = "internal"
)

// Fields of invalid that stand for errors of package store: store.ErrNamespace,
// store.ErrVector and store.ErrNoIndex.
const (
	FieldNamespace = "namespace"
	FieldVector    = "vector"
	FieldIndex     = "index"
)

// Error is the error of a response. Details has what the type of the error has, and only
// what its code uses.
type Error struct {
	Code    Code    `msgpack:"code"`
	Message string  `msgpack:"message"` // for people
	Details Details `msgpack:"details"`
}

// Details are the fields of errors.
type Details struct {
	Field    string `msgpack:"field,omitempty"` // invalid
	Reason   string `msgpack:"reason,omitempty"`
	Thread   string `msgpack:"thread,omitempty"`
	NS       string `msgpack:"ns,omitempty"` // conflict
	Expected string `msgpack:"expected,omitempty"`
	Head     string `msgpack:"head,omitempty"`
	Epoch    int64  `msgpack:"epoch,omitempty"`  // fenced
	Budget   int64  `msgpack:"budget,omitempty"` // budget
	Least    int64  `msgpack:"least,omitempty"`
	File     string `msgpack:"file,omitempty"` // corrupt
	Kind     string `msgpack:"kind,omitempty"`
	Offset   int64  `msgpack:"offset,omitempty"`
	Detail   string `msgpack:"detail,omitempty"`
	Protocol int64  `msgpack:"protocol,omitempty"` // version
}

// always are the details that errors of a code have even if they are empty.
var always = map[Code][]string{
	CodeConflict: {"thread", "ns", "expected", "head"}, CodeBudget: {"thread", "budget", "least"},
	CodeCorrupt: {"file", "kind", "offset", "detail"},
}

// Errors of clients, which no saver returns.
var (
	// ErrAuth: the token is missing or wrong.
	ErrAuth = errors.New("the token is missing or wrong")
	// ErrVersion: the server does not speak the client's protocol.
	ErrVersion = errors.New("the server speaks another protocol")
	// ErrClosing: the server ends. The call was not begun.
	ErrClosing = errors.New("the server ends")
	// ErrStale: the slot of the call was used for a later one.
	ErrStale = errors.New("the call is older than the last one of its slot")
	// ErrUnsupported: the store of the server does not have the method.
	ErrUnsupported = errors.New("the store does not have the method")
	// ErrUnavailable: the store takes no more writes until it is opened again.
	ErrUnavailable = errors.New("the store is unavailable")
	// ErrCancelled: the client cancelled the call, which had no effect.
	ErrCancelled = errors.New("the call was cancelled")
)

// sentinels are the errors that a code matches in Go.
var sentinels = map[Code]error{
	CodeInvalid: saver.ErrInvalid, CodeNotFound: saver.ErrNotFound, CodeConflict: saver.ErrConflict, CodeOwned: saver.ErrConflict, CodeFenced: saver.ErrFenced,
	CodeThreadDeleted: saver.ErrThreadDeleted, CodeThreadExists: saver.ErrThreadExists, CodeTooLarge: saver.ErrTooLarge, CodeBudget: saver.ErrBudget,
	CodeDiskFull: fault.ErrDiskFull, CodeReadOnly: saver.ErrReadOnly, CodeUnknownOutcome: saver.ErrOutcomeUnknown, CodeCorrupt: saver.ErrCorrupt,
	CodeUnavailable: ErrUnavailable, CodeClosing: ErrClosing, CodeEraseUnfinished: saver.ErrEraseUnfinished, CodeUnsupported: ErrUnsupported,
	CodeAuth: ErrAuth, CodeVersion: ErrVersion, CodeStale: ErrStale, CodeCancelled: ErrCancelled, CodeAncestorCycle: saver.ErrAncestorCycle,
}

// Error returns the message, or the code if there is none.
func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return e.Message
}

// Unwrap returns the error of package saver, fault or wire for the code, with the type that the
// contract of savers defines, if any. It is nil for other codes.
func (e *Error) Unwrap() error {
	d := &e.Details
	switch e.Code {
	case CodeInvalid:
		if d.Field != "" {
			return &saver.InvalidError{Field: d.Field, Reason: d.Reason}
		}
	case CodeConflict:
		return &saver.ConflictError{ThreadID: d.Thread, Namespace: d.NS, Expected: d.Expected, Head: d.Head}
	case CodeOwned:
		return &saver.OwnedError{ThreadID: d.Thread}
	case CodeFenced:
		return &saver.FencedError{ThreadID: d.Thread, Epoch: d.Epoch}
	case CodeBudget:
		return &saver.BudgetError{ThreadID: d.Thread, Budget: d.Budget, Least: d.Least}
	case CodeCorrupt:
		return &fault.CorruptionError{File: d.File, Kind: d.Kind, Offset: d.Offset, Detail: d.Detail}
	}
	return sentinels[e.Code]
}

// Errorf is an Error with a message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// ErrorOf is err as it is sent. The first of these that matches counts: an *Error is sent as
// it is, an error of package saver or fault with its code, and another one as internal.
func ErrorOf(err error) *Error {
	var own *Error
	if errors.As(err, &own) {
		return own
	}
	out := &Error{Code: CodeInternal, Message: err.Error()}
	d := &out.Details
	var (
		invalid  *saver.InvalidError
		conflict *saver.ConflictError
		owned    *saver.OwnedError
		fenced   *saver.FencedError
		budget   *saver.BudgetError
		corrupt  *fault.CorruptionError
		space    *store.NamespaceError
		vector   *store.VectorError
	)
	switch {
	case errors.Is(err, fault.ErrFenced): // nothing of the call is in the lineage: it is asked again at the new leader
		out.Code = CodeClosing
	case errors.Is(err, saver.ErrOutcomeUnknown):
		out.Code = CodeUnknownOutcome
	case errors.Is(err, saver.ErrEraseUnfinished):
		out.Code = CodeEraseUnfinished
	case errors.Is(err, fault.ErrClosed):
		out.Code = CodeClosing
	case errors.As(err, &invalid):
		out.Code, d.Field, d.Reason = CodeInvalid, invalid.Field, invalid.Reason
	case errors.As(err, &space):
		out.Code, d.Field, d.Reason = CodeInvalid, FieldNamespace, space.Reason
	case errors.As(err, &vector):
		out.Code, d.Field, d.Reason = CodeInvalid, FieldVector, vector.Reason
	case errors.Is(err, store.ErrNoIndex):
		out.Code, d.Field, d.Reason = CodeInvalid, FieldIndex, err.Error()
	case errors.As(err, &conflict):
		out.Code, d.Thread, d.NS, d.Expected, d.Head = CodeConflict, conflict.ThreadID, conflict.Namespace, conflict.Expected, conflict.Head
	case errors.As(err, &owned):
		out.Code, d.Thread = CodeOwned, owned.ThreadID
	case errors.As(err, &fenced):
		out.Code, d.Thread, d.Epoch = CodeFenced, fenced.ThreadID, fenced.Epoch
	case errors.As(err, &budget):
		out.Code, d.Thread, d.Budget, d.Least = CodeBudget, budget.ThreadID, budget.Budget, budget.Least
	case errors.Is(err, fault.ErrPoisoned), errors.Is(err, fault.ErrLockLost), errors.Is(err, fault.ErrStale), errors.Is(err, fault.ErrTooManyFiles):
		out.Code = CodeUnavailable
	case errors.As(err, &corrupt):
		out.Code, d.File, d.Kind, d.Offset, d.Detail = CodeCorrupt, corrupt.File, corrupt.Kind, corrupt.Offset, corrupt.Detail
	default:
		for _, code := range []Code{CodeAncestorCycle, CodeDiskFull, CodeReadOnly, CodeThreadDeleted, CodeThreadExists, CodeTooLarge,
			CodeNotFound, CodeInvalid, CodeCorrupt, CodeStale, CodeUnsupported} {
			if errors.Is(err, sentinels[code]) {
				out.Code = code
				break
			}
		}
	}
	return out
}
