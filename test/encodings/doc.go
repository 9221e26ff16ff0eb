// Package encodings holds the encodings of a checkpoint together: a field that one of them
// drops fails here. docs/format/README.md lists them.
package encodings
