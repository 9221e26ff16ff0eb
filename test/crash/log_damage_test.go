package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// TestLogDamageAfterClose damages a value that lies in the log of a store that was closed.
// Open replays nothing and succeeds; the value is a CorruptionError with its file, all
// others read; verify finds the place; what would have to move the value says so and
// loses nothing.
func TestLogDamageAfterClose(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	text := func(n int) string { return strings.Repeat(fmt.Sprintf("value %02d of the log.", n), 20) }
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const threads, hit = 20, 7
	for n := range threads {
		versions := map[string]saver.Version{"c": saver.IntVersion(1)}
		cp := saver.Checkpoint{V: 4, ID: "1", Versions: versions, Values: map[string]saver.Value{"c": saver.ValueOf(text(n))}}
		if _, err := s.Put(ctx, saver.Config{ThreadID: fmt.Sprint("t", n)}, cp, nil, versions); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := flipIn(t, dir, fmt.Sprintf("value %02d of", hit))

	check := func() {
		t.Helper()
		for n := range threads {
			tup, err := s.GetTuple(ctx, saver.Config{ThreadID: fmt.Sprint("t", n)})
			var got string
			if err == nil {
				err = tup.Checkpoint.Values["c"].Decode(&got)
			}
			var damage *fault.CorruptionError
			switch {
			case n == hit && (!errors.As(err, &damage) || filepath.Base(damage.File) != name):
				t.Errorf("the damaged value: %q, %v", got, err)
			case n != hit && (err != nil || got != text(n)):
				t.Errorf("value %d: %q, %v", n, got, err)
			}
		}
	}
	if s, err = disk.Open(dir, disk.Options{}); err != nil {
		t.Fatalf("Open replays nothing here: %v", err)
	}
	check()
	if err := s.Compact(ctx); !errors.Is(err, saver.ErrCorrupt) {
		t.Errorf("a compaction that has to move the value: %v", err)
	}
	check()
	if err := s.Close(); err != nil && !errors.Is(err, saver.ErrCorrupt) {
		t.Fatal(err)
	}
	rep, err := admin.Verify(ctx, dir, admin.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Damage) == 0 || filepath.Base(rep.Damage[0].File) != name {
		t.Errorf("verify found %+v", rep.Damage)
	}
	if s, err = disk.Open(dir, disk.Options{}); err != nil {
		t.Fatal(err)
	}
	check()
	if err := s.Close(); err != nil && !errors.Is(err, saver.ErrCorrupt) {
		t.Fatal(err)
	}
}

// flipIn changes a bit of the first place that has text, and returns the file's name.
func flipIn(t *testing.T, dir, text string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if i := strings.Index(string(b), text); i >= 0 {
			b[i] ^= 1
			if err := os.WriteFile(filepath.Join(dir, f.Name()), b, 0o600); err != nil {
				t.Fatal(err)
			}
			return f.Name()
		}
	}
	t.Fatalf("no file has %q", text)
	return ""
}
