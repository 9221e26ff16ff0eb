// Package pregeljson writes what graphs show as JSON: states, stream events, messages, questions
// and errors, in the form in which LangGraph's server sends them. Package runs stores
// events in this form, and module server sends it, so that nobody else decides how a value
// looks to a client.
//
// # Values
//
// Names are those of LangGraph, in snake case. Values of the state are written by Go's
// encoding/json, except:
//
//   - A message has the fields of LangChain's, in LangChain's order: type, content, id,
//     tool_calls and so on; so has one that a checkpoint of Python stores.
//   - Another Python object that a checkpoint stores is an object of its fields.
//   - A nil slice is [], a nil map {}, as a state of Python would have them.
//   - NaN and infinities are null.
//   - A time has microseconds and an offset: 2006-01-02T15:04:05.999999+00:00.
//   - Bytes are base64, an error is its text.
//
// # States
//
// ThreadState is the state of a thread at one checkpoint. Of a thread without a checkpoint,
// values is {}, lists are empty, and the rest is null.
//
// # Events
//
// The data of a stream event, by mode:
//
//	values       the state; __interrupt__ has the questions if there are any
//	updates      {NODE: what it wrote}, with "__metadata__": {"cached": true} if it did not run
//	             again, or {"__interrupt__": [question, …]}
//	custom       what was emitted
//	messages     [message or chunk, metadata]
//	tools        {event, tool_call_id}, and with event tool-started {tool_name, input}, tool-output-delta {delta},
//	             tool-finished {output}, tool-error {message}
//	tasks        {id, name, input, triggers, metadata}; at its end {id, name, error, result, interrupts}
//	checkpoints  {config, parent_config, values, metadata, next, tasks}
//	debug        {step, timestamp, type, payload}
//
// In events a question is {value, id, response_schema}, in states {id, value}, with
// response_schema if it has one.
package pregeljson
