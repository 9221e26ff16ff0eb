// Package scrub replaces every file of a store by one that holds only what is live, so that
// nothing deleted is left in any of them.
//
// # The promise
//
// When Run returns nil, nothing that was deleted before the call is in any file of the
// directory: not in a block, a page, a record, the name of a partition, or behind the end of
// what is used. Files that a view needs, or a reader in another process where that forbids
// removal, are waited for, until the context ends.
//
// The store must hold something: if it does not, there may be nothing to flush or compact, and
// so no reason for a new image.
//
// # How it is done
//
// Run lists the files that there are, flushes, compacts all segments, and writes a full image.
// Then it waits until the files that were listed, and those that a view still keeps, are
// removed, and makes the removal durable. Commits go on beside it: a log file that is begun
// after the list was made holds later records alone.
//
// After an error, or a crash, the store is whole, and some files may be the old ones still:
// flush, compaction and image each leave it so. To call Run again begins anew.
package scrub
