package runs_test

import (
	"errors"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// TestNotFound: one error matches whatever does not exist, and each package's own says what it is.
func TestNotFound(t *testing.T) {
	all := []error{saver.ErrNotFound, store.ErrNotFound, runs.ErrNotFound}
	for i, err := range all {
		if !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("%v", err)
		}
		if errors.Is(err, all[(i+1)%len(all)]) {
			t.Errorf("%v matches %v", err, all[(i+1)%len(all)])
		}
	}
}
