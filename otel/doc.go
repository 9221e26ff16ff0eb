// Package otel traces graphs and savers with OpenTelemetry.
//
//	tracer := otel.New(otel.Options{})
//	g, err := graph.New(…).Compile(graph.Options{Saver: tracer.Saver(disk), Hooks: tracer.Hooks(pregel.Hooks{})})
//
// Spans are nested like the work. A run contains supersteps, loads and saves. A superstep
// contains tasks. If a node runs another graph, or begins spans with its context, they are in
// the span of its task. Saves belong to the run and not to the superstep, because they go on
// while the next one runs.
//
// An error is recorded on the span that it ended. An interrupt, a command for the parent
// graph and a drained run are not errors; the attribute "stele.outcome" records them. Ids of
// threads, runs and checkpoints are attributes; values never are.
package otel
