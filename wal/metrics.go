package wal

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// BatchBuckets is the number of buckets of Metrics.BatchSize: a batch has at most
// 1,024 records.
const BatchBuckets = 11

// SyncBuckets is the number of buckets of Metrics.SyncTime.
const SyncBuckets = 24

// Metrics is a moment's reading of the counters of a log. Counters only grow.
type Metrics struct {
	Records int64 // records committed
	Batches int64 // batches committed
	Bytes   int64 // bytes of their frames, headers and padding included
	Refused int64 // records refused after they were prepared
	// BatchSize counts batches by records: bucket i holds those of at most 2^i that
	// no bucket before it holds.
	BatchSize [BatchBuckets]int64

	Syncs     int64         // syncs of a log file, preallocation excluded
	SyncTotal time.Duration // time spent in them
	// SyncTime counts syncs by duration: bucket i holds those of less than
	// 2^i µs that no bucket before it holds; the last holds the rest.
	SyncTime [SyncBuckets]int64

	Marks        int64 // sync marks written while idle
	Rotations    int64 // files sealed
	Preallocated int64 // zero bytes written ahead
	QueueDepth   int   // records waiting now
	QueueBytes   int64 // of them, as far as their sizes are known
}

type counters struct {
	records, batches, bytes, refused atomic.Int64
	syncs, syncNanos                 atomic.Int64
	batchSize                        [BatchBuckets]atomic.Int64
	syncTime                         [SyncBuckets]atomic.Int64
	marks, rotations, preallocated   atomic.Int64
}

func (c *counters) batch(records int) {
	c.batches.Add(1)
	c.batchSize[min(bits.Len(uint(records-1)), BatchBuckets-1)].Add(1)
}

func (c *counters) sync(took time.Duration) {
	c.syncs.Add(1)
	c.syncNanos.Add(int64(took))
	b := bits.Len64(uint64(took.Microseconds()))
	c.syncTime[min(b, SyncBuckets-1)].Add(1)
}

// Metrics reads the counters. It never blocks on I/O.
func (l *Log) Metrics() Metrics {
	c := &l.count
	m := Metrics{
		Records:      c.records.Load(),
		Batches:      c.batches.Load(),
		Bytes:        c.bytes.Load(),
		Refused:      c.refused.Load(),
		Syncs:        c.syncs.Load(),
		SyncTotal:    time.Duration(c.syncNanos.Load()),
		Marks:        c.marks.Load(),
		Rotations:    c.rotations.Load(),
		Preallocated: c.preallocated.Load(),
	}
	m.QueueDepth, m.QueueBytes = l.q.load()
	for i := range c.batchSize {
		m.BatchSize[i] = c.batchSize[i].Load()
	}
	for i := range c.syncTime {
		m.SyncTime[i] = c.syncTime[i].Load()
	}
	return m
}
