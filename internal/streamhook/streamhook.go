// Package streamhook lets package runs, which is another module, run a graph and get its events
// without a goroutine of their own. The variable is filled in when package pregel is initialized. It
// imports this package, so this one cannot name its types.
package streamhook

import "context"

// Run is Stream of the *pregel.Graph g, at a pregel.Address, with pregel.RunOptions o: it runs the
// graph in the goroutine of the caller, and calls put, a func(pregel.Event), with the events in their
// order, one after the other, from any goroutine of the run. The run waits for put, which must not
// wait for the run, and is not called when Run has returned.
var Run func(ctx context.Context, g, at, input, o, put any) error
