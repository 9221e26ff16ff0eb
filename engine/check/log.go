package check

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"

	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// logs reads the log from its first file on, whatever the images cover, and then
// every file on its own, for the bytes that belong to no frame.
func (v *verifier) logs() error {
	o := v.m.LogOptions(v.dir)
	o.AllowDamage = true
	o.Keys = v.e.Files.Keys // also where the manifest is lost
	before := v.rep.Bytes
	rec, err := wal.Recover(o, func(en wal.Entry) error {
		v.rep.Records++
		if v.rep.Records%1024 == 0 {
			v.tell("log", base.LogFile.Name(en.File), before)
		}
		if _, err := engine.DecodeRecord(en.Payload); err != nil {
			c := &fault.CorruptionError{File: base.LogFile.Name(en.File), Kind: "record", Offset: en.Offset, Len: int64(len(en.Payload)), Err: err}
			if err := v.note(c, false); err != nil {
				return err
			}
		}
		return v.ctx.Err()
	})
	if err != nil {
		return v.note(err, false)
	}
	for _, d := range rec.Damage {
		if err := v.note(d, false); err != nil {
			return err
		}
	}
	for _, f := range rec.Files {
		i := slices.IndexFunc(v.st.Logs, func(l snapshot.LogInfo) bool { return l.Num == f.Num })
		if v.m.ManifestErr == nil && i >= 0 && v.st.Logs[i].BaseLSN != f.BaseLSN {
			v.add(Finding{File: base.LogFile.Name(f.Num), Kind: "log file header",
				Detail: fmt.Sprintf("it begins with record %d, the manifest says %d", f.BaseLSN, v.st.Logs[i].BaseLSN)})
		}
	}
	for i, l := range v.st.Logs {
		if err := v.logFile(l.Num, i == len(v.st.Logs)-1); err != nil {
			return err
		}
	}
	return v.durableMark()
}

// durableMark checks the mark of the log. A damaged mark is a notice: the mark is only a lower bound,
// and nothing is lost with it.
func (v *verifier) durableMark() error {
	f, err := v.fsys.Open(filepath.Join(v.dir, wal.MarkName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return v.note(err, false)
	}
	defer func() { _ = f.Close() }() // only read from
	_, notes, err := wal.InspectMark(f)
	if len(notes) > 0 { // a writer may have been between two of its bytes
		_, notes, err = wal.InspectMark(f)
	}
	if err != nil {
		return v.note(err, false)
	}
	for _, n := range notes {
		v.add(Finding{File: n.File, Offset: n.Offset, Len: n.Len, Kind: n.Kind, Detail: n.Detail, Notice: true})
	}
	if m := v.m.Mark; v.m.ManifestErr == nil && m.Origin != 0 && m.Origin != v.st.StoreID {
		v.add(Finding{File: wal.MarkName, Offset: -1, Kind: "durable mark", Detail: "it is that of another store, and does not count", Notice: true})
	}
	return nil
}

// logFile looks for bytes of a log file that are no frame. Recover has reported damage before the end
// of the log. Other such bytes are a torn tail, in the newest file or in one that a later Open cut;
// behind the end that a clean close noted they are damage.
func (v *verifier) logFile(num base.FileNum, newest bool) error {
	name := base.LogFile.Name(num)
	f, err := v.m.FS.Open(filepath.Join(v.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // missing, and noted
	}
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	clean := newest && v.st.Clean != nil && v.st.Clean.LogNum == num
	_, err = wal.Inspect(f, name, func(p wal.Piece) error {
		if !p.Valid() && p.Used > 0 && !v.covered(name, p) {
			detail := "bytes that are no frame and do not count: a torn tail, or a writer at work"
			if clean {
				detail = "bytes that are no frame, though the store was closed in order"
			}
			v.add(Finding{File: name, Offset: p.Offset, Len: p.Used, Kind: "log", Detail: detail, Notice: !clean})
		}
		return v.ctx.Err()
	})
	v.rep.Bytes += size
	v.tell("log", name, v.rep.Bytes)
	if clean && size < v.st.Clean.LogEnd {
		v.add(Finding{File: name, Offset: size, Kind: "log",
			Detail: fmt.Sprintf("the file ends here, and ended at %d when the store was closed", v.st.Clean.LogEnd)})
	}
	return v.note(err, false)
}

// covered reports whether damage found in a log file lies in a piece of it.
func (v *verifier) covered(name string, p wal.Piece) bool {
	for i := range v.rep.Findings {
		f := &v.rep.Findings[i]
		if f.File == name && f.Offset >= p.Offset && f.Offset < p.Offset+p.Size {
			return true
		}
	}
	return false
}

// leftovers lists the files in the directory that are not of the store.
func (v *verifier) leftovers() error {
	names, err := v.fsys.List(v.dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		return engine.Beside(n) || n == engine.LockName || n == wal.MarkName || n == v.m.Manifest || v.m.FS.Has(n)
	})
	unnamed := map[string]wal.Unnamed{}
	for _, n := range names {
		if num, isLog := base.LogFile.Parse(n); isLog {
			if unnamed[n], err = wal.Examine(v.fsys, v.dir, num); err != nil && !errors.Is(err, fault.ErrVersion) {
				return err
			}
		}
	}
	// A file that a writer made since the store was captured is no leftover. The manifest names a log
	// file before its first record, and until the floor is above its last, so the manifest is read
	// after the file.
	now, last := map[string]bool{}, v.e.Index.LSN()
	if st, rep, err := snapshot.Load(v.fsys, v.dir, snapshot.WithKeys(v.m.Keys())); err == nil {
		now[rep.File] = true
		for _, n := range engine.FileNames(st) {
			now[n] = true
		}
		last = max(last, st.FloorLSN-1)
	}
	there, err := v.fsys.List(v.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if now[n] || !slices.Contains(there, n) {
			continue
		}
		f := Finding{File: n, Offset: -1, Kind: "file", Detail: "not a file of this store; it is left alone", Notice: true}
		if num, own := engine.FileNumber(n); own && num < v.st.NextFileNum || snapshot.IsManifestName(n) {
			f.Detail = "left by a crash, or being made by a writer; the next open for writing removes leftovers"
		}
		if u := unnamed[n]; !u.Copy && u.LastLSN > last {
			f.Kind, f.Notice = "log", false
			f.Detail = fmt.Sprintf("it holds records up to %d, the log that the manifest names ends with %d; the manifest seems to be an older copy", u.LastLSN, last)
		}
		v.add(f)
	}
	return nil
}
