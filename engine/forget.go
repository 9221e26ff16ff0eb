package engine

import (
	"strings"
)

// ForgetTombstone makes this commit forget the data remembered of a deleted partition. The record does
// so by a copy of the partition from, which must exist, under id, which must not, and a drop of the
// copy.
func (tx *Tx) ForgetTombstone(from, id string) error {
	if m, ok := tx.anyTombstone(id); !ok || len(m.Data) == 0 {
		return nil
	}
	// A copy forgets, and a drop without data remembers nothing; older versions
	// replay both.
	if err := tx.Copy(from, id); err != nil {
		return err
	}
	return tx.Drop(id, nil)
}

// Remembers reports whether data is remembered of a deleted partition whose id begins with prefix.
func (e *Engine) Remembers(prefix string) bool {
	if e.Enter() != nil {
		return false
	}
	defer e.Leave()
	v := e.ViewTombstones()
	defer v.Release()
	for _, m := range v.Index.Tombstones() {
		if strings.HasPrefix(m.ID, prefix) && len(m.Data) > 0 {
			return true
		}
	}
	return false
}
