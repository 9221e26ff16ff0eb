// Package delta says how one version of a value is made from another: as a patch,
// a list of runs that are copied from the base and of literal bytes between them.
// A value that grew by a message costs about that message.
//
// A chain of patches is resolved at once (Resolve): each byte of the result is
// copied one time, however many patches lead to it.
//
// docs/format/patch.md has the bytes. The package does no I/O and starts no
// goroutine; everything in it is safe for concurrent use.
package delta
