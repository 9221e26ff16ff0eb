package vfs

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/stele-go/stele/base/fault"
)

// refusals are the errors with which a system refuses to open, make, rename or remove a file before it changes
// anything. What it says of a device that fails (EIO), or of a name (ENOENT, EEXIST), is none of them.
var refusals = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EROFS, fs.ErrPermission,
	fault.ErrDiskFull, fault.ErrTooManyFiles}

// Refused reports whether err, of a call that opens, makes, renames or removes a file, says that the system refused
// the call and changed nothing: for want of room, of file descriptors or of memory, or because this process may
// not do that. The same call may succeed later. Of other calls, such as a sync, such an error says nothing like it.
func Refused(err error) bool {
	for _, r := range refusals {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}
