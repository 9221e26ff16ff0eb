//go:build race

package race

// Enabled says whether the program is built with the race detector.
const Enabled = true

// Every says that a test tries one of five of its cases: a loop goes on by it, and a number of runs is divided by it.
const Every = 5
