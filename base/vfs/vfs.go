// Package vfs is stele's only way to the disk. All other packages use files through the
// small interfaces here, so that the same code runs on the operating system ([OS]), in
// memory ([Mem]), and on file systems that crash, fill up, fail and rot on purpose
// (crashfs, faultfs, rot).
//
// It is for this repository, and makes no promise to others.
package vfs

import (
	"errors"
	"fmt"
	"io"
)

// ErrLockHeld is returned by FS.Lock when another holder has the lock.
var ErrLockHeld = errors.New("lock is held")

// ErrLockHeldHere is the ErrLockHeld of a lock that this process holds.
var ErrLockHeldHere = fmt.Errorf("%w by this process", ErrLockHeld)

// ErrInUse is returned by FS.Remove and FS.Rename for a file that is open, where the
// system does not allow that (Windows, Mem with WindowsRules). Nothing was changed. Once
// the last handle is closed it works.
var ErrInUse = errors.New("file is open")

// FS is a file system. Paths use the separator of the operating system and are passed
// on as they are.
//
// Only regular files can be opened. On the operating system anything else (a symbolic
// link, FIFO, device, socket or directory) is refused with a *fault.NotRegularError
// before a byte is read or written. So no link is followed, and no FIFO blocks. The
// directories of a path may be links.
//
// Errors match fs.ErrNotExist, fs.ErrExist and fs.ErrClosed where these apply,
// syscall.ENOSPC (for a spent quota too) and syscall.EIO where the device says so, and
// fault.ErrTooManyFiles and fs.ErrPermission where the system refuses to open a file; see Refused.
// All methods may be called concurrently.
type FS interface {
	// Create makes a new file for reading and writing. It fails with fs.ErrExist if the
	// name is taken. The name is durable only after SyncDir.
	Create(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing. On the operating
	// system a file with a second link is refused (*fault.NotRegularError), because
	// writing to it would change a file of another name.
	OpenReadWrite(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// Rename replaces newname by oldname atomically, within one directory
	// (syscall.EXDEV otherwise). Durable after SyncDir.
	Rename(oldname, newname string) error
	// Remove deletes a file; a directory is refused. Durable after SyncDir.
	// With Windows rules a file that is open cannot be removed or renamed
	// (ErrInUse); elsewhere its handles go on working.
	Remove(name string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// MkdirAll creates a directory and its parents.
	MkdirAll(dir string) error
	// SyncDir makes creations, renames and removals in dir durable. A no-op
	// where the system has no such thing (Windows).
	SyncDir(dir string) error
	// Lock takes an exclusive lock on a file, which it makes if there is none, and
	// writes text into it for people to read. It does not wait: if another process, or
	// another handle of this process, holds the lock, it fails with ErrLockHeld. The
	// lock ends with the process or when it is closed; the file stays.
	//
	// Nothing is written before the lock is taken, nor if the file has anything in it
	// but a text that begins with the same word. Lock refuses the files that
	// OpenReadWrite refuses.
	Lock(name, text string) (Lock, error)
	// FreeSpace is how many bytes an ordinary user can still write to the device of
	// dir, or math.MaxInt64 if the system does not say.
	FreeSpace(dir string) (int64, error)
}

// Lock is a lock file that is held.
type Lock interface {
	// Attached returns nil while the name leads to the lock file, as File.Attached does. It
	// may be called concurrently.
	Attached() error
	// Close releases the lock. A second Close returns fs.ErrClosed.
	Close() error
}

// Sizer is a file system that knows how large its devices are. It is optional.
type Sizer interface {
	// TotalSpace is how many bytes of the device of dir an ordinary user could fill:
	// what is used, and FreeSpace.
	TotalSpace(dir string) (int64, error)
}

// WriteBacker is a File that can write to the device without making anything durable. It
// is optional: Linux has it.
type WriteBacker interface {
	// WriteBack writes those of n bytes from off on to the device that are only in
	// memory, and waits until the device has them. That makes nothing durable: the
	// device may have them in its cache, and the file system's metadata may not say
	// where they are, so Sync or SyncData must follow. But it leaves that sync less to
	// do, and so keeps the syncs of other files from waiting for this one in the
	// journal. After an error the file is as after a failed Sync; a later sync may
	// not report the error again.
	WriteBack(off, n int64) error
}

// DataSeeker is a File that knows its holes. It is optional; see NextData.
type DataSeeker interface {
	// NextData is the offset of the first byte, at off or behind, that may not be zero,
	// or the size of the file if there is none. off is below the size.
	NextData(off int64) (int64, error)
}

// NextData returns the offset of the first byte of f, at off or behind, that may not be
// zero, or size, the size of the file, if there is none. What lies before it is a hole:
// zeros that take no space on the device. A file that is no DataSeeker has no holes.
func NextData(f File, off, size int64) (int64, error) {
	s, ok := f.(DataSeeker)
	if !ok || off >= size {
		return min(off, size), nil
	}
	at, err := s.NextData(off)
	if err != nil {
		return off, err
	}
	return max(off, min(at, size)), nil
}

// File is an open file. Reads and writes are given their offset; there is no cursor.
// ReadAt may be called concurrently with everything. Of the methods that write, only one
// may be called at a time.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Sync makes data and all metadata durable (fsync; F_FULLFSYNC on darwin).
	Sync() error
	// SyncData makes data, and the metadata needed to read it back, durable
	// (fdatasync where there is one, else Sync).
	SyncData() error
	// Truncate sets the size. Growing fills with zeros.
	Truncate(size int64) error
	// Size is the current size in bytes.
	Size() (int64, error)
	// Attached returns the size of the file while the name that it was opened by still
	// leads to it, in the directory it was opened in, wherever that is now. Otherwise the
	// error matches ErrDetached. A Dir that the file was opened through must still be
	// open. The size is what the directory says: where a file system may be late with
	// that, Size is right.
	Attached() (size int64, err error)
	// Close closes the file. Data that was not synced stays with the kernel.
	Close() error
}
