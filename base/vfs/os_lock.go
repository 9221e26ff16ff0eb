package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
)

// locks are the locks that this process holds. The kernel's lock alone is not enough:
// where flock is emulated by record locks (NFS), a process gets a second lock on the same
// file, and loses the first by closing any other descriptor of it.
var locks struct {
	sync.Mutex
	held []*osLock
}

// osLock is a lock that is held. Its file stays open meanwhile.
type osLock struct {
	f *os.File
	osEntry
}

// Lock takes the lock; see FS.Lock. It succeeds even if the text cannot be written,
// because the disk is full.
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
	// Before the file is opened, because closing it again would drop an emulated lock.
	if id, _, err := d.identityAt(base); err == nil && heldLocked(id) {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLockHeldHere}
	}
	f, id, err := d.openAt(name, base, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		f, id, err = d.openAt(name, base, os.O_RDWR|os.O_CREATE|os.O_EXCL)
		if errors.Is(err, fs.ErrExist) { // another process was quicker
			f, id, err = d.openAt(name, base, os.O_RDWR)
		}
	}
	if err != nil {
		return nil, err
	}
	l := &osLock{f: f, osEntry: osEntry{dir: d, base: base, id: id}}
	err = lockFileOS(f)
	if err == nil {
		// If the file was replaced while it was opened, the lock is on the wrong one.
		err = l.Attached()
	}
	if err == nil {
		err = mayGive(f)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, &fs.PathError{Op: "lock", Path: name, Err: err}
	}
	d.like.of(f)
	l.say(text)
	locks.held = append(locks.held, l)
	return l, nil
}

// mostSaid is more than the length of any text in a lock file.
const mostSaid = 512

// say replaces the text of the lock file, if the file is empty or has a text with the same
// first word. Anybody who may make files in the directory can put a link to somebody
// else's file in the place of LOCK just when it is opened. Such a file must not lose its
// content.
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

// Attached implements Lock.
func (l *osLock) Attached() error {
	_, err := l.look()
	return err
}

func heldLocked(id identity) bool {
	for _, l := range locks.held {
		if l.id.same(id) {
			return true
		}
	}
	return false
}

// Close releases the lock. Closing the descriptor would do, but for a process that is
// being started: until it executes its program, it has a copy. A second Close returns
// fs.ErrClosed.
func (l *osLock) Close() error {
	locks.Lock()
	defer locks.Unlock()
	for i, h := range locks.held {
		if h == l {
			locks.held = append(locks.held[:i], locks.held[i+1:]...)
			break
		}
	}
	l.release()
	unlockFileOS(l.f)
	return l.f.Close()
}
