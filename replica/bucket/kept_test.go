package bucket_test

import (
	"testing"
	"time"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// TestKeptWords: what an erasure says of a bucket.
func TestKeptWords(t *testing.T) {
	const day = 24 * time.Hour
	for want, k := range map[string]bucket.Kept{
		"": {},
		"the bucket may keep versions of what was deleted there: it does not say whether it does":                  {Unknown: "whether it does"},
		"the bucket keeps versions of what was deleted there, until somebody removes them":                         {Versions: true},
		"the bucket keeps versions of what was deleted there, which a rule of it removes from about 2026-03-31 on": {Versions: true, Expires: 30 * day},
		"the bucket keeps versions of what was deleted there, until somebody removes them; they may be locked, each in its own way, which was not asked": {
			Versions: true, Locks: true},
		"the bucket keeps versions of what was deleted there, which a rule of it removes from about 2026-03-08 on; they may be locked, each in its own way, which was not asked (new ones get GOVERNANCE, 30 days)": {
			Versions: true, Expires: 7 * day, Locks: true, Default: "GOVERNANCE, 30 days"},
		"the bucket keeps versions of what was deleted there, until somebody removes them; it does not say whether they expire": {Versions: true, Unknown: "whether they expire"},
	} {
		if got := k.Words(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)); got != want {
			t.Errorf("%+v: %q, want %q", k, got, want)
		}
	}
	if k := bucket.KeptBy(t.Context(), openDir(t, t.TempDir())); k != (bucket.Kept{}) {
		t.Errorf("a directory keeps %+v", k)
	}
	if k := bucket.KeptBy(t.Context(), buckettest.NewSim(nil)); k.Unknown == "" {
		t.Errorf("a bucket that says nothing keeps %+v", k)
	}
}
