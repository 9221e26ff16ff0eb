// Package cache keeps what is expensive to compute, such as the result of a node for an
// input, under a key in a group. A cache may forget anything at any time. What it returns
// is right; damage is a miss.
//
// NewMemory keeps a bounded number of bytes in memory. On keeps them in the directory and
// log of a durable saver, where they survive the process.
package cache
