package admin

import (
	"errors"
	"io"
	"maps"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/snapshot"
)

// maxManifest bounds what is read of a file that claims to be a manifest.
const maxManifest = 16 << 20

func (d *dumper) manifest() error {
	b := make([]byte, min(d.size, maxManifest))
	if n, err := d.f.ReadAt(b, 0); n < len(b) && !errors.Is(err, io.EOF) {
		return err
	}
	var entries []DumpEntry
	h, err := snapshot.InspectManifest(d.name, b, func(fr snapshot.ManifestFrame) error {
		e := zeros(fr.Offset, fr.Size, fr.Used, "frame")
		if fr.Type != "" {
			e = DumpEntry{Offset: fr.Offset, Size: fr.Size, Kind: fr.Type}
			e.field("seq", fr.Seq)
			e.field("promise", fr.Promise)
		}
		switch {
		case fr.Err != nil:
			e.Error = fr.Err.Error()
		case fr.State != nil:
			e.state(fr.State)
		case fr.Edit != nil:
			e.edit(fr.Edit)
		}
		entries = append(entries, e) // of at most 16 MiB
		return nil
	}, snapshot.WithKeys(d.keys().Keys()), snapshot.AllowPlain())
	ok, err := d.head(err, Field{"file", snapshot.ManifestName(h.Num)}, Field{"store", hexID(h.StoreID)}, Field{"salt", hexID(h.Salt)},
		Field{"prev", h.Prev}, Field{"size", h.Size})
	if !ok {
		return err
	}
	for _, e := range entries {
		if err := d.yield(e); err != nil {
			return err
		}
	}
	return nil
}

func (e *DumpEntry) state(st *snapshot.State) {
	e.field("store", hexID(st.StoreID))
	e.field("format", st.FormatVersion)
	e.field("next_file", st.NextFileNum)
	e.field("floor", st.FloorLSN)
	e.files(st.Logs, st.Segments, st.Images)
	e.clean(st.Clean)
	for _, k := range slices.Sorted(maps.Keys(st.Options)) {
		e.line(0, "option %s = %s", k, st.Options[k])
	}
}

func (e *DumpEntry) edit(ed *snapshot.Edit) {
	for _, n := range ed.RemoveLogs {
		e.line(0, "remove %s", base.LogFile.Name(n))
	}
	for _, n := range ed.RemoveSegments {
		e.line(0, "remove %s", base.SegmentFile.Name(n))
	}
	var images []snapshot.ImageInfo
	if ed.SetImages != nil {
		images = *ed.SetImages
		e.line(0, "images are now %d", len(images))
	}
	e.files(ed.AddLogs, ed.AddSegments, images)
	for _, d := range ed.SetDead {
		e.dead(d.Num, d.Dropped, d.Unused)
	}
	if ed.SetFloor != nil {
		e.line(0, "floor is now %d", *ed.SetFloor)
	}
	if ed.NextFileNum > 0 {
		e.line(0, "next file is at least %s", ed.NextFileNum)
	}
	e.clean(ed.Clean)
}

func (e *DumpEntry) dead(n base.FileNum, dropped, unused int64) {
	e.line(0, "segment %s: %d raw bytes of deleted threads, %d unused", base.SegmentFile.Name(n), dropped, unused)
}

func (e *DumpEntry) files(logs []snapshot.LogInfo, segs []snapshot.SegmentInfo, images []snapshot.ImageInfo) {
	for _, l := range logs {
		e.line(0, "log %s from record %d", base.LogFile.Name(l.Num), l.BaseLSN)
	}
	for _, s := range segs {
		e.line(0, "segment %s: %d bytes, %d raw, %d families, %d values, records %d to %d", base.SegmentFile.Name(s.Num), s.Size, s.Raw,
			s.Families, s.Values, s.MinLSN, s.MaxLSN)
	}
	for _, s := range segs {
		if s.Dropped != 0 || s.Unused != 0 {
			e.dead(s.Num, s.Dropped, s.Unused)
		}
	}
	for _, im := range images {
		kind := "delta"
		if im.Full {
			kind = "full"
		}
		e.line(0, "image %s: %s, %d bytes, up to record %d, log from %s:%d", base.ImageFile.Name(im.Num), kind, im.Size, im.LSN, im.Log.File, im.Log.Offset)
	}
}

func (e *DumpEntry) clean(c *snapshot.CleanClose) {
	if c != nil {
		e.line(0, "closed in order: log %s ended at %d with record %d", c.LogNum, c.LogEnd, c.LSN)
	}
}
