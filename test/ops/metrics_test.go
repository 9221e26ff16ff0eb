package ops

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// Every counter of saves, loads and the serializer tells what the calls were.
func TestSavesAndLoadsAreCounted(t *testing.T) {
	d, g, _ := open(t, disk.Options{}, 0)
	text := strings.Repeat("value ", 1000)
	const puts = 20
	for n := 1; n <= puts; n++ {
		mustPut(t, d, "t", n, saver.ValueOf(text))
	}
	at := saver.Config{ThreadID: "t", CheckpointID: "c000001"}
	if err := d.PutWrites(ctx, at, []saver.Write{{Channel: "m", Value: saver.ValueOf("w")}}, "task", ""); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range []error{
		put(d, "", 1, saver.ValueOf(1)),           // no thread
		put(d, "t", 99, saver.ValueOf(func() {})), // cannot be serialized
		d.PutWrites(cancelled, at, []saver.Write{{Channel: "m", Value: saver.ValueOf(1)}}, "task", ""),
	} {
		if err == nil {
			t.Fatal("a call that must be refused was not")
		}
	}
	tup, err := d.GetTuple(ctx, saver.Config{ThreadID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tup.Checkpoint.Values["m"].Any(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.GetTuple(ctx, saver.Config{ThreadID: "nobody"}); !errors.Is(err, saver.ErrNotFound) {
		t.Fatal(err)
	}
	m := d.Metrics()
	if m.Saves.Count() != puts+1 || m.SavesRefused != 3 || m.SavesFailed != 0 {
		t.Errorf("saves: %d counted, %d refused, %d failed", m.Saves.Count(), m.SavesRefused, m.SavesFailed)
	}
	if m.Loads.Count() != 2 || m.LoadsFailed != 0 {
		t.Errorf("loads: %d counted, %d failed", m.Loads.Count(), m.LoadsFailed)
	}
	if m.Encodes.Count() < 2*puts || m.EncodesFailed != 1 || m.Decodes.Count() < 2 || m.DecodesFailed != 0 {
		t.Errorf("serializer: %d and %d encodes, %d and %d decodes", m.Encodes.Count(), m.EncodesFailed, m.Decodes.Count(), m.DecodesFailed)
	}
	if m.Commits.Count() != puts+1 || m.Commits.Sum > m.Saves.Sum {
		t.Errorf("commits: %d in %v, saves in %v", m.Commits.Count(), m.Commits.Sum, m.Saves.Sum)
	}
	if least := int64(puts * len(text)); m.ValueBytes < least || m.ValueBytes > least*2 {
		t.Errorf("%d bytes of values, at least %d were given", m.ValueBytes, least)
	}
	batches := int64(0)
	for _, n := range m.Log.BatchSize {
		batches += n
	}
	if batches != m.Log.Batches || batches == 0 {
		t.Errorf("%d batches by size, %d in all", batches, m.Log.Batches)
	}
	g.fail(syscall.EIO)
	if err := put(d, "u", 1, saver.ValueOf(1)); !errors.Is(err, fault.ErrPoisoned) {
		t.Fatal(err)
	}
	if m := d.Metrics(); m.SavesFailed != 1 || m.Saves.Count() != puts+1 {
		t.Errorf("a save that failed: %d failed, %d counted", m.SavesFailed, m.Saves.Count())
	}
	if err := d.Close(); !errors.Is(err, fault.ErrPoisoned) {
		t.Errorf("close: %v", err)
	}
}

// A flush tells what it moved, whole and as it is stored; threads are resident or not.
func TestFlushIsMeasured(t *testing.T) {
	var flushed []metrics.FlushInfo
	opts := disk.Options{ManualWork: true, Events: metrics.Events{Flushed: func(i metrics.FlushInfo) { flushed = append(flushed, i) }}}
	d, g, _ := open(t, opts, 0)
	text := strings.Repeat("all the same ", 1000)
	for n := 1; n <= 10; n++ {
		mustPut(t, d, "t", n, saver.ValueOf(text))
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	m := d.Metrics()
	if m.FlushedValueBytes != m.ValueBytes || m.FlushedBytes <= 0 || m.FlushedBytes > m.FlushedValueBytes/5 {
		t.Errorf("%d bytes of values were committed, %d flushed, as %d", m.ValueBytes, m.FlushedValueBytes, m.FlushedBytes)
	}
	if len(flushed) != 1 || flushed[0].ValueBytes != m.FlushedValueBytes {
		t.Errorf("events: %+v", flushed)
	}
	if st := d.Stats(); st.Resident != st.Threads || st.Threads != 1 {
		t.Errorf("%d of %d threads are resident", st.Resident, st.Threads)
	}
	mustClose(t, d)
	d, err := disk.Open("store", disk.Options{Simulation: disk.Simulation{FS: g}})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, d)
	if st := d.Stats(); st.Resident != 0 || st.Threads != 1 {
		t.Errorf("%d of %d threads are resident after Open", st.Resident, st.Threads)
	}
	if _, err := d.GetTuple(ctx, saver.Config{ThreadID: "t"}); err != nil {
		t.Fatal(err)
	}
	if st := d.Stats(); st.Resident != 1 {
		t.Errorf("%d threads are resident after one was read", st.Resident)
	}
	if err := d.DeleteThread(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if st := d.Stats(); st.Resident != 0 || st.Threads != 0 {
		t.Errorf("%d of %d threads are resident after the last was deleted", st.Resident, st.Threads)
	}
}

// What another serializer does is counted with the first, once.
func TestMeasureOnce(t *testing.T) {
	d, _, _ := open(t, disk.Options{}, 0)
	defer mustClose(t, d)
	other := d.WithSerializer(d.Serializer())
	if _, err := other.Serializer().Encode("x"); err != nil {
		t.Fatal(err)
	}
	if m := d.Metrics(); m.Encodes.Count() != 1 {
		t.Errorf("one value was encoded, %d counted", m.Encodes.Count())
	}
	if _, err := d.WithSerializer(serde.Default()).Serializer().Decode(serde.Typed{Kind: "msgpack", Data: []byte{0xc1}}); err == nil {
		t.Fatal("a reserved byte was decoded")
	}
	if m := other.Metrics(); m.DecodesFailed != 1 {
		t.Errorf("%d failures counted", m.DecodesFailed)
	}
}
