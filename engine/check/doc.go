// Package check looks at a store beside its writer, or after damage. [Capture] holds its files open
// as they are at one moment, without a lock and without writing. [Run] checks them: every byte,
// that the files agree with one another, and that the saved index is the one that segments and
// log make. [Finder] names the values that damage has cost, by the entries that refer to them.
//
// It is for this repository, and makes no promise to others.
package check
