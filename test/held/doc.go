// Package held shows that a store stays with its directory, whatever its path leads to.
//
// While a writer goes on, the process changes its working directory, the directory is
// renamed and another store made in its place, or it is removed. Then: nothing that was
// acknowledged is missing, no byte of the other store has changed, and both open whole;
// and of a directory that is gone nothing more is acknowledged. All of it runs on a real
// file system, where the other store is made by another process, and in memory.
//
// The rest is what lies in a directory that should not: links, FIFOs and directories in
// the place of files, and a log that was made very long.
package held
