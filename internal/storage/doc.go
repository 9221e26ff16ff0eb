// Package storage is a store as its files have it. It reads: values and their patches,
// partitions and the pages they are loaded from, views that stay as they are while commits go
// on, blocks that are kept in memory. It hands out what whoever works on a store shares: the
// log, the manifest, the index, open files, file numbers, and the count of calls that Close
// waits for.
//
// Commits, flushes, images, compactions and checks stand on it, in packages of their own. A
// method whose name ends in Within is for work that has entered the store already.
package storage
