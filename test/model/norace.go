//go:build !race

package model

// defaultChecks is the number of programs for one saver.
const defaultChecks = 250
