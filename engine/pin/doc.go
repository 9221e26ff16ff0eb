// Package pin holds the files of a store open as they are at one moment, for tools that look
// at a store beside its writer: checks, backups, listings of a log. A pin takes no lock and
// writes nothing.
//
// It is for this repository, and makes no promise to others.
package pin
