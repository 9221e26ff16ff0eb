package message

import "context"

type meterKey struct{}

// WithMeter returns a context in which meter is given each answer of a model, with the context of the call: for the
// tokens of calls whose answers no state has, such as those of an agent that a tool runs, or of a summary. Several
// goroutines may call meter at once. A meter that ctx has already is given the answers as well.
func WithMeter(ctx context.Context, meter func(ctx context.Context, answer Message)) context.Context {
	if outer, ok := ctx.Value(meterKey{}).(func(context.Context, Message)); ok {
		inner := meter
		meter = func(ctx context.Context, answer Message) {
			inner(ctx, answer)
			outer(ctx, answer)
		}
	}
	return context.WithValue(ctx, meterKey{}, meter)
}

// Metered gives the meter of ctx, if there is one, the answer of a model. Call and Collect of package agent/model do so; a
// node that asks a model in another way calls it once for each answer.
func Metered(ctx context.Context, answer Message) {
	if meter, ok := ctx.Value(meterKey{}).(func(context.Context, Message)); ok {
		meter(ctx, answer)
	}
}
