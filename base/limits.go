package base

// Hard limits. They are checked before a byte is written and again when bytes
// are read, so that damaged lengths cannot ask for unbounded memory.
const (
	// MaxValue is the largest single value of a caller: 64 MiB.
	MaxValue = 64 << 20
	// MaxStored is the largest value as it is stored, with what a layer above puts
	// around the caller's: its kind, or the names of a checkpoint around metadata.
	MaxStored = MaxValue + 1<<20
	// MaxCall is the most all values of one call may have together: 256 MiB.
	MaxCall = 256 << 20
	// MaxRecord is the largest record: the values of a call, and 64 MiB for their
	// names, versions and kinds.
	MaxRecord = MaxCall + 64<<20
	// MaxKey is the longest partition or item key: 8 KiB.
	MaxKey = 8 << 10
	// MaxSlots is the largest number of slots of one item: 65,535.
	MaxSlots = 1<<16 - 1
)
