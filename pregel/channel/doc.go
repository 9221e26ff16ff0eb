// Package channel holds the channels of a graph: named places that keep a value
// between supersteps and decide what several writes of one superstep amount to.
// They are LangGraph's channels, rule for rule, with types on their face:
//
//	channel.LastValue[string]()                 // at most one write per step
//	channel.Reduce(channel.Append[Message])     // every write is folded in
//	channel.Topic[Job](channel.Accumulate)      // a list of what was sent
//
// Underneath, values are any: the engine moves them without knowing them. A
// write of another type is converted if that loses nothing (int64 to int, a
// decoded map to a struct), and is a TypeError otherwise.
//
// # Changed and available
//
// Two answers of a channel drive the engine. Update, Consume and Finish report
// whether the channel changed: a change gives it a new version. Available
// reports whether it has a value: only an available channel triggers nodes. A
// channel may change and become unavailable.
//
// # Ownership
//
// A channel owns its value until the next Update. A reducer may append to the
// slice it is given, because copies of a channel never share spare capacity;
// it must not change elements or map entries that are already there.
//
// Channels are not safe for concurrent use; the engine updates them between
// supersteps only. Get and Copy may run concurrently with each other.
package channel
