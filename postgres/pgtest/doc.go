// Package pgtest starts PostgreSQL for tests: a cluster of its own in a temporary
// directory, on a unix socket, as a user without privileges. It is for Unix.
//
// It is for this repository, and makes no promise to others.
package pgtest
