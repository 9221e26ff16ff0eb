package admin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/engine"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// fileHeader is the length of the header of every file of a store.
const fileHeader = 64

// head yields the entry of a file header, or of damage to it. It reports whether to go on.
func (d *dumper) head(err error, fields ...Field) (bool, error) {
	e := DumpEntry{Size: min(fileHeader, d.size), Kind: "header", Fields: fields}
	if err != nil {
		if !errors.Is(err, fault.ErrCorrupt) {
			return false, err
		}
		e.fail(err)
		e.Fields = nil
	}
	yerr := d.yield(e)
	return err == nil && yerr == nil, yerr
}

// keys are the keys of the options that this file needs.
func (d *dumper) keys() *seal.Keyring { return engine.KeyringOf(d.f, d.name, d.a.Options.Keys) }

func (d *dumper) log() error {
	h, err := wal.Inspect(d.f, d.name, nil)
	ok, err := d.head(err, Field{"file", base.LogFile.Name(h.File)}, Field{"format", h.FormatVersion}, Field{"base_lsn", h.BaseLSN},
		Field{"salt", hexID(h.Salt)}, Field{"copy", h.Copy}, Field{"prev_file", h.Prev.File}, Field{"prev_end", h.Prev.Offset},
		Field{"prev_chain", hexID(h.Prev.Chain)})
	if !ok {
		return err
	}
	_, err = wal.Inspect(d.f, d.name, func(p wal.Piece) error {
		if !p.Valid() {
			return d.yield(zeros(p.Offset, p.Size, p.Used, "frame"))
		}
		e := DumpEntry{Offset: p.Offset, Size: p.Size, Kind: p.Type}
		e.field("lsn", p.LSN)
		e.field("synced_to", p.SyncedTo)
		if p.Type == "record" {
			e.field("payload", len(p.Payload))
			switch {
			case p.Err != nil:
				e.fail(p.Err)
			case p.Sealed:
				e.field("encrypted", true)
			default:
				e.record(p)
			}
		}
		return d.yield(e)
	}, wal.WithKeys(d.keys()))
	return err
}

// mark explains the two slots of the durable mark.
func (d *dumper) mark() error {
	slots, notes, err := wal.InspectMark(d.f)
	if err != nil {
		return err
	}
	for _, s := range slots {
		begin := min(s.Offset, d.size) // the file may have been cut before it
		e := DumpEntry{Offset: begin, Size: min(wal.MarkSlotSize, d.size-begin), Kind: "slot"}
		switch {
		case s.Valid:
			e.field("seq", s.Seq)
			e.field("store", hexID(s.Origin))
			e.field("file", base.LogFile.Name(s.File))
			e.field("salt", hexID(s.Salt))
			e.field("synced_to", s.End)
			e.field("lsn", s.LSN)
		case !s.Used:
			e.Kind = "zeros"
		}
		for _, n := range notes {
			if n.Offset == s.Offset && n.Len > 0 {
				e.fail(errors.New(n.Detail))
			}
		}
		if err := d.yield(e); err != nil {
			return err
		}
	}
	return nil
}

func (e *DumpEntry) record(p wal.Piece) {
	rec, err := engine.DescribeRecord(p.LSN, p.Payload)
	if err != nil {
		e.Error = err.Error()
		return
	}
	e.field("time", time.UnixMicro(rec.Time).UTC())
	for _, o := range rec.Ops {
		op := logOp(o)
		e.line(0, "%s %s %s", op.Op, threadLabel(o.Partition), op.Entry)
		for i, s := range o.Slots {
			where := s.Value
			switch s.Value {
			case "earlier":
				where = "stored as " + refText(s.Ref)
			case "here", "patch":
				where = s.Value + ", " + refText(s.Ref) + ", " + strconv.FormatInt(s.Len, 10) + " bytes at " + strconv.FormatInt(p.PayloadAt+s.Offset, 10)
				if s.Value == "patch" {
					where += ", made of " + refText(s.Base)
				}
			}
			e.line(1, "%s: %s", slotText(op.Kind, o.Key, i, s.Name, s.Tag), where)
		}
	}
}

func refText(r index.Ref) string {
	if r.Empty() {
		return "empty"
	}
	return strconv.FormatUint(uint64(r.LSN), 10) + "." + strconv.Itoa(int(r.Ord))
}

func threadLabel(id string) string {
	name, kind := SplitThread(id)
	return kind + " " + strconv.Quote(name)
}

