// Package store is the long-term memory of agents: items, which are maps of
// plain data, under a key in a namespace, shared by all threads. It is
// LangGraph's BaseStore in Go, with the reference's rules unless the text says
// otherwise.
//
//	disk, err := disk.Open(dir, disk.Options{})
//	mem, err := store.On(disk, store.Options{})
//	err = mem.Put(ctx, store.Namespace{"users", "ann"}, "food", map[string]any{"likes": "soup"})
//	found, err := mem.Search(ctx, store.Query{Prefix: store.Namespace{"users", "ann"}})
//
// On puts items into the directory and the log of a durable saver: one store to
// open, sync, back up. What the saver promises of checkpoints holds for items,
// and one commit can hold both; see Local.Prepare, and Options.AtomicStore of package
// pregel, which does it for the nodes of a graph. NewMemory keeps them in memory.
//
// The bytes of deleted items stay in files until compaction removes them. To remove all
// bytes of a user, give a namespace prefix to disk.Saver.EraseRequest.
//
// # Differences from the reference
//
//   - Operators compare values of the same kind: numbers by value, whatever their
//     type, strings by bytes, false before true, times by instant. Values of
//     different kinds are not equal and have no order. LangGraph's Postgres store
//     compares numbers as text, and its memory store fails.
//   - An item that is put again keeps its time of creation.
//   - A namespace is listed while it has a live item, not because it was read.
//   - Reads do not see an expired item. With Options.ShowExpired they see it until
//     it is swept, as in the reference.
//   - Search without a query gives the newest items first, with equal times by
//     namespace and key.
//   - A query for a store without an index is ErrNoIndex.
package store
