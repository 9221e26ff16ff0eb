// Package cache keeps what is expensive to compute, such as what a node of a
// graph made of an input, under a key in a group. A cache may forget anything at
// any time: what it answers is right or nothing at all, and damage is a miss.
//
// NewMemory keeps a bounded number of bytes in memory, On in the directory and
// log of a durable saver, where they survive the process.
package cache
