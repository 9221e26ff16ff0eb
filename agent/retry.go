package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"
	"unicode"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
)

// Retry says how a failed call is tried again. The zero Retry tries two more times, after one and two
// seconds, and then answers with the error's text.
type Retry struct {
	// Retries is how often a call is tried after the first time. 0 means 2, and a negative number means
	// none.
	Retries int
	// On decides which errors are retried. Nil retries all except model errors that a retry cannot fix:
	// a *model.ProviderError that is not temporary, and model.ErrRequest. An error that is not retried
	// is returned immediately.
	On func(error) bool
	// Failed makes the text that stands in for the model's answer or the tool's result when all tries
	// failed. Nil makes a text that contains the error.
	Failed func(error) string
	// Stop returns the last error instead of a text.
	Stop bool
	// Delay passes before the second try; 0 means a second, and a negative Delay none. It grows by
	// Factor each time; 0 means 2. MaxDelay bounds it; 0 means a minute. Up to a quarter is added or
	// taken away at random, unless Exact is set.
	Delay, MaxDelay time.Duration
	Factor          float64
	Exact           bool
}

func (o Retry) check() error {
	if o.Factor < 0 || o.MaxDelay < 0 || math.IsNaN(o.Factor) {
		return fmt.Errorf("%w: retries: a negative delay", ErrOptions)
	}
	return nil
}

func (o Retry) retries() int {
	if o.Retries == 0 {
		return 2
	}
	return max(o.Retries, 0)
}

// RetryAfterError is an error that knows when to try again, such as a provider's answer that it
// has too much to do. Retry waits at least so long.
type RetryAfterError interface {
	error
	// RetryAfter is how long to wait; 0 if that is not known.
	RetryAfter() time.Duration
}

// delay returns how long to wait before the next try. n counts from 0.
func (o Retry) delay(n int, err error) time.Duration {
	first, limit, factor := o.Delay, o.MaxDelay, o.Factor
	if first == 0 {
		first = time.Second
	}
	if limit == 0 {
		limit = time.Minute
	}
	if factor == 0 {
		factor = 2
	}
	d := time.Duration(min(float64(max(first, 0))*math.Pow(factor, float64(n)), float64(limit)))
	if !o.Exact {
		d += time.Duration((rand.Float64() - 0.5) / 2 * float64(d))
	}
	var after RetryAfterError
	if errors.As(err, &after) {
		d = max(d, after.RetryAfter())
	}
	return d
}

// try calls f until it succeeds. made is how often it was called; it is 0 if err is not one that
// can be answered with a text.
func (o Retry) try(ctx context.Context, f func() error) (made int, err error) {
	for n := 0; ; n++ {
		err := f()
		if err == nil || bubbles(ctx, err) || !o.on(err) {
			return 0, err
		}
		if n == o.retries() {
			return n + 1, err
		}
		t := time.NewTimer(o.delay(n, err))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return 0, ctx.Err()
		}
	}
}

// on reports whether an error is tried again.
func (o Retry) on(err error) bool {
	if o.On != nil {
		return o.On(err)
	}
	var refused *model.ProviderError
	return !errors.Is(err, model.ErrRequest) && (!errors.As(err, &refused) || refused.Temporary)
}

// bubbles reports whether an error is none of the call, but one that must reach the engine: a
// question, an answer that it refuses, a Command for the graph around, the end of the run.
func bubbles(ctx context.Context, err error) bool {
	var interrupt *pregel.InterruptError
	var refused *pregel.AnswerError
	var parent *pregel.ParentCommandError
	var drained *pregel.DrainedError
	var panicked *pregel.PanicError
	return ctx.Err() != nil || stops(doorOf(ctx), err) || errors.As(err, &interrupt) || errors.As(err, &refused) || errors.As(err, &parent) ||
		errors.As(err, &drained) || errors.As(err, &panicked)
}

// failure is the text for an error that all tries had.
func (o Retry) failure(err error, made int, what, tail string) string {
	if o.Failed != nil {
		return o.Failed(err)
	}
	times := "attempts"
	if made == 1 {
		times = "attempt"
	}
	kind := reflect.TypeOf(err)
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	with := ": "
	if name := kind.Name(); name != "" && unicode.IsUpper(rune(name[0])) {
		with = " with " + name + ": "
	}
	return fmt.Sprintf("%s failed after %d %s%s%v%s", what, made, times, with, err, tail)
}

// RetryModel is a Middleware that tries a failed call of the model again: LangChain's
// ModelRetryMiddleware. What a failed call had streamed was shown. Where the answer has a form, the
// last error ends the run, as with Stop.
func RetryModel(o Retry) Middleware {
	return Middleware{
		Name:  "ModelRetryMiddleware",
		maker: "RetryModel",
		WrapModel: func(ctx context.Context, r ModelRequest, next ModelHandler) (res ModelResponse, err error) {
			made, err := o.try(ctx, func() error {
				res, err = next(ctx, r)
				return err
			})
			if err == nil || made == 0 || o.Stop || r.Response != nil { // a text is no structured answer
				return res, err
			}
			return ModelResponse{Messages: []message.Message{message.AI(o.failure(err, made, "Model call", ""))}}, nil
		},
		err: o.check(),
	}
}

// RetryTools is a Middleware that tries a failed call of a tool again: LangChain's
// ToolRetryMiddleware. names are the tools; none is all. An error for which Options.Errors has an
// answer is not seen here. pregel.IdempotencyKey gives each try the same key.
func RetryTools(o Retry, names ...string) Middleware {
	return Middleware{
		Name:  "ToolRetryMiddleware",
		maker: "RetryTools",
		WrapTool: func(ctx context.Context, r tool.Request, next tool.Runner) (out any, err error) {
			if len(names) > 0 && !slices.Contains(names, r.Name) {
				return next(ctx, r)
			}
			made, err := o.try(ctx, func() error {
				out, err = next(ctx, r)
				return err
			})
			if err == nil || made == 0 || o.Stop {
				return out, err
			}
			return failed(r.ToolCall, o.failure(err, made, "Tool '"+r.Name+"'", ". Please try again.")), nil
		},
		err:   o.check(),
		about: names,
	}
}

// Fallback is a Middleware that asks other models, one after the other, when the agent's fails:
// LangChain's ModelFallbackMiddleware. The error is that of the last.
func Fallback(models ...model.Model) Middleware {
	m := Middleware{
		Name:  "ModelFallbackMiddleware",
		maker: "Fallback",
		WrapModel: func(ctx context.Context, r ModelRequest, next ModelHandler) (ModelResponse, error) {
			res, err := next(ctx, r)
			for _, other := range models {
				if err == nil || bubbles(ctx, err) {
					break
				}
				r.Model = other
				res, err = next(ctx, r)
			}
			return res, err
		},
	}
	if len(models) == 0 || slices.Contains(models, nil) {
		m.err = fmt.Errorf("%w: fallback to no model", ErrOptions)
	}
	return m
}
