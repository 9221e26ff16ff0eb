// Package vfs is stele's only way to disk. The engine sees files through the
// small interface here, so that the same code runs on the operating system, in
// memory, and on file systems that crash, fill up, fail and rot on purpose.
package vfs

import (
	"errors"
	"io"
)

// ErrLockHeld is returned by FS.Lock when another holder has the lock.
var ErrLockHeld = errors.New("lock is held")

// ErrInUse is returned by FS.Remove and FS.Rename where the system does not
// remove or replace a file that is open (Windows, Mem with WindowsRules).
// Nothing was changed; it works once the last handle is closed.
var ErrInUse = errors.New("file is open")

// FS is a flat view of one or more directories. Paths use the separator of the
// operating system and are passed through as given.
//
// Every name is that of a regular file. On the operating system anything else that
// has the name (a symbolic link, FIFO, device, socket or directory) is refused with a
// *fault.NotRegularError before a byte is read or written: a link is never followed,
// a FIFO blocks nobody. Only the directories of a path may be links.
//
// Errors match the io/fs sentinels (fs.ErrNotExist, fs.ErrExist, fs.ErrClosed)
// where these apply, and syscall.ENOSPC (also for a spent quota) / syscall.EIO
// where the device says so.
// All methods may be called concurrently.
type FS interface {
	// Create makes a new file for reading and writing; it fails with
	// fs.ErrExist if the name is taken. The name is durable only after SyncDir.
	Create(name string) (File, error)
	// OpenReadWrite opens an existing file for reading and writing. On the operating
	// system one with a second link is refused (*fault.NotRegularError): what is
	// written to it would change a file under another name.
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
	// Lock takes an exclusive lock on a lock file, creating it if needed, and
	// writes text into it for people to read. It does not wait: ErrLockHeld if
	// another process or another handle of this process holds it. The lock
	// dies with the process. Closing the result releases it; the file stays. Nothing
	// is written before the lock is taken, and nothing is if the file holds anything but
	// a text that begins with the same word. Refused are the files that OpenReadWrite
	// refuses.
	Lock(name, text string) (Lock, error)
	// FreeSpace is the number of bytes an ordinary user can still write to the
	// device of dir, or math.MaxInt64 if the system does not say.
	FreeSpace(dir string) (int64, error)
}

// Lock is a lock file that is held.
type Lock interface {
	// Attached is that of File. It may be called concurrently.
	Attached() error
	// Close releases the lock. A second Close returns fs.ErrClosed.
	Close() error
}

// Sizer is a file system that knows how large its devices are. It is optional.
type Sizer interface {
	// TotalSpace is the size of the device of dir, in bytes, as an ordinary user can
	// fill it: what is used, and FreeSpace.
	TotalSpace(dir string) (int64, error)
}

// WriteBacker is a File that can hand what was written to the device without making it
// durable. It is optional: Linux has it.
type WriteBacker interface {
	// WriteBack writes n bytes from off on to the device, as far as they are only in
	// memory, and waits until the device has them. It promises nothing: neither did the
	// device flush its cache, nor is the file system's record of where they lie safe;
	// Sync or SyncData must follow. What it is for: the sync of another file need not
	// wait for the journal on behalf of this one. After an error the file is as after a
	// failed Sync, and a later sync may not report it again.
	WriteBack(off, n int64) error
}

// DataSeeker is a File that knows its holes. It is optional; see NextData.
type DataSeeker interface {
	// NextData is where, at off or behind, the first byte lies that may not be zero;
	// the size of the file if there is none. off is below the size.
	NextData(off int64) (int64, error)
}

// File is an open file. Reads and writes name their offset; there is no cursor.
// ReadAt may be called concurrently with everything; of the writing methods at
// most one runs at a time.
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
	// Attached returns nil while the name that the file was opened by still leads to
	// it, in the directory it was opened in, wherever that is now. Else the error
	// matches ErrDetached. It needs the Dir that the file was opened through, if there
	// was one, to be still held.
	Attached() error
	// Close releases the file. Unsynced data stays with the kernel.
	Close() error
}
