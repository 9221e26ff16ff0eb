package prometheus_test

import (
	"testing"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/saver/disk"
)

// Only a store whose log is kept in a bucket has the metrics of that.
func TestReplicaMetrics(t *testing.T) {
	d := open(t, disk.Options{})
	const lag = "stele_replica_lag_records"
	if v, ok := scrape(t, registry(t, d))[lag]; ok {
		t.Errorf("a store without a replica has %s %v", lag, v)
	}
	h := metrics.Health{Replica: &metrics.Replica{Mode: "sync", Epoch: 7, Lag: metrics.Lag{Records: 3, Age: 2 * time.Second}, Trouble: "away",
		Follower: &metrics.Follower{LSN: 9, Behind: 4 * time.Second, Beat: 5 * time.Second, Away: 6 * time.Second}}}
	got := scrape(t, registry(t, judged{d, h}))
	for name, want := range map[string]float64{
		lag: 3, "stele_replica_lag_age_seconds": 2, "stele_replica_epoch": 7, "stele_replica_seeded": 0, "stele_replica_trouble": 1,
		"stele_follower_lsn": 9, "stele_follower_behind_seconds": 4, "stele_follower_beat_age_seconds": 5, "stele_follower_away_seconds": 6,
		`stele_replica_mode{mode="sync"}`: 1, `stele_replica_mode{mode="async"}`: 0, `stele_replica_mode{mode="bounded"}`: 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
}
