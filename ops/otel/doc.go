// Package otel traces graphs and savers with OpenTelemetry.
//
//	tracer := otel.New(otel.Options{})
//	g, err := graph.New(…).Compile(graph.Options{Saver: tracer.Saver(disk), Hooks: tracer.Hooks(pregel.Hooks{})})
//
// Spans are nested like the work. A run contains supersteps, loads and saves. A superstep
// contains tasks. If a node runs another graph, or begins spans with its context, they are in
// the span of its task. Saves belong to the run and not to the superstep, because they go on
// while the next one runs. A task that may be tried again contains a span for each attempt.
//
// Tracer.Model and Tracer.Tool trace the calls of a chat model and of a tool by the semantic
// conventions for generative AI: spans "chat <model>" with the tokens that a call took, and
// "execute_tool <tool>". What is said is not recorded.
//
//	g, err := agent.New(tracer.Model(m, otel.ModelInfo{Name: "gpt-5", Provider: "openai"}), agent.Options{
//		Tools: []tool.Tool{tracer.Tool(weather)},
//		Graph: graph.Options{Hooks: tracer.Hooks(pregel.Hooks{})},
//	})
//
// A server of graphs has one trace from a request to the nodes that run because of it, also
// when a worker elsewhere runs them, or begins again after a kill. Tracer.Handler makes the
// spans of requests, Tracer.Trace is what a run remembers of one, and Tracer.Attempt continues
// it:
//
//	api, err := server.New(server.Config{…, Trace: tracer.Trace, Begin: tracer.Attempt})
//	http.ListenAndServe(addr, tracer.Handler(api))
//
// An error is recorded on the span that it ended. An interrupt, a command for the parent
// graph and a drained run are not errors; the attribute "stele.outcome" records them. Ids of
// threads, runs and checkpoints are attributes; values never are.
package otel
