package wal

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/monitor"
)

type counters struct {
	records, batches, bytes, refused atomic.Int64
	syncs, syncNanos                 atomic.Int64
	batchSize                        [monitor.BatchBuckets]atomic.Int64
	syncTime                         [monitor.SyncBuckets]atomic.Int64
	marks, rotations, preallocated   atomic.Int64
}

func (c *counters) batch(records int) {
	c.batches.Add(1)
	c.batchSize[min(bits.Len(uint(records-1)), monitor.BatchBuckets-1)].Add(1)
}

func (c *counters) sync(took time.Duration) {
	c.syncs.Add(1)
	c.syncNanos.Add(int64(took))
	b := bits.Len64(uint64(took.Microseconds()))
	c.syncTime[min(b, monitor.SyncBuckets-1)].Add(1)
}

// Metrics reads the counters. It never blocks on I/O.
func (l *Log) Metrics() monitor.LogMetrics {
	c := &l.count
	m := monitor.LogMetrics{
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
