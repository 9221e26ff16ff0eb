// Package channel holds the channels of a graph. A channel has a name, keeps a value between
// supersteps, and combines the writes of a superstep. The channels follow the rules of
// LangGraph's, and are typed:
//
//	channel.LastValue[string]()                 // at most one write per step
//	channel.Reduce(channel.Append[Message])     // every write is folded in
//	channel.Topic[Job](channel.Accumulate)      // a list of what was sent
//
// The engine handles values as any. A write of another type is converted if nothing is lost
// (int64 to int, a decoded map to a struct), and is a TypeError otherwise.
//
// # Changed and available
//
// Update, Consume and Finish report whether the channel changed. A channel that changed gets
// a new version. Available reports whether it has a value. Only an available channel
// triggers nodes. A channel may change and become unavailable.
//
// # Ownership
//
// A channel owns its value until the next Update. A reducer may append to the slice that it
// is given, because copies of a channel never share spare capacity. It must not change
// existing elements or map entries.
//
// Channels are not safe for concurrent use; the engine updates them between
// supersteps only. Get and Copy may run concurrently with each other.
package channel
