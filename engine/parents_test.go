package engine

import (
	"testing"

	"github.com/stele-go/stele/base/vfs/crashfs"
)

// TestNewStoreOutlivesPower: what a new store acknowledged is there after a loss of
// power, however many directories were made for it.
func TestNewStoreOutlivesPower(t *testing.T) {
	for _, dir := range []string{"store", "above/store", "far/above/store"} {
		fs := crashfs.New()
		e, err := Open(dir, quietOptions(fs))
		mustAll(t, err, putOne(e, "a", "k", "value"))
		states := 0
		for s := range fs.States(fs.Len(), crashfs.Options{Seed: 1, Random: 4}) {
			states++
			after, err := Open(dir, quietOptions(s.FS()))
			if err != nil {
				t.Fatalf("%s, state %d: %v", dir, states, err)
			}
			wantValue(t, after, "a", "k", "value")
			mustAll(t, after.Close())
		}
		mustAll(t, e.Close())
		if states == 0 {
			t.Fatal("no crash states")
		}
	}
}
