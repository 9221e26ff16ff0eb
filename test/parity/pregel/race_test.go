//go:build race

package pregel_test

// The race detector makes a boundary ten times slower; a few of each trace show it
// every kind.
const defaultBoundaries = 2
