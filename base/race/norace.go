//go:build !race

// Package race tells tests whether the race detector watches them. It makes them ten
// times slower, and what it finds does not depend on how many bits are flipped or how
// many crash states are drawn: under it a test shows it every kind, and few of each.
//
// It is for this repository, and makes no promise to others.
package race

// Enabled says whether the program is built with the race detector.
const Enabled = false

// Every says that a test tries each of its cases: a loop goes on by it, and a number of runs is divided by it. Under the
// race detector it tries one in five.
const Every = 1
