// Package export writes what can be read of a store into a new one. With a store that was
// opened past damage this is salvage: what is lost is left out, or replaced, and listed.
//
// It is for this repository, and makes no promise to others.
package export
