package faultfs

import "fmt"

// Op is a kind of operation: one for each method of vfs.FS and vfs.File, and for
// releasing a lock, holding a directory and asking whether it is in place.
type Op uint8

// The kinds. The first three stand for groups of kinds and occur in rules only.
const (
	OpAny      Op = iota // every kind
	OpAnyRead            // every kind that leaves the disk as it is
	OpAnyWrite           // every kind that changes the disk or makes a change durable
	OpCreate
	OpOpenReadWrite
	OpOpen
	OpRename
	OpRemove
	OpList
	OpMkdirAll
	OpSyncDir
	OpLock
	OpUnlock
	OpFreeSpace
	OpHold
	OpInPlace
	OpAttached
	OpReadAt
	OpWriteAt
	OpSync
	OpSyncData
	OpTruncate
	OpSize
	OpClose
	numOps
)

type class uint8

const (
	group class = iota + 1
	read
	write
)

// kinds classifies every kind. Closing counts as a read, because read-only
// handles are closed as well; a rule for OpClose meets both.
var kinds = [numOps]struct {
	name  string
	class class
}{
	OpAny:           {"any operation", group},
	OpAnyRead:       {"any read", group},
	OpAnyWrite:      {"any write", group},
	OpCreate:        {"create", write},
	OpOpenReadWrite: {"open for writing", read},
	OpOpen:          {"open", read},
	OpRename:        {"rename", write},
	OpRemove:        {"remove", write},
	OpList:          {"list", read},
	OpMkdirAll:      {"mkdir", write},
	OpSyncDir:       {"sync directory", write},
	OpLock:          {"lock", write},
	OpUnlock:        {"unlock", read},
	OpFreeSpace:     {"free space", read},
	OpHold:          {"hold directory", read},
	OpInPlace:       {"find directory", read},
	OpAttached:      {"look for", read},
	OpReadAt:        {"read", read},
	OpWriteAt:       {"write", write},
	OpSync:          {"sync", write},
	OpSyncData:      {"sync data", write},
	OpTruncate:      {"truncate", write},
	OpSize:          {"size", read},
	OpClose:         {"close", read},
}

func init() {
	for op, k := range kinds {
		if k.name == "" || k.class == 0 {
			panic(fmt.Sprintf("faultfs: operation kind %d is not classified", op))
		}
	}
}

// Kinds returns every kind that an operation can have, groups left out.
func Kinds() []Op {
	var ops []Op
	for op := range numOps {
		if kinds[op].class != group {
			ops = append(ops, op)
		}
	}
	return ops
}

// String is the kind in words.
func (o Op) String() string {
	if o < numOps {
		return kinds[o].name
	}
	return fmt.Sprintf("operation kind %d", uint8(o))
}

// IsWrite reports whether operations of the kind change the disk or make a
// change durable. A file system that is only looked at sees none of them.
func (o Op) IsWrite() bool { return o == OpAnyWrite || o < numOps && kinds[o].class == write }

// covers reports whether a rule for o speaks of operations of kind k.
func (o Op) covers(k Op) bool {
	switch o {
	case OpAny:
		return true
	case OpAnyRead:
		return !k.IsWrite()
	case OpAnyWrite:
		return k.IsWrite()
	default:
		return o == k
	}
}
