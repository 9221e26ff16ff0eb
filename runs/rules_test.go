package runs

import (
	"errors"
	"testing"
	"time"
)

// A cron expression names a time to come, or is refused.
func FuzzCron(f *testing.F) {
	for _, cron := range []string{"* * * * *", "@every 1h", "CRON_TZ=UTC 0 0 29 2 *", "TZ=", "CRON_TZ=", "@", "*/0 * * * *", "0 0 31 2 *"} {
		f.Add(cron)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	f.Fuzz(func(t *testing.T, cron string) {
		next, err := NextTime(cron, now)
		if err == nil && !next.After(now) || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, %v", cron, next, err)
		}
	})
}
