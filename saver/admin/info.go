package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine/check"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
)

// Info describes a store without reading its data.
type Info struct {
	Dir           string            `json:"dir"`
	StoreID       string            `json:"store_id"`
	FormatVersion uint32            `json:"format_version"`
	Created       time.Time         `json:"created"`
	Manifest      string            `json:"manifest"`
	Options       map[string]string `json:"options,omitempty"`
	Clean         bool              `json:"clean"`       // closed, and not opened for writing since
	LastWriter    string            `json:"last_writer"` // the last process that opened it for writing, in its own words
	LastLSN       uint64            `json:"last_lsn"`
	FloorLSN      uint64            `json:"floor_lsn"` // records below it are in segments
	Held          bool              `json:"held"`      // it was restored, and not released: see disk.Saver.Release
	Files         []FileInfo        `json:"files"`
	Bytes         int64             `json:"bytes"`
	Open          OpenInfo          `json:"open"`
}

// FileInfo is one file that the manifest names, or the manifest itself.
type FileInfo struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"` // "manifest", "log", "segment", "image"
	Size    int64  `json:"size"`
	MinLSN  uint64 `json:"min_lsn,omitempty"` // log: of the first record; segment: of a value
	MaxLSN  uint64 `json:"max_lsn,omitempty"` // segment: of a value; image: all up to it
	Raw     int64  `json:"raw_bytes,omitempty"`
	Values  uint64 `json:"values,omitempty"`
	Missing bool   `json:"missing,omitempty"`
}

// OpenInfo says what the next open for writing has to do.
type OpenInfo struct {
	Replayed      int       `json:"replayed"` // records
	IndexRebuilt  bool      `json:"index_rebuilt"`
	RebuildReason string    `json:"rebuild_reason,omitempty"`
	Damage        []Finding `json:"damage,omitempty"` // what the open ignored
	TookNS        int64     `json:"took_ns"`
}

