//go:build !race

package serde

// raced says that the tests run under the race detector.
const raced = false
