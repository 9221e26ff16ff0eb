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
package server
