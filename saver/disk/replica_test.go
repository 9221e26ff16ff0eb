package disk_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/savertest"
)

// TestRestoredConforms runs the conformance kit on stores that were restored from a bucket, and go on in it.
func TestRestoredConforms(t *testing.T) {
	t.Parallel()
	savertest.Run(t, func(t *testing.T) saver.Saver {
		root, sim := t.TempDir(), buckettest.NewSim(nil)
		opts := disk.Options{Replica: disk.Replica{Bucket: sim, Mode: "sync", TTL: time.Minute}}
		d, err := disk.Open(filepath.Join(root, "old"), opts)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := d.Put(t.Context(), saver.Config{ThreadID: "before"}, saver.Checkpoint{ID: "1"}, nil, nil)
		if err == nil {
			err = d.DeleteThread(t.Context(), cfg.ThreadID)
		}
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		rep, err := admin.RestoreBucket(t.Context(), sim, filepath.Join(root, "new"), admin.Moment{}, admin.BackupOptions{})
		if err != nil || rep.LastLSN != 2 {
			t.Fatalf("restored %+v, %v", rep, err)
		}
		if d, err = disk.Open(filepath.Join(root, "new"), opts); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	})
}
