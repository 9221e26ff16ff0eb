// Package pgstore is the long-term store on PostgreSQL, in the tables of LangGraph's store for
// Python (langgraph-checkpoint-postgres 3.2: migrations 0 to 3, and 0 to 2 of its vectors). It
// needs none of the tables of a saver; see Setup.
//
//	store              one row for an item; its namespace is joined with dots
//	store_vectors      vectors of items, with pgvector
//	stele_items        the value and the TTL of an item, where LangGraph's row cannot hold them
//	stele_vectors      vectors of items, without pgvector
//	stele_item_calls   the names of calls that wrote, and of those that were given up
//
// What holds of it:
//
//   - A row of stele's counts only beside the put that made it: it has the same updated_at.
//     So what Python puts replaces what stele put, though Python knows nothing of the row.
//   - The reads of a call see one moment. A filter narrows the rows in SQL, to those that may
//     match, and decides in Go.
//   - The puts of a call are one batch: one round trip, and one transaction. It inserts the
//     name of its call. Who settles a call whose answer was lost inserts the same name, which
//     waits for the transaction, and then stands in its way, or finds that it was committed.
package pgstore
