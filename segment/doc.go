// Package segment reads and writes segments, the immutable compressed files that flushes
// and compactions make. A segment holds the values of whole families (a partition and
// its copies), one opaque directory per family, tombstones and properties. Nothing in it
// refers to another file, so index and manifest can be rebuilt from segments.
//
//	header | family 1: blocks…, directory | family 2: … | tombstones | meta | family index | footer
//
// Packages engine and engine/export write segments; engine,
// engine/check, engine/backup and saver/admin read them.
//
// Between header and footer a segment is a sequence of frames. Each frame begins with a
// checksum (XXH64) of all that follows in it, padding included, whose seed is made of the
// file's salt and the frame's offset. So a frame that was copied to another place or file
// is not valid there. The byte layout is in docs/format/segment.md.
//
// # Writing
//
// A [Builder] writes one file from front to back, for one goroutine. It syncs as it goes
// (BuilderOptions.SyncEvery) and again in Finish, so that no single sync delays the
// commits of the log for long. After a crash before the end of Finish any part of the
// file may be missing. So its owner publishes a file only after Finish, and else removes
// it. The builder neither closes the file nor syncs the directory.
//
// # Reading
//
// A [Reader] may be used concurrently and has no cache. It checks every byte that it
// returns: footer, family index, directory and block by their checksums, and each value
// by the sum that is kept with the reference to it. Damage in a block affects the values
// of that block alone. [Salvage] opens a file whose footer or family index is damaged.
//
// Damage is a *fault.CorruptionError with file, kind and offset. Bytes that are intact
// but use a format version, frame kind, codec, flag or value encoding that this build
// does not know are a *fault.VersionError. Errors of the device are returned as they are,
// wrapped.
//
// It is for this repository, and makes no promise to others.
package segment
