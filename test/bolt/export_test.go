package bolt

import (
	"context"

	"go.etcd.io/bbolt"
)

// Unsynced makes s write without syncs, for tests that do not pull the plug.
func Unsynced(s *Saver) *Saver {
	s.db.NoSync = true
	return s
}

// Fill makes the commits fail that need more room.
func (s *Saver) Fill() { s.db.MaxSize = 1 }

// Values counts the stored values of a namespace.
func (s *Saver) Values(thread, ns string) (count int, err error) {
	err = s.view(context.Background(), func(tx *bbolt.Tx) error {
		if n := spaceOf(tx, thread, ns); n != nil {
			count = n.values.Stats().KeyN
		}
		return nil
	})
	return count, err
}

// Keys counts all that is stored of threads and of deletions.
func (s *Saver) Keys() (threads, deleted int, err error) {
	err = s.view(context.Background(), func(tx *bbolt.Tx) error {
		threads, deleted = tx.Bucket(threadsName).Stats().KeyN, tx.Bucket(deletedName).Stats().KeyN
		return nil
	})
	return threads, deleted, err
}

// Hold calls fn while s is writing.
func (s *Saver) Hold(fn func() error) error {
	return s.update(context.Background(), func(*bbolt.Tx) error { return fn() })
}
