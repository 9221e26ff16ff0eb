package pregel

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/saver"
)

// uncomparable is a saver that cannot be a key of a map.
type uncomparable struct {
	saver.Saver
	_ []int
}

// A table of owners is there while somebody uses it, also of a saver that cannot be
// compared, which is known by the graph.
func TestOwnerTablesKeepNothing(t *testing.T) {
	ctx := context.Background()
	var ts ownerTables
	ts.by = map[any]*ownerTable{}
	g := &Graph{}
	for _, s := range []saver.Saver{&uncomparable{}, uncomparable{}} {
		lease, err := ts.own(ctx, g, s, "t", false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ts.own(ctx, g, s, "t", false); !errors.Is(err, ErrConflict) {
			t.Errorf("%T: a second owner: %v", s, err)
		}
		other, err := ts.own(ctx, g, s, "u", false)
		if err != nil {
			t.Fatal(err)
		}
		lease.Release()
		if len(ts.by) != 1 {
			t.Errorf("%T: %d tables while a thread is owned", s, len(ts.by))
		}
		other.Release()
		if len(ts.by) != 0 {
			t.Errorf("%T: %d tables are kept", s, len(ts.by))
		}
	}
}
