// Package server serves a store to other processes, by the protocol of docs/wire.md.
//
// A Server takes connections of listeners. An Endpoint is where the server of a directory
// listens: it makes the socket, and the file by which clients find it.
package server
