// Package scrub replaces every file of a store by one that holds only what is live, so that
// nothing deleted is left in any of them.
package scrub
