// Package wire is the codec of the protocol between a server of a store and its clients:
// docs/wire.md has it whole. A frame ([ReadFrame], [AppendFrame]) holds a [Message]. Its
// body is the parameters of a request, or the result of a response: a struct with tags for
// each, which [Encode], [DecodeParams] and [Decode] know. Some are types of package saver,
// such as saver.Query, the parameters of list.
//
// Decoders return an error for any input that is no message of the protocol. They never
// panic, and they allocate a small multiple of the input's length. Decoded byte slices share
// the memory of the input; texts are copies. Everything here is safe for concurrent use, as
// it has no state.
//
// Package wire/server serves a store, and package wire/client is a saver and a store at the
// other end, for programs in Go.
package wire
