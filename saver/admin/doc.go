// Package admin looks after stores: what is in them, whether they are sound, copies
// of them, and what can be saved of one that is damaged. The command cmd/stele is a
// thin face on it, so that a program that embeds a store has the same.
//
// Nothing here but [Compact] and [Erase] writes to a store, and nothing else takes its
// lock: the others read the store at one moment, beside a writer in this process or
// another. Reports are plain data with JSON names; damage found is in the report, and
// an error means that the work could not be done.
package admin
