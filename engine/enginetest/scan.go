// Package enginetest reads everything that the directory of a store holds, for tests that look
// for what must not be there.
//
// It is for this repository, and makes no promise to others.
package enginetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/delta"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Scan reads every file of a directory: its bytes, by its name, and the decoded content of every record, block, page, table
// and manifest frame, by its name and " decoded". keys may be nil.
func Scan(t *testing.T, fsys vfs.FS, dir string, keys seal.KeyProvider) map[string][]byte {
	t.Helper()
	ring := seal.New(keys, nil)
	st, _, err := snapshot.Load(fsys, dir, snapshot.WithKeys(ring))
	if err != nil {
		t.Fatal(err)
	}
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		f, err := fsys.Open(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil {
			t.Fatal(err)
		}
		raw := make([]byte, size)
		if n, err := f.ReadAt(raw, 0); n < len(raw) {
			t.Fatal(name, err)
		}
		out[name] = raw
		out[name+" decoded"] = decodeFile(t, f, name, raw, ring.Keyring(st.StoreID, 0))
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func decodeFile(t *testing.T, f vfs.File, name string, raw []byte, keys *seal.Keyring) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	if len(bytes.Trim(raw, "\x00")) == 0 {
		return nil // a log file to come
	}
	if _, ok := base.LogFile.Parse(name); ok {
		_, err = wal.Inspect(f, name, func(p wal.Piece) error { b.Write(p.Payload); return literals(&b, p) }, wal.WithKeys(keys))
	} else if _, ok := base.SegmentFile.Parse(name); ok {
		_, _, err = segment.Inspect(context.Background(), f, name, int64(len(raw)), func(fi segment.FrameInfo) error {
			b.Write(fi.Raw)
			b.Write(fi.Directory)
			return fi.Err
		}, segment.WithKeys(keys))
	} else if _, ok := base.ImageFile.Parse(name); ok {
		var im *snapshot.Image
		if im, err = snapshot.OpenImage(f, name, int64(len(raw)), snapshot.WithKeyring(keys)); err == nil {
			err = im.Inspect(func(fr snapshot.ImageFrame) error { b.Write(fr.Raw); return fr.Err })
		}
	}
	if err == nil && strings.HasPrefix(name, "MANIFEST-") {
		_, err = snapshot.InspectManifest(name, raw, func(fr snapshot.ManifestFrame) error {
			fmt.Fprintf(&b, "%+v %+v", fr.State, fr.Edit)
			return fr.Err
		}, snapshot.WithKeyring(keys))
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b.Bytes()
}

// literals writes what the patches of a record hold themselves, unpacked: what each
// makes of a base of zeros. Those of a segment are never packed.
func literals(b *bytes.Buffer, p wal.Piece) error {
	if p.Type != "record" {
		return nil
	}
	rec, err := engine.DescribeRecord(p.LSN, p.Payload)
	if err != nil {
		return err
	}
	for _, o := range rec.Ops {
		for _, s := range o.Slots {
			if s.Value != "patch" {
				continue
			}
			patch, err := delta.Decode(p.Payload[s.Offset:][:s.Len])
			if err != nil {
				return err
			}
			v, err := patch.On(delta.Whole(make([]byte, patch.BaseLen)))
			if err != nil {
				return err
			}
			b.Write(v.Bytes())
		}
	}
	return nil
}
