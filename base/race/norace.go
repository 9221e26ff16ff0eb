//go:build !race

// Package race tells tests whether the race detector watches them. It makes them ten
// times slower, and what it finds does not depend on how many bits are flipped or how
// many crash states are drawn: under it a test shows it every kind, and few of each.
//
// It is for this repository, and makes no promise to others.
package race

// Enabled says whether the program is built with the race detector.
const Enabled = false
