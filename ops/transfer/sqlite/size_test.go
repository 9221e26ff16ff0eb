package sqlite_test

import (
	"testing"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// An imported chat takes no more space than one that a graph wrote, which names the channels
// that each step has changed: the rows of SQLite have all values of each checkpoint.
func TestSharesValues(t *testing.T) {
	const steps = 200
	size := func(fill func(*disk.Saver)) (raw, stored int64) {
		d, err := disk.Open(t.TempDir(), disk.Options{Sync: disk.SyncNever, ManualWork: true})
		if err != nil {
			t.Fatal(err)
		}
		fill(d)
		if err := d.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		s := d.Stats()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		return s.RawBytes, s.SegmentBytes
	}
	rows := int64(0)
	f := newFile(t, layout)
	for _, s := range chat(steps) {
		object := packed(t, s.object()).Data
		rows += int64(len(object))
		f.checkpoint("chat", "", s.id, s.parent, serde.KindMsgpack, object, `{"source":"loop","step":1}`)
	}
	raw, stored := size(func(d *disk.Saver) {
		for _, s := range chat(steps) {
			cp := saver.Checkpoint{V: 4, ID: s.id, TS: "2026-01-02T03:04:05+00:00", Values: map[string]saver.Value{}, Versions: s.versions,
				Seen: map[string]map[string]saver.Version{"node": s.versions}, Updated: []string{"messages"}}
			for name, v := range s.values {
				cp.Values[name] = saver.ValueOf(v)
			}
			if _, err := d.Put(t.Context(), saver.Config{ThreadID: "chat", CheckpointID: s.parent}, cp, saver.Metadata{"source": "loop", "step": 1}, s.fresh); err != nil {
				t.Fatal(err)
			}
		}
	})
	var rep transfer.Report
	importedRaw, importedStored := size(func(d *disk.Saver) { rep, _ = copyTo(t, open(t, f.path), d) })
	t.Logf("%d checkpoints: %d bytes in rows; written directly %d bytes of values, %d in segments; imported %d, %d", rep.Verified, rows, raw, stored, importedRaw, importedStored)
	if rep.Verified != steps || importedRaw > raw+raw/100 || importedStored > stored+stored/20 {
		t.Errorf("imported %d bytes of values, %d in segments; written directly %d and %d", importedRaw, importedStored, raw, stored)
	}
}
