package compat

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

var updateSealed = flag.Bool("update-sealed", false, "write the encrypted store again")

// sealedDir holds an encrypted store of the first algorithm, under the key below.
const sealedDir = "testdata/sealed1"

func sealedKeys(t *testing.T) disk.KeyProvider {
	t.Helper()
	keys, err := disk.StaticKeys("golden", map[string][]byte{"golden": bytes.Repeat([]byte{0x42}, 32)})
	must(t, err)
	return keys
}

// sealedValue is the value of checkpoint n of the store.
func sealedValue(n int) string { return fmt.Sprintf("value of checkpoint %d", n) }

// TestSealedStore opens an encrypted store that an earlier build wrote, with all
// kinds of files: read-only as it lies, and to write in a copy.
func TestSealedStore(t *testing.T) {
	ctx := context.Background()
	put := func(s *disk.Saver, n int) {
		t.Helper()
		v := saver.IntVersion(int64(n))
		cfg := saver.Config{ThreadID: "t"}
		if n > 1 {
			cfg.CheckpointID = fmt.Sprint(n - 1)
		}
		_, err := s.Put(ctx, cfg, saver.Checkpoint{V: 4, ID: fmt.Sprint(n), TS: "2026-01-02T03:04:05+00:00", Versions: map[string]saver.Version{"c": v},
			Values: map[string]saver.Value{"c": saver.ValueOf(sealedValue(n))}}, saver.Metadata{"n": n}, map[string]saver.Version{"c": v})
		must(t, err)
	}
	if *updateSealed {
		must(t, os.RemoveAll(sealedDir))
		s, err := disk.Open(filepath.Join(sealedDir, "store"), disk.Options{Keys: sealedKeys(t), ManualWork: true})
		must(t, err)
		put(s, 1)
		put(s, 2)
		must(t, s.Flush(ctx))
		put(s, 3)
		must(t, s.Inside().Engine.WriteImage(ctx))
		put(s, 4)
		must(t, s.Close())
		must(t, os.Remove(filepath.Join(sealedDir, "store", "LOCK")))
	}
	check := func(s *disk.Saver) {
		t.Helper()
		var ids []string
		for tup, err := range s.List(ctx, saver.Query{ThreadID: "t"}) {
			must(t, err)
			ids = append(ids, tup.Checkpoint.ID)
			var got string
			must(t, tup.Checkpoint.Values["c"].Decode(&got))
			if want := "value of checkpoint " + tup.Checkpoint.ID; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if !slices.Equal(ids, []string{"4", "3", "2", "1"}) {
			t.Errorf("checkpoints %v", ids)
		}
	}
	s, err := disk.Open(filepath.Join(sealedDir, "store"), disk.Options{Keys: sealedKeys(t), ReadOnly: true})
	must(t, err)
	check(s)
	if e := s.Stats().Encryption; e.Files["golden"] < 4 || e.Plain+e.Unknown > 0 {
		t.Errorf("%+v", e)
	}
	must(t, s.Close())
	s, err = disk.Open(copyDir(t, sealedDir), disk.Options{Keys: sealedKeys(t), ManualWork: true})
	must(t, err)
	check(s)
	must(t, s.Compact(ctx))
	check(s)
	must(t, s.Close())
}
