package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/wal"
)

// TestSealedStore: with the keys in Access an encrypted store is described, listed
// and dumped like any other; without, nothing of it is shown.
func TestSealedStore(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	keys, err := disk.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{5}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	opts := disk.Options{ManualWork: true, Keys: keys}
	s, err := disk.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"1", "2"} {
		v := saver.IntVersion(int64(i + 1))
		_, err := s.Put(ctx, saver.Config{ThreadID: "MARKER"}, saver.Checkpoint{V: 4, ID: id, Versions: map[string]saver.Version{"MARKER": v},
			Values: map[string]saver.Value{"MARKER": saver.ValueOf("MARKER")}}, nil, map[string]saver.Version{"MARKER": v})
		if err == nil && i == 0 {
			err = s.Flush(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// A store that is open lends its keys.
	if rep, err := VerifyOpen(ctx, s, VerifyOptions{}); err != nil || !rep.Clean() || rep.Checkpoints != 2 {
		t.Errorf("verify: %+v, %v", rep, err)
	}
	if rep, err := BackupOpen(ctx, s, filepath.Join(t.TempDir(), "backup"), BackupOptions{}); err != nil || rep.Files == 0 {
		t.Errorf("backup: %+v, %v", rep, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	with, without := Access{Options: disk.Options{Keys: keys}}, Access{}
	if _, err := Describe(dir, with); err != nil {
		t.Errorf("describe: %v", err)
	}
	if _, err := Describe(dir, without); !errors.Is(err, fault.ErrKey) {
		t.Errorf("describe without keys: %v", err)
	}
	records := 0
	for e, err := range Log(ctx, dir, with, LogQuery{}) {
		if err != nil || e.Type == "damage" {
			t.Errorf("log: %+v, %v", e, err)
		}
		records++
	}
	if records == 0 {
		t.Error("no record is listed")
	}
	for _, err := range Log(ctx, dir, without, LogQuery{}) {
		if !errors.Is(err, fault.ErrKey) {
			t.Errorf("log without keys: %v", err)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	shown := func(a Access, name string) (text string, failed error) {
		for e, err := range Dump(ctx, filepath.Join(dir, name), a) {
			if err != nil {
				return text, err
			}
			text += fmt.Sprintln(e.Kind, e.Error, e.Fields, e.Lines)
		}
		return text, nil
	}
	for _, n := range names {
		if n.Name() == "LOCK" || n.Name() == wal.MarkName { // never encrypted: they hold nothing of a user
			continue
		}
		text, err := shown(with, n.Name())
		content := !strings.HasPrefix(n.Name(), "MANIFEST") && n.Name() != wal.MarkName // these two hold none
		if err != nil || strings.Contains(text, "authenticate") || content && !strings.Contains(text, "MARKER") {
			t.Errorf("%s: %v\n%s", n.Name(), err, text)
		}
		text, err = shown(without, n.Name())
		if err != nil && !errors.Is(err, fault.ErrKey) || strings.Contains(text, "MARKER") {
			t.Errorf("%s without keys: %v\n%s", n.Name(), err, text)
		}
	}
}