// Describe describes a store. It does not take the lock, and ignores damage.
func Describe(dir string, a Access) (*Info, error) {
	a, done, err := a.in(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	held, err := vfs.Hold(a.fs(), dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = held.Close() }() // only read from
	// The open below tells the damage.
	m, err := check.Capture(vfs.PastUnreadable(held, func(string) bool { return true }, func(error) {}), dir, a.Options.Keys)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	st := m.State
	info := &Info{Dir: dir, StoreID: hexID(st.StoreID), FormatVersion: st.FormatVersion, Created: time.UnixMicro(st.Created).UTC(),
		Manifest: m.Manifest, Options: st.Options, Clean: st.Clean != nil, FloorLSN: uint64(st.FloorLSN), LastWriter: lastWriter(a, dir)}
	if err := info.files(dir, m); err != nil {
		return nil, err
	}
	d, err := a.Open(dir, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // read-only
	rep := d.OpenReport()
	info.LastLSN = uint64(d.Stats().LastLSN)
	info.Held = d.Inside().Engine.HeldUpTo(layout.ReleasePartition) > 0
	info.Open = OpenInfo{Replayed: rep.Replayed, IndexRebuilt: rep.IndexRebuilt, RebuildReason: rep.RebuildReason, TookNS: int64(rep.Took)}
	for _, err := range rep.Damage {
		info.Open.Damage = append(info.Open.Damage, findingOf(err))
	}
	return info, nil
}

// lastWriter is the text of the lock file, for people; "" if it cannot be read.
func lastWriter(a Access, dir string) string {
	b, err := readSome(a.fs(), filepath.Join(dir, "LOCK"), 256)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.TrimRight(string(b), "\x00"))
}

// readSome reads at most the first n bytes of a file.
func readSome(fsys vfs.FS, name string, n int) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	b := make([]byte, n)
	got, err := f.ReadAt(b, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return b[:got], err
}

func (info *Info) files(dir string, m *check.Captured) error {
	if m.Manifest != "" {
		info.add(FileInfo{Name: m.Manifest, Kind: "manifest", Size: int64(len(m.Raw))})
	}
	for _, l := range m.State.Logs {
		info.add(FileInfo{Name: base.LogFile.Name(l.Num), Kind: "log", MinLSN: uint64(l.BaseLSN)})
	}
	for _, s := range m.State.Segments {
		info.add(FileInfo{Name: base.SegmentFile.Name(s.Num), Kind: "segment", MinLSN: uint64(s.MinLSN), MaxLSN: uint64(s.MaxLSN), Raw: s.Raw, Values: s.Values})
	}
	for _, im := range m.State.Images {
		info.add(FileInfo{Name: base.ImageFile.Name(im.Num), Kind: "image", MaxLSN: uint64(im.LSN)})
	}
	for i := range info.Files {
		f := &info.Files[i]
		if f.Kind != "manifest" {
			h, err := m.FS.Open(filepath.Join(dir, f.Name))
			if err != nil {
				f.Missing = true
				continue
			}
			if f.Size, err = h.Size(); err != nil {
				return err
			}
		}
		info.Bytes += f.Size
	}
	return nil
}

func (info *Info) add(f FileInfo) { info.Files = append(info.Files, f) }

// StoreStats are the figures of a store, for people and for monitoring.
type StoreStats struct {
	Dir          string  `json:"dir"`
	Threads      int     `json:"threads"`
	Waiting      int     `json:"waiting"`    // threads at a question or a breakpoint
	Sleeping     int     `json:"sleeping"`   // threads that wait for an instant or a signal, and ask nobody
	Failed       int     `json:"failed"`     // threads whose last run failed
	Unfinished   int     `json:"unfinished"` // threads whose run is under way, or ended early
	Runs         int     `json:"runs"`
	Other        int     `json:"other"` // partitions of another kind
	LastLSN      uint64  `json:"last_lsn"`
	LogFiles     int     `json:"log_files"`
	LogBytes     int64   `json:"log_bytes"`
	Segments     int     `json:"segments"`
	SegmentBytes int64   `json:"segment_bytes"`
	RawBytes     int64   `json:"raw_bytes"` // of the values in segments
	Ratio        float64 `json:"ratio"`     // raw bytes by segment bytes; 0 without segments
	Images       int     `json:"images"`
	ImageBytes   int64   `json:"image_bytes"`
	Bytes        int64   `json:"bytes"`      // of all files
	FreeBytes    int64   `json:"free_bytes"` // of the device
	ReplayedNext int     `json:"replayed"`   // records that an open replays
}

// Stats counts what a store holds. It reads no page and no value.
func Stats(dir string, a Access) (*StoreStats, error) {
	a, done, err := a.in(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	info, err := Describe(dir, a)
	if err != nil {
		return nil, err
	}
	s := &StoreStats{Dir: dir, LastLSN: info.LastLSN, Bytes: info.Bytes, ReplayedNext: info.Open.Replayed}
	for _, f := range info.Files {
		switch f.Kind {
		case "log":
			s.LogFiles++
			s.LogBytes += f.Size
		case "segment":
			s.Segments++
			s.SegmentBytes += f.Size
			s.RawBytes += f.Raw
		case "image":
			s.Images++
			s.ImageBytes += f.Size
		}
	}
	if s.SegmentBytes > 0 {
		s.Ratio = float64(s.RawBytes) / float64(s.SegmentBytes)
	}
	d, err := a.Open(dir, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // read-only
	s.Threads, s.Runs, s.Other, err = countKinds(context.Background(), d, func(t ThreadRow) {
		switch t.Status {
		case saver.StatusWaiting:
			s.Waiting++
		case saver.StatusSleeping:
			s.Sleeping++
		case saver.StatusFailed:
			s.Failed++
		case saver.StatusUnfinished:
			s.Unfinished++
		}
	})
	if err != nil {
		return nil, err
	}
	if s.FreeBytes, err = a.fs().FreeSpace(dir); err != nil {
		return nil, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return s, nil
}

// countKinds counts what a store keeps, and calls seen with each thread of LangGraph's.
func countKinds(ctx context.Context, d *disk.Saver, seen func(ThreadRow)) (threadCount, runs, other int, err error) {
	for t, err := range threads(ctx, d, ThreadQuery{All: true}, false) {
		if err != nil {
			return 0, 0, 0, err
		}
		switch t.Kind {
		case "thread":
			threadCount++
			seen(t)
		case "run":
			runs++
		default:
			other++
		}
	}
	return threadCount, runs, other, nil
}
