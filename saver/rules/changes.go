package rules

import (
	"fmt"

	"github.com/stele-go/stele/saver"
)

// MemoryChange is a Change for savers in memory. They apply it with the checkpoint, under
// their lock.
type MemoryChange struct {
	Apply func() // it cannot fail and must not call the saver
}

// StoreChange implements Change.
func (MemoryChange) StoreChange() {}

// MemoryChanges returns changes as MemoryChanges, or an InvalidError if one is of another
// type.
func MemoryChanges(changes []saver.Change) ([]MemoryChange, error) {
	var out []MemoryChange
	for i, c := range changes {
		m, ok := c.(MemoryChange)
		if !ok {
			return nil, saver.Invalidf(fmt.Sprintf("changes[%d]", i), "is no change in memory; prepare it with a store in memory")
		}
		out = append(out, m)
	}
	return out, nil
}
