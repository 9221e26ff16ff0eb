package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// TestKeys: an encrypted store is read, checked, backed up, restored and salvaged
// with the file of its keys, and by no command without.
func TestKeys(t *testing.T) {
	tmp := t.TempDir()
	keyFile, dir := filepath.Join(tmp, "keys"), filepath.Join(tmp, "store")
	if err := os.WriteFile(keyFile, []byte("one "+strings.Repeat("a7", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := disk.LoadKeyFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	d, err := disk.Open(dir, disk.Options{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]saver.Version{"c": saver.IntVersion(1)}
	_, err = d.Put(context.Background(), saver.Config{ThreadID: "alice"},
		saver.Checkpoint{V: 4, ID: checkpointID(1), Versions: versions, Values: map[string]saver.Value{"c": saver.ValueOf("a secret")}},
		saver.Metadata{"source": "loop", "step": 0}, versions)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	backup, restored, saved := filepath.Join(tmp, "backup"), filepath.Join(tmp, "restored"), filepath.Join(tmp, "saved")
	for _, c := range []struct {
		args  []string
		shows string // with the keys
	}{
		{[]string{"threads", dir}, "alice"},
		{[]string{"show", dir, "alice"}, "a secret"},
		{[]string{"log", dir}, ""},
		{[]string{"verify", dir}, ""},
		{[]string{"compact", dir}, ""},
		{[]string{"erase", dir, "--filter", "step:=0"}, "alice"},
		{[]string{"export", "ndjson", dir, "-"}, `"thread":"alice"`},
		{[]string{"import", "sqlite", recorded + "v1.sqlite", dir}, "verified"},
		{[]string{"erase", dir, "--thread", "nobody", "--yes"}, "every file was written anew"},
		{[]string{"backup", dir, backup}, ""},
		{[]string{"restore", backup, restored}, ""},
		{[]string{"show", restored, "alice"}, "a secret"},
		{[]string{"salvage", "--output", saved, dir}, ""},
	} {
		if out, stderr, code := stele(t, c.args...); code == 0 || strings.Contains(out, "secret") {
			t.Errorf("%v without keys: code %d\n%s%s", c.args, code, out, stderr)
		}
		out, stderr, code := stele(t, append([]string{"--keys", keyFile}, c.args...)...)
		if (code != 0) != (c.args[len(c.args)-1] == "--yes") || !strings.Contains(out, c.shows) { // nothing matches
			t.Errorf("%v with keys: code %d\n%s%s", c.args, code, out, stderr)
		}
	}
	if _, stderr, code := stele(t, "--keys", filepath.Join(tmp, "none"), "info", dir); code != 2 || !strings.Contains(stderr, "none") {
		t.Errorf("without the file: code %d, %s", code, stderr)
	}
}
