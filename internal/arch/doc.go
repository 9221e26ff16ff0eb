// Package arch holds the repository to its own rules: which package may import
// which, which modules of others may be used, how long files and functions may
// be, and that every exported name is documented. It contains tests only.
package arch
