package prometheus

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stele-go/stele/base/metrics"
)

// desc makes a description. labels are pairs of a name and a fixed value.
func desc(name, help string, labels []string) (*prometheus.Desc, []string) {
	var names, values []string
	for i := 0; i < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	return prometheus.NewDesc(name, help, names, nil), values
}

func counter(name, help string, value func(*sample) float64, labels ...string) number {
	d, values := desc(name, help, labels)
	return number{d, prometheus.CounterValue, values, func(s *sample) (float64, bool) { return value(s), true }}
}

func gauge(name, help string, value func(*sample) float64, labels ...string) number {
	n := counter(name, help, value, labels...)
	n.kind = prometheus.GaugeValue
	return n
}

// maybe is a gauge that is not always known.
func maybe(name, help string, value func(*sample) (float64, bool), labels ...string) number {
	d, values := desc(name, help, labels)
	return number{d, prometheus.GaugeValue, values, value}
}

// ofReplica is a gauge of stores whose log is kept in a bucket.
func ofReplica(name, help string, value func(*metrics.Replica) float64, labels ...string) number {
	return maybe(name, help, func(s *sample) (float64, bool) {
		if s.health.Replica == nil {
			return 0, false
		}
		return value(s.health.Replica), true
	}, labels...)
}

// ofFollower is a gauge of stores that follow a leader.
func ofFollower(name, help string, value func(*metrics.Follower) float64) number {
	return maybe(name, help, func(s *sample) (float64, bool) {
		if s.health.Replica == nil || s.health.Replica.Follower == nil {
			return 0, false
		}
		return value(s.health.Replica.Follower), true
	})
}

func timing(name, help string, value func(*sample) metrics.Histogram, labels ...string) histogram {
	d, values := desc(name, help, labels)
	return histogram{d, values, func(s *sample) (uint64, float64, map[float64]uint64) { return latencies(value(s)) }}
}

const (
	saveErrors = "Saves that returned an error. reason \"failed\": the store could not; " +
		"\"refused\": the caller's arguments, a conflict, a deleted thread, a cancelled context."
	serdeHelp   = "Time the serializer took for one value."
	modeHelp    = "When a commit is acknowledged: 1 for the mode that the store has, 0 for the others."
	serdeErrors = "Values the serializer refused."
	itemsHelp   = "Items of the long-term store asked for by key, by result."
	resultsHelp = "Results of nodes looked up in the node cache, by result."
	cacheHelp   = "Look-ups in the cache of decoded blocks, by result."
)