// slotText describes a slot of an entry for people. The first slot of a checkpoint names its
// parent, the first slot of writes their task. The other slots are channels.
func slotText(kind, key string, i int, name, tag string) string {
	if kind == "thread" && key != "" {
		switch {
		case key[0] == 'c' && i == 0:
			return "checkpoint, parent " + strconv.Quote(name) + ", run " + strconv.Quote(tag)
		case key[0] == 'c':
			return "channel " + strconv.Quote(name) + " version " + versionText(tag)
		case key[0] == 'w' && i == 0:
			return "task " + strconv.Quote(name) + " path " + strconv.Quote(tag)
		case key[0] == 'w':
			return "write to " + strconv.Quote(name)
		}
	}
	return "slot " + strconv.Quote(name) + " " + strconv.Quote(tag)
}

func (d *dumper) segment() error {
	// The first walk is for header and footer alone.
	props, damage, err := segment.Identify(d.f, d.name, d.size, segment.WithKeys(d.keys()))
	if err != nil {
		if errors.Is(err, fault.ErrCorrupt) {
			_, err = d.head(err)
		}
		return err
	}
	var bad error // damage to the header; the walk finds damage to the footer
	for _, dm := range damage {
		if findingOf(dm).Offset == 0 {
			bad = dm
		}
	}
	if _, err := d.head(bad, Field{"file", base.SegmentFile.Name(props.FileNum)}, Field{"format", props.FormatVersion},
		Field{"salt", hexID(props.Salt)}); err != nil {
		return err
	}
	end := int64(fileHeader)
	_, _, err = segment.Inspect(d.ctx, d.f, d.name, d.size, func(fi segment.FrameInfo) error {
		end = fi.Offset + fi.Size
		e := DumpEntry{Offset: fi.Offset, Size: fi.Size, Kind: fi.Kind}
		if fi.Kind == "" {
			e.fail(fi.Err)
		} else {
			e.frame(fi)
		}
		return d.yield(e)
	}, segment.WithKeys(d.keys()))
	if err != nil || end >= d.size {
		return err
	}
	e := DumpEntry{Offset: end, Size: d.size - end, Kind: "footer"}
	if r, err := segment.Open(d.f, d.name, d.size, segment.WithKeys(d.keys())); err == nil {
		p := r.Props()
		e.field("families", p.Families)
		e.field("values", p.Values)
		e.field("raw", p.RawBytes)
		e.field("min_lsn", p.MinLSN)
		e.field("max_lsn", p.MaxLSN)
	}
	return d.yield(e)
}

func (e *DumpEntry) frame(fi segment.FrameInfo) {
	e.field("codec", fi.Codec)
	e.field("stored", fi.Stored)
	e.field("raw", len(fi.Raw))
	if fi.Family != 0 {
		e.field("family", fi.Family)
	}
	if fi.Err != nil {
		e.Error = fi.Err.Error()
		return
	}
	switch fi.Kind {
	case "directory":
		p, err := index.DecodePage(fi.Directory)
		if err != nil {
			e.Error = err.Error()
			return
		}
		e.page(p)
		for _, v := range fi.Values {
			how := ""
			if v.Encoding == segment.ReversePatch {
				how = ", a patch against " + refText(index.Ref{LSN: v.Base.LSN, Ord: v.Base.Ord})
			}
			e.line(0, "value %s: %d bytes at %d in the block at %d%s", refText(index.Ref{LSN: v.LSN, Ord: v.Ord}), v.Len, v.Inner, v.Off, how)
		}
	case "tombstones":
		memos, err := engine.DecodeTombstones(fi.Raw)
		if err != nil {
			e.Error = err.Error()
			return
		}
		for _, m := range memos {
			e.line(0, "dropped %s by record %d at %s, %d bytes remembered", threadLabel(m.ID), m.LSN, time.UnixMicro(m.At).UTC().Format(time.RFC3339), len(m.Data))
		}
	}
}

