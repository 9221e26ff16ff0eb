//go:build !race

package pregel_test

const defaultBoundaries = 6
