// Package admin inspects, verifies, backs up, compacts, erases and salvages stores. The
// command cmd/stele is a thin layer on it, so a program that embeds a store can do the same.
//
// Only [Compact] and [Erase] write to a store and take its lock. All others read a consistent
// state of the store, while a writer in this or another process may be at work. Reports are
// plain data with JSON names. Damage is in the report; an error means that the work could
// not be done.
package admin
