// Package client speaks LangGraph's server API: to servers of stele, and to LangGraph's own.
// It has what langgraph-sdk has, in the same words. Package server/client/remote makes a graph of a
// server usable as a graph, or as a node of one.
//
//	c, err := client.New("http://127.0.0.1:2024", client.WithAPIKey(key))
//	t, err := c.Threads.Create(ctx, client.ThreadCreate{})
//	for ev, err := range c.Runs.Stream(ctx, t.ThreadID, client.RunRequest{AssistantID: "agent", Input: input, StreamResumable: true}) {
//		…
//	}
//
// # Values
//
// What belongs to graphs, such as the values of a state, is a json.RawMessage, to be decoded
// into what the caller knows it to be. What is sent is anything that encoding/json can write;
// a message.Message writes itself as LangChain's servers expect.
//
// # Errors
//
// A request that is refused is an *Error with the status and the server's words. It matches
// ErrNotFound, ErrConflict, ErrUnauthorized or ErrInvalid. A run that failed is a *RunError. An
// answer, or an event, that is larger than WithLimit allows is a *LimitError; the rest of it is
// not read.
//
// # What is sent again
//
// Requests that only read are sent again when the connection fails, or the server answers 429,
// 502, 503 or 504, with growing pauses. What may change something is sent once: if the
// connection fails, nobody knows whether it was done. Streams of resumable runs are resumed,
// and waits go on; see Runs.Stream and Runs.Wait.
//
// Lists are cut into pages. Search and List return one; All yields page after page.
package client
