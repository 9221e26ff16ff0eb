//go:build race

package race

// Enabled says whether the program is built with the race detector.
const Enabled = true
