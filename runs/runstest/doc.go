// Package runstest has the tests of package runs for implementers: the contract of
// runs.Queue, and a program that is killed at random.
package runstest
