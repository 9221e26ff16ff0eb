package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// notFoundError: the source does not have what a command names.
type notFoundError struct{ what string }

// Error names what is not there.
func (e *notFoundError) Error() string { return "not found: " + e.what }

// Unwrap gives the error the kind of saver.ErrNotFound.
func (e *notFoundError) Unwrap() error { return saver.ErrNotFound }

// namedThreads is a source that ends with a notFoundError if it does not have all threads that
// the command names. So no file is made that looks like an export of them.
type namedThreads struct {
	transfer.Source
	flags *transferFlags
}

// Tuples implements transfer.Source.
func (s namedThreads) Tuples(ctx context.Context, sel transfer.Selection) iter.Seq2[*transfer.Tuple, error] {
	return func(yield func(*transfer.Tuple, error) bool) {
		found := map[string]bool{}
		for tup, err := range s.Source.Tuples(ctx, sel) {
			var r *transfer.Rejected
			rejected := errors.As(err, &r)
			if rejected {
				found[r.Config.ThreadID] = true
			} else if err == nil {
				found[tup.Config.ThreadID] = true
			}
			if !yield(tup, err) || err != nil && !rejected {
				return
			}
		}
		if err := s.flags.missing(found); err != nil {
			yield(nil, err)
		}
	}
}

// missing is a notFoundError if a thread that is named was not found.
func (f *transferFlags) missing(found map[string]bool) error {
	var names []string
	for _, id := range f.threads {
		if !found[id] {
			found[id] = true // named once
			names = append(names, fmt.Sprintf("%q", id))
		}
	}
	if len(names) == 0 {
		return nil
	}
	what := "thread"
	if len(names) > 1 {
		what = "threads"
	}
	what += " " + strings.Join(names, ", ")
	if f.prefix != "" || len(f.filters) > 0 {
		what += ", with the prefix and the filters given"
	}
	return &notFoundError{what}
}

// namedItems is a source that ends with a notFoundError if it has no item below the namespace
// that the command names.
type namedItems struct {
	transfer.ItemSource
	flags *transferFlags
}

// Items implements transfer.ItemSource.
func (s namedItems) Items(ctx context.Context, below store.Namespace) iter.Seq2[*store.Item, error] {
	return func(yield func(*store.Item, error) bool) {
		found := false
		for it, err := range s.ItemSource.Items(ctx, below) {
			var r *transfer.Rejected
			found = true
			if !yield(it, err) || err != nil && !errors.As(err, &r) {
				return
			}
		}
		if !found && s.flags.below != "" {
			yield(nil, s.flags.noItems())
		}
	}
}

func (f *transferFlags) noItems() error {
	return &notFoundError{fmt.Sprintf("items below the namespace %q", f.below)}
}
