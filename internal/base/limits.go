package base

// Hard limits. They are checked before a byte is written and again when bytes
// are read, so that damaged lengths cannot ask for unbounded memory.
const (
	// MaxValue is the largest single value: 64 MiB.
	MaxValue = 64 << 20
	// MaxRecord is the largest record, all its values included: 256 MiB.
	MaxRecord = 256 << 20
	// MaxKey is the longest partition or item key: 8 KiB.
	MaxKey = 8 << 10
	// MaxSlots is the largest number of slots of one item: 65,535.
	MaxSlots = 1<<16 - 1
)
