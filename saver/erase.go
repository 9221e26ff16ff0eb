package saver

import "errors"

// ErrEraseUnfinished: what was to be erased is deleted for good, or part of it, but files
// may still hold bytes of it. The store remembers it. The same Erase again, or
// disk.Saver.FinishErasures, goes on.
var ErrEraseUnfinished = errors.New("deleted, but not yet erased from all files")
