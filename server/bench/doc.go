// Command bench compares the server with LangGraph's own development server. Both serve a
// graph of three nodes that do next to nothing, on this machine, one after the other, and the
// same clients use them by HTTP.
//
//	go run ./server/bench -venv VENV
//
// With -alone net/http and the graph are measured too, without package server: what it costs to
// run the graph and store its checkpoints, where nobody goes on with a run after a crash. With
// -cpuprofile FILE the server writes where its CPU goes.
//
// VENV is a Python environment with langgraph-cli[inmem]; without one only stele is measured.
// stele stores on disk and syncs before it answers; langgraph dev keeps everything in memory.
// The figures are:
//
//   - runs in a second at 1, 16 and 64 clients, each of which waits for one run after the
//     other, by POST /threads/{id}/runs/wait, and takes a new thread after every tenth, as the
//     state of a thread grows with its runs, and who is faster would have larger ones;
//   - CPU seconds of the server's process in a run;
//   - how long it takes from the request of a stream to its first event, with one client;
//   - the resident memory of a server at rest, and when it has 1,000 threads of one run.
//
// It needs Linux: it reads /proc.
package main
