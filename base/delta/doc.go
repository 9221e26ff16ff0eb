// Package delta makes patches between versions of a value. A patch is a list of runs that are
// copied from the base, and of literal bytes between them. If a value grew by a message, the
// patch is about as large as the message.
//
// Resolve applies a whole chain of patches at once. Each byte of the result is copied once,
// however long the chain is.
//
// docs/format/patch.md has the bytes. The package does no I/O and starts no
// goroutine; everything in it is safe for concurrent use.
//
// It is for this repository, and makes no promise to others.
package delta
