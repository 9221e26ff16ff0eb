package disk

import "github.com/stele-go/stele/monitor"

// EraseRequest is an Erase with everything a Disk can do in one rewrite of its files.
type EraseRequest struct {
	// Threads are the ids of threads to erase.
	Threads []string
	// Items are namespace prefixes of the long-term store (package store): the items of
	// each namespace, and of all below it, are erased. A prefix has at least one label.
	// An item that is put while the call runs may stay.
	Items [][]string
	// Progress, unless it is nil, is told how far the work is: before each part of the
	// store is rewritten, and when old files are gone. It runs on the goroutine of the
	// call and must not block.
	Progress func(monitor.EraseProgress)
}
