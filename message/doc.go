// Package message has the messages of chats as LangChain stores them, so that an agent in Go can
// go on with a thread of an agent in Python, and back.
//
// A [Message] is what a person, a model or a tool says. A [Chunk] is a part of one that a model
// streams. [State] is a graph's state that is a conversation, and [Channel] the channel that
// keeps it:
//
//	type State struct {
//		message.State
//		Topic string `json:"topic"`
//	}
//
//	b := graph.For[State]()
//	b.Node("model", func(ctx context.Context, s *State) (graph.Update, error) {
//		return graph.Write(&s.Messages, message.List{message.AI("hello")}), nil
//	})
//
// [DeltaChannel] keeps it as the messages that were written. [Trim], [Filter] and [MergeRuns] choose
// what of a conversation a model sees. [Validate] says whether providers take it, by [Rules], and
// [Repair] makes it such that they do.
//
// # What is stored
//
// A message is stored as LangGraph's Python stores LangChain's message of the same type, with
// the same bytes. So is a message that was read and not changed, whatever is in it: fields that
// this package does not know, values of types that it does not expect, and the order of keys
// are kept. What a program changes is written anew, and the rest as it was. A message that a
// program makes has its fields in LangChain's order, and its maps sorted by key, because a map in
// Go has no order; Python has the order in which the program gave them.
//
// Messages decode by themselves wherever a Go value asks for one: in a [Channel], in a field of
// type Message or List, in serde.Codec.DecodeInto and serde.Assign. Where nothing says what type
// is meant, in a map[string]any or a field of type any, a stored message stays an *serde.Ext, or
// a map, as it is without this package; [From] makes a message of it.
//
// # Python and JavaScript
//
// A thread of Python is read and written by the same rules that Python has. JavaScript stores
// messages as JSON; a thread of it is read in the same way, but what a graph then writes is in
// Python's form, which JavaScript cannot read. [DecodeJS] and [EncodeJS] translate lists of
// messages for programs that write for JavaScript.
//
// # What differs from LangChain
//
//   - A text that is None and one that is empty are the same: a name, an id, the parts of a tool
//     call. A stored message keeps which of them it had.
//   - Integers have 64 bits. The arguments of a tool call with a larger one are an invalid tool
//     call, and keep their text; usage and metadata that add up to one are ErrMerge.
//   - A tool call with NaN or an infinite number, which is no JSON, becomes an invalid one before a model is asked.
//     LangChain sends it.
//   - The arguments of a tool call that are cut off are repaired with bounded effort. If a text is
//     built so that LangChain would take the square of its length, the call is invalid.
//   - What follows a removal of all is merged by id like any other update. LangGraph takes it as it
//     is, with two messages of one id, or with a removal among the messages.
//   - JSON and content may nest 512 levels deep.
//   - Fields that are not known are kept when a chunk becomes a message.
package message
