// Package snapshot has the two files that a store needs before it can read any other: the
// manifest and the image.
//
// The manifest says which files make up a store. It is a log of edits: a complete state,
// followed by changes that are each synced before they are acknowledged. No other file
// has what it says, so its rules are strict. Damage to an acknowledged edit is a
// *fault.CorruptionError, and never an older state. See docs/format/manifest.md.
//
// The image is the index on disk: tables of partitions and families, and the pages of
// their directories. It is written in one go and never changed. All of it can be derived
// from segments and log, and a store that finds its image damaged does that. See
// docs/format/image.md.
//
// Package engine opens the manifest of a store and writes
// its images. Packages engine/export and engine/backup make the manifest of a new store.
// What works on a store, and saver/admin, read both files.
//
// Both formats have the same file header (header.go). The codecs (frame.go,
// state_codec.go, table_codec.go) are functions of bytes and do no I/O, which is in
// manifest.go, load.go, image_writer.go and image.go.
//
// It is for this repository, and makes no promise to others.
package snapshot
