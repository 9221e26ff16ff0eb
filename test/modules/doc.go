// Package modules tests that the modules of this repository can be used by a
// program outside of it, at the version they will be tagged with.
package modules
