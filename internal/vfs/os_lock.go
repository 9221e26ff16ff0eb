package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// locks is the register of lock files held by this process. The kernel's lock
// alone is not enough: where flock is emulated by record locks (NFS), a second
// lock by the same process is granted, and closing any other descriptor of the
// file drops the first.
var locks struct {
	sync.Mutex
	held []*osLock
}

// osLock is a held lock. Its file stays open as long as it is held.
type osLock struct {
	f    *os.File
	dir  *osDir
	base string   // the name of the lock file
	id   identity // which file it is
	own  *osDir   // closed with the lock; nil if somebody else holds the directory
}

// Lock takes the lock; see FS.Lock. The text is a courtesy: failing to write it
// (a full disk) does not fail the lock.
func (d *osDir) Lock(name, text string) (Lock, error) {
	l, err := d.lock(name, text)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (d *osDir) lock(name, text string) (*osLock, error) {
	base, err := within(d.path, "lock", name)
	if err != nil {
		return nil, err
	}
	locks.Lock()
	defer locks.Unlock()
	// Looked up before opening: opening and closing the file is what would
	// drop an emulated lock.
	if id, err := d.identityAt(base); err == nil && heldLocked(id) {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLockHeld}
	}
	f, id, err := d.openAt(name, base, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	l := &osLock{f: f, dir: d, base: base, id: id}
	err = lockFileOS(f)
	if err == nil {
		// Whoever took the file away while it was being opened has another lock.
		err = l.Attached()
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	l.say(text)
	locks.held = append(locks.held, l)
	return l, nil
}

// mostSaid is more than the text of any lock file.
const mostSaid = 512

// say replaces the text of the lock file, if that is what the file holds: nothing, or a
// text of the same first word. Whoever may make files in the directory can have a link
// to a file of somebody else in place of LOCK at the moment it is opened. No such file
// loses its content.
func (l *osLock) say(text string) {
	b := make([]byte, mostSaid)
	n, err := l.f.ReadAt(b, 0)
	if n == len(b) || err != nil && !errors.Is(err, io.EOF) {
		return
	}
	was, _, _ := strings.Cut(strings.TrimRight(string(b[:n]), "\x00"), " ")
	if word, _, _ := strings.Cut(text, " "); was != "" && was != word {
		return
	}
	_ = l.f.Truncate(0)
	_, _ = l.f.WriteAt([]byte(text), 0)
}

func heldLocked(id identity) bool {
	for _, l := range locks.held {
		if l.id.same(id) {
			return true
		}
	}
	return false
}

// Attached implements Lock.
func (l *osLock) Attached() error { return l.dir.attached(l.base, l.id) }

// Close releases the lock. It would end with the descriptor, but a process that is
// being started has a copy of that for a moment, until it executes its program. A second
// Close returns fs.ErrClosed.
func (l *osLock) Close() error {
	locks.Lock()
	defer locks.Unlock()
	for i, h := range locks.held {
		if h == l {
			locks.held = append(locks.held[:i], locks.held[i+1:]...)
			break
		}
	}
	if l.own != nil {
		_ = l.own.Close() // only looked through
	}
	unlockFileOS(l.f)
	return l.f.Close()
}