// numbers are all counters and gauges of a store. docs/metrics.md describes them.
var numbers = []number{
	counter("stele_save_errors_total", saveErrors, func(s *sample) float64 { return float64(s.metrics.SavesFailed) }, "reason", "failed"),
	counter("stele_save_errors_total", saveErrors, func(s *sample) float64 { return float64(s.metrics.SavesRefused) }, "reason", "refused"),
	counter("stele_load_errors_total", "Loads whose answer is not known.", func(s *sample) float64 { return float64(s.metrics.LoadsFailed) }),
	counter("stele_serialization_errors_total", serdeErrors, func(s *sample) float64 { return float64(s.metrics.EncodesFailed) }, "op", "encode"),
	counter("stele_serialization_errors_total", serdeErrors, func(s *sample) float64 { return float64(s.metrics.DecodesFailed) }, "op", "decode"),

	counter("stele_value_bytes_total", "Size of the values committed, whole.", func(s *sample) float64 { return float64(s.metrics.ValueBytes) }),
	counter("stele_log_bytes_total", "Bytes written to the log, frames and padding included.", func(s *sample) float64 { return float64(s.metrics.Log.Bytes) }),
	counter("stele_flush_value_bytes_total", "Size of the values that flushes moved to segments, whole.",
		func(s *sample) float64 { return float64(s.metrics.FlushedValueBytes) }),
	counter("stele_flush_stored_bytes_total", "Size of the segments that flushes wrote for them.",
		func(s *sample) float64 { return float64(s.metrics.FlushedBytes) }),
	counter("stele_patched_values_total", "Values logged as patches against the last one.", func(s *sample) float64 { return float64(s.metrics.Patches) }),

	counter("stele_log_records_total", "Records committed to the log.", func(s *sample) float64 { return float64(s.metrics.Log.Records) }),
	counter("stele_log_rotations_total", "Log files sealed.", func(s *sample) float64 { return float64(s.metrics.Log.Rotations) }),
	gauge("stele_log_queue_records", "Records that wait for the log now.", func(s *sample) float64 { return float64(s.metrics.Log.QueueDepth) }),
	gauge("stele_log_queue_bytes", "Size of the records that wait for the log now; at most 64 MiB.",
		func(s *sample) float64 { return float64(s.metrics.Log.QueueBytes) }),
	gauge("stele_log_unflushed_bytes", "Bytes committed since the last flush.", func(s *sample) float64 { return float64(s.stats.LogBytes) }),
	gauge("stele_log_files", "Log files.", func(s *sample) float64 { return float64(s.stats.LogFiles) }),
	gauge("stele_lag_records", "Records acknowledged and not known to survive power loss.", func(s *sample) float64 { return float64(s.health.Lag.Records) }),
	gauge("stele_lag_bytes", "Size of these records, about.", func(s *sample) float64 { return float64(s.health.Lag.Bytes) }),
	gauge("stele_lag_age_seconds", "Age of the oldest of these records, about.", func(s *sample) float64 { return s.health.Lag.Age.Seconds() }),

	ofReplica("stele_replica_lag_records", "Records that the log has and the bucket has not.", func(r *metrics.Replica) float64 { return float64(r.Lag.Records) }),
	ofReplica("stele_replica_lag_age_seconds", "Age of the oldest of these records, about.", func(r *metrics.Replica) float64 { return r.Lag.Age.Seconds() }),
	ofReplica("stele_replica_epoch", "The number of the leader's reign.", func(r *metrics.Replica) float64 { return float64(r.Epoch) }),
	ofReplica("stele_replica_seeded", "1 if the bucket has a point from which it can be restored.", func(r *metrics.Replica) float64 { return truth(r.Seeded) }),
	ofReplica("stele_replica_trouble", "1 if the last work with the bucket failed.", func(r *metrics.Replica) float64 { return truth(r.Trouble != "") }),
	ofFollower("stele_follower_lsn", "The last record that the follower shows.", func(f *metrics.Follower) float64 { return float64(f.LSN) }),
	ofFollower("stele_follower_behind_seconds", "How much newer the newest record is that the bucket is known to have.",
		func(f *metrics.Follower) float64 { return f.Behind.Seconds() }),
	ofFollower("stele_follower_beat_age_seconds", "How long ago the follower last knew that its leader was well.",
		func(f *metrics.Follower) float64 { return f.Beat.Seconds() }),
	ofFollower("stele_follower_away_seconds", "For how long the bucket has not answered; 0 if it has.",
		func(f *metrics.Follower) float64 { return f.Away.Seconds() }),
	ofReplica("stele_replica_mode", modeHelp, func(r *metrics.Replica) float64 { return truth(r.Mode == "async") }, "mode", "async"),
	ofReplica("stele_replica_mode", modeHelp, func(r *metrics.Replica) float64 { return truth(r.Mode == "bounded") }, "mode", "bounded"),
	ofReplica("stele_replica_mode", modeHelp, func(r *metrics.Replica) float64 { return truth(r.Mode == "sync") }, "mode", "sync"),

	counter("stele_cache_lookups_total", cacheHelp, func(s *sample) float64 { return float64(s.metrics.CacheHits) }, "result", "hit"),
	counter("stele_cache_lookups_total", cacheHelp, func(s *sample) float64 { return float64(s.metrics.CacheMisses) }, "result", "miss"),
	counter("stele_item_lookups_total", itemsHelp, func(s *sample) float64 { return float64(s.metrics.ItemHits) }, "result", "hit"),
	counter("stele_item_lookups_total", itemsHelp, func(s *sample) float64 { return float64(s.metrics.ItemMisses) }, "result", "miss"),
	counter("stele_node_cache_lookups_total", resultsHelp, func(s *sample) float64 { return float64(s.metrics.ResultHits) }, "result", "hit"),
	counter("stele_node_cache_lookups_total", resultsHelp, func(s *sample) float64 { return float64(s.metrics.ResultMisses) }, "result", "miss"),
	counter("stele_thread_loads_total", "Threads whose items were read from disk.", func(s *sample) float64 { return float64(s.metrics.ThreadLoads) }),
	gauge("stele_threads", "Threads, with the namespaces of a store and the groups of a cache in the same directory.",
		func(s *sample) float64 { return float64(s.stats.Threads) }),
	gauge("stele_threads_resident", "Threads whose items are in memory.", func(s *sample) float64 { return float64(s.stats.Resident) }),
	gauge("stele_versions_bytes", "Memory of the last values kept to make patches against.", func(s *sample) float64 { return float64(s.stats.VersionBytes) }),
	gauge("stele_open_views", "Listings and backups in progress, whose files are kept.", func(s *sample) float64 { return float64(s.stats.OpenViews) }),

	counter("stele_flushes_total", "Flushes.", func(s *sample) float64 { return float64(s.metrics.Flushes) }),
	counter("stele_images_total", "Images of the index written.", func(s *sample) float64 { return float64(s.metrics.Images) }),
	counter("stele_compactions_total", "Compactions.", func(s *sample) float64 { return float64(s.metrics.Compactions) }),
	counter("stele_compaction_read_bytes_total", "Size of the segments compacted.", func(s *sample) float64 { return float64(s.metrics.CompactedIn) }),
	counter("stele_compaction_written_bytes_total", "Size of the segments that compactions wrote.",
		func(s *sample) float64 { return float64(s.metrics.CompactedOut) }),
	gauge("stele_compaction_debt_bytes", "Size of the segments that wait for compaction.", func(s *sample) float64 { return float64(s.stats.CompactionDebt) }),
	gauge("stele_segments", "Segments.", func(s *sample) float64 { return float64(s.stats.Segments) }),
	gauge("stele_segment_bytes", "Size of the segments.", func(s *sample) float64 { return float64(s.stats.SegmentBytes) }),
	gauge("stele_segment_raw_bytes", "Size of the values and patches in segments before compression.",
		func(s *sample) float64 { return float64(s.stats.RawBytes) }),
	gauge("stele_segment_dead_bytes", "Size of what a compaction would free, about.", func(s *sample) float64 { return float64(s.stats.DeadBytes) }),
	gauge("stele_unremoved_files", "Files that nothing needs and that could not be removed yet.",
		func(s *sample) float64 { return float64(s.stats.UnremovedFiles) }),

	counter("stele_corruptions_found_total", "How often damage was met.", func(s *sample) float64 { return float64(s.metrics.CorruptionsFound) }),
	gauge("stele_poisoned", "1 after a write or sync failed: writes are refused until the store is opened again.",
		func(s *sample) float64 { return truth(has(s.health, metrics.TroublePoisoned)) }),
	maybe("stele_disk_free_bytes", "What can still be written to the device.", func(s *sample) (float64, bool) {
		return float64(s.health.Space.Free), s.health.Space.Free != math.MaxInt64 && !has(s.health, metrics.TroubleDisk)
	}),
	maybe("stele_disk_size_bytes", "Size of the device.", func(s *sample) (float64, bool) {
		return float64(s.health.Space.Total), s.health.Space.Total > 0
	}),
	gauge("stele_disk_reserve_bytes", "Free space below which saves are refused; 0 for none.", func(s *sample) float64 { return float64(s.health.Space.Reserve) }),
	gauge("stele_disk_low_bytes", "Free space below which the store is degraded; 0 for none.",
		func(s *sample) float64 { return float64(s.health.Space.LowSpace) }),
}

