package saver

// statusBits is the part of a thread's flags that is its status. The lowest bit alone
// is what stores had before there were statuses: the root head waits.
const statusBits uint8 = 7

// statusFlags are the thread flags of each status.
var statusFlags = map[Status]uint8{StatusUnknown: 0, StatusWaiting: 1, StatusDone: 2, StatusUnfinished: 4, StatusFailed: 6}

// StatusOfFlags is the status that the flags of a thread of the engine stand for, for
// tools. Flags of no status, which only a newer build can have written, are unknown.
func StatusOfFlags(flags uint8) Status {
	switch flags & statusBits {
	case statusFlags[StatusWaiting]:
		return StatusWaiting
	case statusFlags[StatusDone]:
		return StatusDone
	case statusFlags[StatusUnfinished]:
		return StatusUnfinished
	case statusFlags[StatusFailed]:
		return StatusFailed
	}
	return StatusUnknown
}
