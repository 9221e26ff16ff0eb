package wal

import (
	"testing"
	"testing/synctest"
	"time"
)

// Callers are waited for if, by how quickly those before them came, they are back in
// less than half a sync.
func TestPace(t *testing.T) {
	const sync = 10 * time.Millisecond
	for name, tc := range map[string]struct {
		landed, prepared int
		last             time.Duration // when the last of those prepared came
		want             bool
	}{
		"at once":               {32, 32, time.Millisecond, true},
		"twice as many, soon":   {32, 16, 2 * time.Millisecond, true},
		"too late":              {32, 32, 6 * time.Millisecond, false},
		"few, and many to come": {60, 4, time.Millisecond, false},
		"fewer to come":         {4, 60, 4 * time.Millisecond, true},
		"one":                   {1, 32, time.Millisecond, false},
		"nobody came":           {64, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := hooked(t)
				l := w.open(t, func(o *Options) { o.Inline = false })
				synctest.Wait()
				l.c.syncBegan = time.Now()
				l.c.batch.callers = tc.prepared
				time.Sleep(sync)
				l.pace(tc.landed, l.c.syncBegan.Add(tc.last))
				if l.c.gather != tc.want {
					t.Errorf("gather is %v", l.c.gather)
				}
				l.c.batch.callers = 0
				mustClose(t, l)
			})
		})
	}
}
