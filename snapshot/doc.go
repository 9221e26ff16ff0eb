// Package snapshot keeps what a store must know before it can read anything
// else: the manifest and the image.
//
// The manifest says which files make up a store. It is an edit log: a complete
// state followed by edits, each of them synced before it is acknowledged. It is
// the one file whose loss cannot be repaired by reading another file's frames,
// so its rules are strict: damage to an acknowledged edit is a
// *fault.CorruptionError, never an older state. See docs/format/manifest.md.
//
// The image is the index on disk: a table of partitions and families, and the
// pages of their directories. It is written in one go, never changed, and it is
// derived data: a store that finds its image damaged rebuilds it from segments
// and log. See docs/format/image.md.
//
// Both formats share the file header (header.go). Codecs are pure functions
// over bytes (frame.go, state_codec.go, table_codec.go); files that do I/O are
// kept apart from them (manifest.go, load.go, image_writer.go, image.go).
package snapshot
