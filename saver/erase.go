package saver

import "errors"

// ErrEraseUnfinished: what was to be erased, or a part of it, is deleted for good, but files
// may still hold bytes of it. The store remembers this. Call Erase again, or
// disk.Saver.FinishErasures, to continue.
var ErrEraseUnfinished = errors.New("deleted, but not yet erased from all files")