// page explains a page of a family's directory.
func (e *DumpEntry) page(p *index.Page) {
	for i := range p.Partitions {
		t := &p.Partitions[i]
		_, kind := SplitThread(t.ID)
		e.line(0, "%s born %d, updated %s, flags %#x, %d entries", threadLabel(t.ID), t.Birth,
			time.UnixMicro(t.Updated).UTC().Format(time.RFC3339), t.Flags, len(t.Entries))
		for _, it := range t.Entries {
			what := ""
			if it.Deleted() {
				what = ", deleted"
			}
			e.line(1, "%s, record %d%s", entryName(kind, it.Key), it.LSN, what)
			for j, s := range it.Slots.All() {
				e.line(2, "%s: %s", slotText(kind, it.Key, j, s.Name, s.Tag), refText(s.Ref))
			}
		}
	}
	for _, v := range p.Values {
		e.line(0, "value %s: %d bytes at %d of file %s", refText(v.Ref), v.Loc.Len, v.Loc.Off, v.Loc.File)
	}
}

func (d *dumper) image() error {
	im, err := snapshot.OpenImage(d.f, d.name, d.size, snapshot.WithKeyring(d.keys()))
	if err != nil {
		_, err = d.head(err)
		return err
	}
	h := im.Header()
	if ok, err := d.head(nil, Field{"file", base.ImageFile.Name(h.Num)}, Field{"store", hexID(h.StoreID)}, Field{"lsn", h.LSN},
		Field{"full", h.Full}, Field{"prev", h.PrevNum}, Field{"salt", hexID(h.Salt)}); !ok {
		return err
	}
	tables, err := imageLines(im)
	if err != nil && !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	end := int64(fileHeader)
	err = im.Inspect(func(fr snapshot.ImageFrame) error {
		end = fr.Offset + fr.Size
		e := DumpEntry{Offset: fr.Offset, Size: fr.Size, Kind: fr.Type}
		if fr.Err != nil {
			e.fail(fr.Err)
			return d.yield(e)
		}
		e.field("codec", fr.Codec)
		e.field("raw", len(fr.Raw))
		if fr.Type == "page" {
			p, err := index.DecodePage(fr.Raw)
			if err != nil {
				e.Error = err.Error()
			} else {
				e.page(p)
			}
			return d.yield(e)
		}
		if fr.Count > 0 {
			e.field("entries", fr.Count)
		}
		e.list(fr)
		n := min(int(fr.Count), len(tables[fr.Type]))
		e.Lines, tables[fr.Type] = append(e.Lines, tables[fr.Type][:n]...), tables[fr.Type][n:]
		return d.yield(e)
	})
	if err != nil {
		return err
	}
	return d.yield(DumpEntry{Offset: end, Size: d.size - end, Kind: "tail"})
}

// list adds the places of the frames that a list frame refers to.
func (e *DumpEntry) list(fr snapshot.ImageFrame) {
	for _, s := range fr.List {
		first := threadLabel(s.First)
		if fr.Type == "family list" && len(s.First) == 8 {
			first = fmt.Sprintf("family %d", binary.BigEndian.Uint64([]byte(s.First)))
		}
		e.line(0, "from %s on: %d entries in the frame at %d", first, s.N, s.Off)
	}
}

// imageLines are the entries of the tables of an image, one line each, by table.
func imageLines(im *snapshot.Image) (map[string][]Line, error) {
	out := map[string][]Line{}
	add := func(table, format string, args ...any) {
		e := DumpEntry{}
		e.line(0, format, args...)
		out[table] = append(out[table], e.Lines...)
	}
	err := im.Table(snapshot.Visitor{
		Partition: func(t snapshot.ImagePartition) error {
			if t.Deleted {
				add("threads", "%s deleted", threadLabel(t.ID))
				return nil
			}
			_, kind := SplitThread(t.ID)
			head := "no head"
			if t.Head != "" {
				head = "head " + entryName(kind, t.Head)
			}
			add("threads", "%s family %d, born %d, record %d, %s, flags %#x", threadLabel(t.ID), t.Family, t.Birth, t.LSN, head, t.Flags)
			return nil
		},
		Family: func(f snapshot.ImageFamily) error {
			parts := ""
			for _, p := range f.Parts {
				parts += " " + p.File.String() + "@" + strconv.FormatUint(p.Off, 10)
			}
			add("families", "family %d: pages%s", f.ID, parts)
			return nil
		},
		RemovedFamily: func(id uint64) error { add("removed families", "family %d", id); return nil },
		Tombstone: func(m snapshot.Tombstone) error {
			add("memos", "%s dropped by record %d, %d bytes remembered", threadLabel(m.ID), m.LSN, len(m.Data))
			return nil
		},
		RemovedTombstone: func(id string) error { add("removed memos", "%s", threadLabel(id)); return nil },
	})
	return out, err
}
