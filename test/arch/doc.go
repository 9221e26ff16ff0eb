// Package arch holds the repository to its own rules: which package may import which,
// which modules of others may be used, how much packages show, that every exported name is
// documented, and that pages are true: their snippets compile, and what they name is there.
// It contains tests only.
package arch