// histograms are all distributions.
var histograms = []histogram{
	timing("stele_save_duration_seconds", "Time of a save that succeeded, serialization and sync included.",
		func(s *sample) metrics.Histogram { return s.metrics.Saves }),
	timing("stele_load_duration_seconds", "Time of GetTuple.", func(s *sample) metrics.Histogram { return s.metrics.Loads }),
	timing("stele_item_search_duration_seconds", "Time of a search of items that succeeded.", func(s *sample) metrics.Histogram { return s.metrics.ItemSearches }),
	timing("stele_commit_duration_seconds", "Time of a commit, queue and sync included.", func(s *sample) metrics.Histogram { return s.metrics.Commits }),
	timing("stele_commit_stall_seconds", "Time that commits waited which were slowed down, as flushes or compaction were behind.",
		func(s *sample) metrics.Histogram { return s.metrics.Stalled }),
	timing("stele_serialization_duration_seconds", serdeHelp, func(s *sample) metrics.Histogram { return s.metrics.Encodes }, "op", "encode"),
	timing("stele_serialization_duration_seconds", serdeHelp, func(s *sample) metrics.Histogram { return s.metrics.Decodes }, "op", "decode"),
	syncTimes(),
	batchSizes(),
}

func syncTimes() histogram {
	d, _ := desc("stele_log_sync_duration_seconds", "Time of a sync of the log.", nil)
	return histogram{d, nil, func(s *sample) (uint64, float64, map[float64]uint64) {
		l := &s.metrics.Log
		count, buckets := doubling(l.SyncTime[:], microsecond, true)
		return count, l.SyncTotal.Seconds(), buckets
	}}
}

func batchSizes() histogram {
	d, _ := desc("stele_log_batch_records", "Records that were written and synced together.", nil)
	return histogram{d, nil, func(s *sample) (uint64, float64, map[float64]uint64) {
		l := &s.metrics.Log
		count, buckets := doubling(l.BatchSize[:], 1, false)
		return count, float64(l.Records), buckets
	}}
}

func has(h metrics.Health, kind metrics.Trouble) bool {
	for _, p := range h.Problems {
		if p.Kind == kind {
			return true
		}
	}
	return false
}
