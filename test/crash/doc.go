// Package crash holds the tests that break the whole store: power failures after
// every operation, failing operations, rotten bytes, killed and concurrent
// processes. What must hold then are the promises of docs/durability.md; what is
// compared is the disk saver with the memory saver.
package crash
