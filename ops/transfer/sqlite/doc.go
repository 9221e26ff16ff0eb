// Package sqlite reads the files of LangGraph's SQLite savers, in Python and in JavaScript, as
// a transfer.Source. It needs no cgo.
//
//	src, err := sqlite.Open(ctx, "checkpoints.sqlite")
//	report, err := transfer.Copy(ctx, src, dst, transfer.Options{})
//
// # What is read
//
// The tables checkpoints and writes of langgraph-checkpoint-sqlite up to 3.1, and of
// @langchain/langgraph-checkpoint-sqlite. Older files, in which writes have no column
// task_path, or checkpoints are JSON and their type is NULL, are read as well.
//
// A row of checkpoints holds the whole checkpoint, values included, as one msgpack or JSON
// object. It is taken apart without decoding the values: each has the bytes that it has in
// the object, as LangGraph's savers that store values one by one would have stored it. A nil
// becomes the kind "null", and bytes the kind "bytes".
//
// The packets that a checkpoint of format 3 or older lists as pending_sends are derived from
// the writes of its parent, as savers do. If the parent has no such writes, they become the
// value of the channel of packets, as when LangGraph loads such a checkpoint.
//
// LangGraph for JavaScript shows channels that were never written, with the value that they
// begin with. Such a channel has no version. Savers that store values by their versions have
// no place for it, LangGraph's neither, and a graph makes the value again. So it is left out
// if it is empty: null, [], {} or "".
//
// The snapshot of a delta channel stays the value of the channel in the next checkpoints, as
// long as its version does. LangGraph's SQLite saver shows it in the first of them alone; its
// other savers, and stele's, show it in all.
//
// A write on a special channel has the index of that channel, whatever the row says.
//
// Items of LangGraph's long-term store, which may be in the same file or in one of their own, are
// read by Source.Items: the rows of table store, without the vectors beside them.
//
// # What cannot be read
//
// A row that does not decode is a transfer.Rejected with its bytes: damaged msgpack or JSON, a
// checkpoint that is encrypted ("msgpack+aes") or pickled, writes on a checkpoint that is not
// there, fields of a checkpoint that the contract does not know, and values of channels without a
// version that are not empty.
package sqlite
