// Package segment reads and writes segments: immutable, compressed files that a
// flush or a compaction produces. A segment holds the values of whole families
// (a thread and its copies), one opaque directory per family, tombstones and
// properties. Nothing in it points outside, so the index and the manifest can be
// rebuilt from segments.
//
//	header | family 1: blocks…, directory | family 2: … | tombstones | meta | family index | footer
//
// Everything between header and footer is a sequence of frames. A frame carries
// an XXH64 seeded with the file's salt and the frame's offset over everything
// that follows the checksum, padding included: a frame copied to another place or
// file does not validate there. The byte tables are in docs/format/segment.md.
//
// # Writing
//
// A [Builder] writes one file front to back and is used by one goroutine. It
// syncs as it goes (BuilderOptions.SyncEvery) and once more in Finish, so that
// no single sync holds up the commits of the log for long. A crash before Finish
// has returned leaves a file of which any part may be missing; whoever owns the
// directory publishes the file only after Finish, and removes it otherwise. The
// builder neither closes the file nor syncs the directory.
//
// # Reading
//
// A [Reader] is safe for concurrent use and holds no cache. Every byte it hands
// out has been checked: the footer, the family index, the directory, the block,
// and the value against the sum that its referrer keeps. Damage in a block
// costs the values of that block and nothing else; [Salvage] opens a file whose
// footer or family index is damaged.
//
// Damage is a *fault.CorruptionError with file, kind and offset. Bytes that are
// intact but use a format version, frame kind, codec, flag or value encoding
// unknown to this build are a *fault.VersionError and never called damage. An
// error of the device is passed on as it is, wrapped.
package segment
