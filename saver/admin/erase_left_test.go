package admin_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// keeping is a bucket that says what it keeps.
type keeping struct {
	bucket.Bucket
	kept bucket.Kept
}

func (k keeping) Kept(context.Context) bucket.Kept { return k.kept }

// TestEraseSaysWhatIsLeft: the report of an erasure names what the bucket keeps, and the directories of other machines; without a
// bucket neither. It names the tails of others' lineages.
func TestEraseSaysWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		bucket bucket.Bucket
		want   []string // in each sentence
	}{
		"no bucket":       {nil, []string{"diverged-7.tail"}},
		"keeps nothing":   {keeping{buckettest.NewSim(nil), bucket.Kept{}}, []string{"other machines"}},
		"keeps versions":  {keeping{buckettest.NewSim(nil), bucket.Kept{Versions: true, Expires: 24 * time.Hour}}, []string{"other machines", "keeps versions of what was deleted there, which a rule of it removes from about 20"}},
		"does not say it": {buckettest.NewSim(nil), []string{"other machines", "may keep versions"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := disk.Open(filepath.Join(t.TempDir(), "store"), disk.Options{Replica: disk.Replica{Bucket: c.bucket, Interval: time.Millisecond}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}()
			if name == "no bucket" {
				if err := os.WriteFile(filepath.Join(d.Inside().Engine.Dir, "diverged-7.tail"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := d.Put(t.Context(), saver.Config{ThreadID: "t"}, saver.Checkpoint{ID: "1"}, nil, nil); err != nil {
				t.Fatal(err)
			}
			for _, dry := range []bool{true, false} {
				rep, err := admin.EraseOpen(t.Context(), d, admin.EraseOptions{Threads: []string{"t"}, DryRun: dry})
				if err != nil {
					t.Fatal(err)
				}
				want := c.want
				if dry {
					want = nil
				}
				if len(rep.Left) != len(want) {
					t.Fatalf("dry %t: left is %q", dry, rep.Left)
				}
				for i, part := range want {
					if !strings.Contains(rep.Left[i], part) {
						t.Errorf("left is %q, want %q in it", rep.Left[i], part)
					}
				}
			}
		})
	}
}
