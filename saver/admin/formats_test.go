package admin_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// What Formats says a build writes is what the headers of its files say: magic, then the
// format version.
func TestFormatsAreThoseOfTheFiles(t *testing.T) {
	dir := t.TempDir()
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	put := saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{ID: "1"}}
	if _, err := s.PutRequest(ctx, put); err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(ctx); err != nil { // a segment
		t.Fatal(err)
	}
	put.Checkpoint.ID = "2"
	if _, err := s.PutRequest(ctx, put); err != nil { // a log
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	le := binary.LittleEndian
	versions := map[string]func(b []byte) uint32{ // by magic
		"steleMAN": func(b []byte) uint32 { return le.Uint32(b[8:]) }, "steleIMG": func(b []byte) uint32 { return le.Uint32(b[8:]) },
		"steleSEG": func(b []byte) uint32 { return le.Uint32(b[8:]) }, "SWAL": func(b []byte) uint32 { return uint32(le.Uint16(b[4:])) },
	}
	kinds := map[string]string{"steleMAN": "manifest", "steleIMG": "image", "SWAL": "log", "steleSEG": "segment"}
	written := map[string]uint32{}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for magic, version := range versions {
			if bytes.HasPrefix(b, []byte(magic)) {
				written[kinds[magic]] = version(b)
			}
		}
	}
	for _, f := range admin.Formats() {
		if f.Kind == "store" || f.Kind == "backup" {
			continue
		}
		if v, ok := written[f.Kind]; !ok || v != f.Writes {
			t.Errorf("Formats says that %s files are of version %d; those written are of %d (found: %t)", f.Kind, f.Writes, v, ok)
		}
	}
}
