package changetest

import (
	"context"
	"time"

	"github.com/stele-go/stele/pregel"
)

// signalName is the name of the signals that nodes receive.
const signalName = "go"

func sleeps(ctx context.Context) error { return pregel.Sleep(ctx, time.Hour) }

func receives[T any](ctx context.Context) error {
	_, err := pregel.NewSignal[T](signalName).Receive(ctx)
	return err
}

func asks(ctx context.Context) error {
	_, err := pregel.AskFor[string](ctx, "what?")
	return err
}

// inOrder does one thing behind the other.
func inOrder(list ...func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for _, do := range list {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// waits are the bodies of nodes that wait.
var waits = map[string]func(ctx context.Context) error{
	"nap":  sleeps,
	"hear": receives[string],
	"doze": inOrder(sleeps, receives[string]),
	"talk": inOrder(asks, asks),
}

// Changes of these bodies.
var (
	otherWaits = map[string]func(ctx context.Context) error{
		"nap":  receives[string],
		"hear": sleeps,
		"doze": inOrder(receives[string], sleeps),
	}
	noWaits   = map[string]func(ctx context.Context) error{"nap": inOrder(), "hear": inOrder(), "doze": inOrder()}
	otherType = map[string]func(ctx context.Context) error{"hear": receives[int]}
)
