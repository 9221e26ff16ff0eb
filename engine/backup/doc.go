// Package backup copies a store to a directory of its own, and back: while a writer
// is at work, without its lock, and so that a second backup copies only what is new.
//
// A backup directory is no store and cannot be opened as one. It holds the store's
// files under names that say which bytes they are, and one file that lists them with
// their checksums. That file is replaced last, in one step: a crash leaves the backup
// that was there before. docs/format/backup.md has the bytes.
//
// It is for this repository, and makes no promise to others.
package backup
