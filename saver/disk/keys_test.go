package disk_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/savertest"
)

func testKeys(t testing.TB, current string) disk.KeyProvider {
	t.Helper()
	p, err := disk.StaticKeys(current, map[string][]byte{"2026": bytes.Repeat([]byte{1}, 32), "2027": bytes.Repeat([]byte{2}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestKitOnEncryptedDisk(t *testing.T) {
	savertest.Run(t, func(t *testing.T) saver.Saver {
		mem := vfs.NewMem(vfs.MemOptions{WindowsRules: true})
		opts := disk.Options{LogFileSize: 64 << 10, FlushBytes: 1, ImageBytes: 1, CompactFanout: 2, Keys: testKeys(t, "2026")}
		return openFor(t, "store", opts, disk.Simulation{FS: mem})
	})
}

// TestEncryptedAtRest writes markers wherever a caller can put words, and looks for
// them in the bytes of every file.
func TestEncryptedAtRest(t *testing.T) {
	ctx := context.Background()
	fill := func(dir string, keys disk.KeyProvider) {
		t.Helper()
		s, err := disk.Open(dir, disk.Options{ManualWork: true, Keys: keys})
		if err != nil {
			t.Fatal(err)
		}
		put := func(thread, id, parent string) {
			v := saver.StringVersion("MARKERversion" + id)
			_, err := s.Put(ctx, saver.Config{ThreadID: thread, Namespace: "MARKERns", CheckpointID: parent},
				saver.Checkpoint{V: 4, ID: id, Versions: map[string]saver.Version{"MARKERchannel": v},
					Values: map[string]saver.Value{"MARKERchannel": saver.ValueOf(strings.Repeat("MARKERvalue ", 40))}},
				saver.Metadata{"MARKERkey": "MARKERmetadata", "run_id": "MARKERrun"}, map[string]saver.Version{"MARKERchannel": v})
			if err == nil {
				err = s.PutWrites(ctx, saver.Config{ThreadID: thread, Namespace: "MARKERns", CheckpointID: id},
					[]saver.Write{{Channel: "MARKERwrite", Value: saver.ValueOf("MARKERwritten")}}, "MARKERtask", "MARKERpath")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		put("MARKERa", "MARKER1", "")
		put("MARKERa", "MARKER2", "MARKER1")
		put("MARKERgone", "MARKER1", "")
		for _, err := range []error{s.Flush(ctx), s.CopyThread(ctx, "MARKERa", "MARKERcopy"), s.DeleteThread(ctx, "MARKERgone"), s.Flush(ctx)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		put("MARKERa", "MARKER3", "MARKER2")
		if err := s.Inside().Engine.WriteImage(ctx); err != nil {
			t.Fatal(err)
		}
		put("MARKERb", "MARKER1", "")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	count := func(dir string) (n int) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			n += bytes.Count(b, []byte("MARKER"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	plain, sealed := t.TempDir(), t.TempDir()
	fill(plain, nil)
	if n := count(plain); n < 20 {
		t.Fatalf("only %d markers in a store without encryption", n)
	}
	fill(sealed, testKeys(t, "2026"))
	if n := count(sealed); n > 0 {
		t.Errorf("%d markers in clear", n)
	}
	_, err := disk.Open(sealed, disk.Options{})
	var k *fault.KeyError
	if !errors.As(err, &k) || k.Problem != fault.KeyRequired || k.KeyID != "2026" || !errors.Is(err, fault.ErrKey) {
		t.Errorf("without keys: %v", err)
	}
	if _, err := disk.Open(plain, disk.Options{Keys: testKeys(t, "2026")}); !errors.As(err, &k) || k.Problem != fault.NotEncrypted {
		t.Errorf("a plain store with keys: %v", err)
	}
	s, err := disk.Open(sealed, disk.Options{Keys: testKeys(t, "2027")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	if e := s.Stats().Encryption; len(e.Files) != 1 || e.Files["2027"] == 0 {
		t.Errorf("after Compact: %+v", e)
	}
	tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "MARKERa", Namespace: "MARKERns"})
	if err != nil || tup.Checkpoint.ID != "MARKER3" || tup.Metadata["MARKERkey"] != "MARKERmetadata" || len(tup.PendingWrites) != 1 {
		t.Errorf("%+v, %v", tup, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
