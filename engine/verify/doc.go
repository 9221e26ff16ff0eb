// Package verify checks a store: every byte of its files, that they agree with one another,
// and that the saved index is the one that segments and log make.
//
// It is for this repository, and makes no promise to others.
package verify
