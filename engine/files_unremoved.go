package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/stele-go/stele/base"
)

// unremoved are the files that nothing needs and that could not be removed: a reader has them open on a
// system that forbids removal, or the device failed. Removing them is tried again with every later
// removal, and when the store is closed. The next Open removes those that are left.
type unremoved struct {
	mu    sync.Mutex
	names map[string]bool
}

// put notes a file, and reports whether it was not noted before.
func (u *unremoved) put(name string) (first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.names == nil {
		u.names = map[string]bool{}
	}
	first = !u.names[name]
	u.names[name] = true
	return first
}

func (u *unremoved) drop(name string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.names, name)
}

// list returns the names, in order.
func (u *unremoved) list() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.names))
}

// unremovedNames are the names of files that nothing needs and that could not be removed
// so far, in order.
func (s *fileTable) unremovedNames() []string { return s.stuck.list() }

// unlink removes a file that the manifest has forgotten. A failure is noted, and
// reported the first time.
func (s *fileTable) unlink(name string) error {
	err := s.fs.Remove(filepath.Join(s.dir, name))
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		s.stuck.drop(name)
		return nil
	}
	err = fmt.Errorf("remove %s: %w", name, err)
	if s.stuck.put(name) && s.onErr != nil {
		s.onErr(err)
	}
	return err
}

// remove unlinks files, and tries again those that could not be removed before. A failure is not
// returned: the manifest no longer names the file.
func (s *fileTable) remove(due []dueFile) {
	if len(due) == 0 {
		return
	}
	s.removeAgain()
	for _, d := range due {
		_ = s.unlink(d.kind.Name(d.num))
	}
}

// removeAgain tries once more to remove the files that could not be removed.
func (s *fileTable) removeAgain() {
	for _, name := range s.stuck.list() {
		_ = s.unlink(name)
	}
}

// dueFile is a file that nobody can need any more.
type dueFile struct {
	kind base.FileKind
	num  base.FileNum
}
