// Package otel traces graphs and savers with OpenTelemetry.
//
//	tracer := otel.New(otel.Options{})
//	g, err := graph.New(…).Compile(graph.Options{Saver: tracer.Saver(disk), Hooks: tracer.Hooks(pregel.Hooks{})})
//
// Spans are nested as the work is: a run has supersteps, loads and saves, a superstep
// has tasks, and a node that calls another graph, or begins spans of its own with the
// context it is given, has these inside of its task. Saves are inside of the run and
// not of the superstep, as they go on beside the next one.
//
// An error is recorded on the span it ended. An interrupt, a command for the graph
// around, and a drained run are no errors: they are the attribute "stele.outcome".
// Names of threads, runs and checkpoints are attributes; values never are.
package otel
