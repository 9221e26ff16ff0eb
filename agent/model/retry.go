package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/stele-go/stele/message"
)

// Retry says how a call of a provider is tried again. The zero Retry tries two more times, after half a
// second and a second.
//
// A call is tried again if it failed with a temporary *ProviderError before its first chunk. After that
// a part of the answer has been shown, and only the caller can decide. The pause between two calls is
// the one that the provider requests, or else the delay, which doubles each time. If the provider
// requests more than MaxDelay, the error is returned immediately, so that nobody waits for an hour
// unknowingly.
type Retry struct {
	// Retries is how often a call is tried after the first time. 0 is 2, and a negative number
	// is none.
	Retries int
	// Delay passes before the second try; 0 is half a second. A quarter of it more or less is
	// added by chance.
	Delay time.Duration
	// MaxDelay bounds the pause between two tries; 0 is a minute.
	MaxDelay time.Duration
}

// Silence is how long the models of agent/providers wait for a provider that says nothing, before an
// answer or in the middle of one: as long as the vendors' own clients in Python.
const Silence = 10 * time.Minute

// Check returns an error if a delay is negative.
func (r Retry) Check() error {
	if r.Delay < 0 || r.MaxDelay < 0 {
		return fmt.Errorf("%w: retries with a negative delay", ErrRequest)
	}
	return nil
}

// Stream returns the stream of a model whose calls are tried again: it yields the chunks of call. When
// ctx ends, the error is that of ctx.
func (r Retry) Stream(ctx context.Context, call func(yield func(message.Chunk, error) bool)) iter.Seq2[message.Chunk, error] {
	return func(yield func(message.Chunk, error) bool) {
		left := r.Retries
		if left == 0 {
			left = 2
		}
		for n := 0; ; n++ {
			began, stopped := false, false
			var failed error
			call(func(c message.Chunk, err error) bool {
				if failed != nil || stopped {
					return false
				}
				if err != nil {
					failed = err
					return false
				}
				began = true
				stopped = !yield(c, nil)
				return !stopped
			})
			switch {
			case stopped:
				return
			case ctx.Err() != nil:
				failed = ended(ctx, failed)
			case failed == nil:
				return
			}
			wait, again := r.wait(n, failed)
			if began || n >= left || !again || !temporary(ctx, failed) {
				yield(message.Chunk{}, failed)
				return
			}
			if err := pause(ctx, wait); err != nil {
				yield(message.Chunk{}, err)
				return
			}
		}
	}
}

// ended returns the error of a call whose context ended: err if it matches that of ctx, otherwise one
// that does.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return ctx.Err()
}

// wait returns how long to wait after the nth try; again is false if that is too long.
func (r Retry) wait(n int, err error) (d time.Duration, again bool) {
	first, limit := r.Delay, r.MaxDelay
	if first == 0 {
		first = time.Second / 2
	}
	if limit == 0 {
		limit = time.Minute
	}
	var e *ProviderError
	if errors.As(err, &e) && e.After > 0 {
		return e.After, e.After <= limit
	}
	d = min(first, limit)
	for range n {
		d = min(2*d, limit)
	}
	return d + time.Duration((rand.Float64()-0.5)/2*float64(d)), true
}
