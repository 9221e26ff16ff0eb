// Package streamv2 has the events of threads, as version 2 of LangGraph's streaming protocol tells them.
//
// The protocol is LangChain's streaming protocol for agents, which newer SDKs and useStream speak. Its
// definition is streaming/protocol.cddl of https://github.com/langchain-ai/agent-protocol, with types in the
// npm package @langchain/protocol. Where the definition leaves things open, LangGraph's server is the
// reference: server/parity has recordings of it. This page is the protocol as this server speaks it.
//
// # Requests
//
// A client opens a stream of a thread's events, and sends commands:
//
//	POST /threads/{id}/stream/events  the events, as server-sent events, of {channels, namespaces, depth, since}
//	POST /threads/{id}/commands       one command, and its answer
//	GET  /threads/{id}/stream/events  a WebSocket for both: each message is a command, an answer or an event
//
// The thread need not exist yet. A stream ends when its thread is removed, or the server closes.
//
// # Events
//
// The events of a thread are those of its runs, one run after the other, in the order in
// which the runs were begun: also of runs that were submitted by version 1, as far as their
// stream modes kept events. They are numbered from 1 on, without gaps until a run is removed.
// Nothing of this is stored: runs.Queue has the events of each run, a [Translator] makes from
// them what clients see, always the same, and so the numbers are the same in every process
// and after every restart. Only when a run is removed, a record says how many events it had,
// so that the numbers of others stay; see [Removed].
//
// An event is stored before anybody sees it. A client that was cut off asks for the events
// since the last number that it saw, from any server of the fleet, and misses none.
//
//	{"type": "event", "event_id": RUN-EVENT.N, "seq": number, "method": method,
//	 "params": {"namespace": [NODE:TASK, …], "timestamp": milliseconds, "data": …}}
//
// The namespace is that of the graph which the event is about: [] is the graph of the run.
//
// # Channels
//
// A subscription names channels, and may name namespaces: then it selects events of these
// and of the graphs inside, down to depth levels below. NODE stands for all its tasks. A
// channel has the events of the method of its name, but for input and custom:NAME:
//
//	values       the state after each superstep
//	updates      {node, values}: what a node wrote
//	messages     a message as it is written: message-start, content-block-start, -delta and
//	             -finish, message-finish
//	lifecycle    {event: running, completed, failed or interrupted} of the run; {event:
//	             started, …} and how it ended of a graph inside
//	input        input.requested {interrupt_id, payload}: a question
//	tasks        the beginning and the end of each task
//	checkpoints  {id, parent_id, source}, before the values that the checkpoint has
//	custom       what a node emitted, as it is. An object with a text "name" is also in the
//	             channel custom:NAME; clients take {"name": …, "payload": …} for its payload
//	tools        tool-started, tool-output-delta, tool-finished and tool-error of a tool call
//
// When a run is tried again after its worker died, its lifecycle says running once more,
// with the number of the attempt. What the earlier attempt emitted stays.
//
// # Commands
//
// A command is {id, method, params}, with an integer id. Its answer is {"type": "success", id,
// result} or {"type": "error", id, error, message}, where error is a code such as
// invalid_argument, unknown_command, no_such_run or permission_denied. Where it is a success or
// a run is bound, meta.applied_through_seq is the number of the last event that the client was
// sent before on the WebSocket, and 0 for a command that is a request of its own.
//
//	run.start                 {assistant_id, input, config, metadata, multitaskStrategy}: a run; on a
//	                          thread that waits, the input is the answer
//	input.respond             {interrupt_id, response} or {responses: [those, …]}, update, goto
//	input.inject              not supported: a run takes input when it begins, and when it asks
//	state.get                 {namespace, keys}: the values, and their checkpoint
//	state.listCheckpoints     {namespace, limit, before}: the history, newest first
//	state.fork                {checkpoint_id, input}: a run from an older checkpoint
//	agent.getTree             the run that is bound, with the graphs inside
//	subscription.subscribe    {channels, namespaces, depth}: also sends what is selected of the past
//	subscription.reconnect    the same, {since, subscription_id} for a client that was cut off: what came behind since
//	subscription.unsubscribe  {subscription_id}
//
// A run is bound to a WebSocket that has started it, or else is the last one of the thread. A
// command that is a request of its own has no subscriptions and no bound run.
//
// Commands act on threads and runs, so package server carries them out; what clients see of
// runs is here.
package streamv2
