// Package server serves graphs over HTTP by LangGraph's server API, which langgraph-sdk,
// useStream, RemoteGraph, agent-chat-ui and Studio speak.
//
//	srv, err := server.New(server.Config{
//		Graphs: map[string]*pregel.Graph{"agent": g}, // compiled with disk and mem
//		Saver: disk, Store: mem, Queue: queue, Auth: server.NoAuth(),
//	})
//	http.ListenAndServe("127.0.0.1:2024", srv)
//
// docs/server.md says how to mount, deploy and secure it, and lists the operations.
//
// # What is kept where
//
// State is in the saver, runs and their events in the queue, and what the API has beside
// them, in the store: assistants, the metadata of threads, webhooks to call. So everything
// survives what the stores survive, and any number of servers on one database are one
// server.
//
// # What is guaranteed
//
//   - A run that a client was told of is executed to its end, also if the server is killed.
//   - An event is stored before a client sees it. A stream that is resumed with
//     Last-Event-ID, at any server, yields every event behind it once.
//   - A client that leaves does not stop its run, unless it asked for that.
//   - Every operation but /ok and /info is authenticated and authorized; see Auth.
//
// # Where to read
//
// The way of one run stands at runAPI.stream. What a file of the same beginning holds belongs to it.
//
//	server.go    New, Config, Close               runs.go       operations on runs
//	routes.go    the table of operations          runrequest.go a body as a runs.Request
//	serve.go     one request, from guard to answer stream.go    streamAPI: runs followed by clients
//	call.go      what a handler gets              frames.go     events of version 1 of the protocol
//	guard.go     who may reach it                 protocol*.go  version 2; package streamv2
//	auth.go      who may do what                  output.go     answers in bounded pieces
//	records.go   what the server keeps            deferred.go   what is done after a run
//
//	threads.go     threads and states             operator.go   health, metrics, runs: for operators
//	assistants.go  graphs with a configuration    eraseuser.go  everything of a user, erased
//	crons.go       runs by the clock              moveitems.go  items from their former places
//	items.go       the long-term store            mcp.go        assistants as tools
//	places.go      where a user's items are       front.go      one address over take-overs
package server
