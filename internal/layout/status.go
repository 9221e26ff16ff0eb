package layout

import "github.com/stele-go/stele/saver"

// statusBits is the part of a thread's flags that is its status. The lowest bit alone
// is what stores had before there were statuses: the root head waits.
const statusBits uint8 = 7

// StatusFlags are the thread flags of each status.
var StatusFlags = map[saver.Status]uint8{saver.StatusUnknown: 0, saver.StatusWaiting: 1, saver.StatusDone: 2, saver.StatusUnfinished: 4, saver.StatusFailed: 6}

// StatusOfFlags is the status that the flags of a thread of the engine stand for, for
// tools. Flags of no status, which only a newer build can have written, are unknown.
func StatusOfFlags(flags uint8) saver.Status {
	switch flags & statusBits {
	case StatusFlags[saver.StatusWaiting]:
		return saver.StatusWaiting
	case StatusFlags[saver.StatusDone]:
		return saver.StatusDone
	case StatusFlags[saver.StatusUnfinished]:
		return saver.StatusUnfinished
	case StatusFlags[saver.StatusFailed]:
		return saver.StatusFailed
	}
	return saver.StatusUnknown
}
