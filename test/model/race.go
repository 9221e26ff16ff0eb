//go:build race

package model

// The race detector makes programs ten times slower.
const defaultChecks = 40
