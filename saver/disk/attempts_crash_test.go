package disk_test

import (
	"testing"

	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// TestAttemptsInCrashStates: an attempt that was counted is counted in every state that
// a power failure leaves after CountAttempt returned, in every mode; and it is never
// counted twice.
func TestAttemptsInCrashStates(t *testing.T) {
	for _, mode := range []disk.SyncMode{disk.SyncAlways, disk.SyncInterval, disk.SyncNever} {
		fs := crashfs.New()
		opts := disk.Options{ManualWork: true, Sync: mode}
		s := openFor(t, "store", opts, disk.Simulation{FS: fs, Rand: func() uint64 { return 7 }, Inline: true})
		cfg, err := s.Put(t.Context(), saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: "c1"}, nil, nil)
		must(t, err, s.Sync(t.Context()))
		states := 0
		for counted := 1; counted <= 3; counted++ {
			from := fs.Len()
			n, err := s.CountAttempt(t.Context(), cfg)
			must(t, err)
			if n != counted {
				t.Fatalf("attempt %d is number %d", counted, n)
			}
			to := fs.Len()
			for cut := from; cut <= to; cut++ {
				for st := range fs.States(cut, crashfs.Options{Seed: uint64(cut), Random: 1, MaxTorn: 1, MaxSingle: 1}) {
					states++
					d, err := disk.Open("store", opts.In(disk.Simulation{FS: st.FS(), Inline: true}))
					if err != nil {
						t.Fatalf("cut %d, %s: %v", cut, st, err)
					}
					next, err := d.CountAttempt(t.Context(), cfg)
					must(t, err, d.Close())
					if next != counted+1 && (next != counted || cut == to) {
						t.Fatalf("mode %v, cut %d of %d, %s: after %d attempts the next is number %d", mode, cut, to, st, counted, next)
					}
				}
			}
		}
		if states < 6 {
			t.Errorf("only %d crash states", states)
		}
	}
}
