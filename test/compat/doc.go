// Package compat keeps a small store of every format version there ever was. This
// build must read each, and go on writing it.
package compat
