// Package index is the in-memory index of a store: which entries each partition has,
// which values each entry refers to, and where the bytes of each value lie. It
// opens no file: what a table has on disk it reads through Disk, which its owner gives it.
//
// # Two levels
//
// A google/btree, ordered by id, leads to one immutable Partition each: of all that were
// loaded, or changed since the last image. Every other partition is a row of the tables, of
// which each image of the chain has one and the newest wins. A table may lie on disk until
// somebody looks into it. A look makes a cold Partition of a row.
//
// A resident partition holds its entries in a tree of its own; a cold partition holds
// none of them, only what was committed since it went cold, and its family says
// where the rest lies on disk. Commits and replay only append.
//
// # Values are named logically
//
// An entry refers to values by Ref, the record and the ordinal that first stored
// them. Where the bytes lie now is a matter of the family, so that flush and
// compaction move bytes without touching an entry, and a copied partition shares
// them.
//
// # One moment
//
// Partitions are immutable and replaced as a whole; a View holds the root of the
// tree of partitions as it was, and with it everything below. Deletions and later
// commits do not reach it.
//
// It is for this repository, and makes no promise to others.
package index
