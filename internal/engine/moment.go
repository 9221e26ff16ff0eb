package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/seal"
	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Moment is a store at one moment, as somebody without its lock sees it: the bytes
// of its manifest and every file that names, held open, so that a writer beside it
// may remove what it likes. Release it.
type Moment struct {
	// FS shows the files of the moment and no others.
	FS *vfs.Moment
	// State is what the manifest says. With ManifestErr it is the zero State, and FS
	// holds whatever files of a store's naming there are.
	State    snapshot.State
	Manifest string // name of the manifest file
	Raw      []byte // its bytes
	// ManifestErr is the damage of the manifest, or that there is none though other
	// files of a store are there.
	ManifestErr error
	// Mark says how far the log was durable, read before anything else.
	Mark wal.Mark
	// Missing are the files that the manifest names and that are not there.
	Missing []string

	keys *seal.Keys
}

// MomentOption changes how a moment is taken.
type MomentOption func(*Moment)

// MomentKeys gives the keys of the store; without it, or with nil, only a store
// without encryption can be looked at.
func MomentKeys(p seal.KeyProvider) MomentOption {
	return func(m *Moment) { m.keys = seal.New(p, nil) }
}

// Keys are those for the files of the moment; nil without encryption.
func (m *Moment) Keys() *seal.Keyring {
	return m.keys.Keyring(m.State.StoreID, m.State.PlainBelow())
}

func newMoment(dir string, opts []MomentOption) *Moment {
	m := &Moment{FS: vfs.NewMoment(dir)}
	for _, o := range opts {
		o(m)
	}
	return m
}

// TakeMoment opens what makes up the store in dir, without a lock and without
// writing. Errors: fault.ErrNotStore for a directory that holds nothing of a store,
// fault.VersionError for a store of a newer format, and those of the system.
func TakeMoment(fsys vfs.FS, dir string, opts ...MomentOption) (*Moment, error) {
	d, err := holdStore(fsys, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // its files are open
	var last *Moment
	for range readerRetries {
		m, err := tryMoment(d, dir, opts)
		if err != nil {
			last.Release()
			return nil, err
		}
		stuck := last != nil && bytes.Equal(last.Raw, m.Raw)
		last.Release()
		if len(m.Missing) == 0 || stuck {
			return m, nil // complete, or nobody moves on: the files are lost
		}
		last = m
	}
	return last, nil
}

// Release closes the files. It may be called on nil and twice.
func (m *Moment) Release() {
	if m != nil {
		_ = m.FS.Release() // only read from
	}
}

func tryMoment(fsys vfs.FS, dir string, opts []MomentOption) (*Moment, error) {
	m := newMoment(dir, opts)
	var err error
	if m.Mark, err = wal.ReadMark(fsys, dir); err != nil {
		return nil, err
	}
	st, rep, raw, err := snapshot.LoadRaw(fsys, dir, snapshot.WithKeys(m.keys))
	m.Manifest, m.Raw = rep.File, raw
	switch {
	case err == nil:
		m.State = st
		m.FS.KeepBytes(rep.File, raw)
		return m, m.keep(fsys, namesOf(st))
	case errors.Is(err, fault.ErrCorrupt) && raw != nil:
		m.FS.KeepBytes(rep.File, raw)
	case errors.Is(err, fault.ErrCorrupt):
	case errors.Is(err, snapshot.ErrNoManifest):
		err = &fault.CorruptionError{File: "MANIFEST", Kind: "manifest", Offset: -1, Detail: "missing", Err: err}
	default:
		return nil, err
	}
	m.ManifestErr = err
	names, lerr := fsys.List(dir)
	if lerr != nil && !errors.Is(lerr, fs.ErrNotExist) {
		return nil, lerr
	}
	var own []string
	for _, n := range names {
		if _, ok := ownNumber(n); ok {
			own = append(own, n)
		}
	}
	if len(own) == 0 && m.Raw == nil {
		return nil, fmt.Errorf("%s: %w", dir, fault.ErrNotStore)
	}
	return m, m.keep(fsys, own)
}

// keep opens files, and notes those that are not there.
func (m *Moment) keep(fsys vfs.FS, names []string) error {
	for _, n := range names {
		err := m.FS.Keep(fsys, n)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			m.Missing = append(m.Missing, n)
		case err != nil:
			m.Release()
			return fmt.Errorf("open %s: %w", n, err)
		}
	}
	return nil
}

// namesOf are the names of the files of a state: segments, images, log files.
func namesOf(st snapshot.State) []string {
	var names []string
	for _, s := range st.Segments {
		names = append(names, segment.FileName(s.Num))
	}
	for _, im := range st.Images {
		names = append(names, snapshot.ImageName(im.Num))
	}
	for _, l := range st.Logs {
		names = append(names, wal.FileName(l.Num))
	}
	return names
}

// MomentOf puts a moment together of files in dir and of the bytes of a manifest that
// is not there: a store before it is published.
func MomentOf(fsys vfs.FS, dir string, manifest []byte, opts ...MomentOption) (*Moment, error) {
	m := newMoment(dir, opts)
	m.Manifest, m.Raw = snapshot.ManifestName(1), manifest
	m.FS.KeepBytes(m.Manifest, manifest)
	st, _, err := snapshot.Load(m.FS, dir, snapshot.WithKeys(m.keys))
	if err != nil {
		return nil, err
	}
	m.State = st
	if err := m.keep(fsys, namesOf(st)); err != nil {
		return nil, err
	}
	if len(m.Missing) > 0 {
		m.Release()
		return nil, &fault.CorruptionError{File: m.Missing[0], Kind: "file", Offset: -1, Detail: "the manifest names it, and it is missing"}
	}
	return m, nil
}

// MomentLog says how to read the whole log of a moment, from its first file on.
func MomentLog(dir string, m *Moment) wal.RecoverOptions {
	o := wal.RecoverOptions{FS: m.FS, Dir: dir, Files: logNums(m.State), ReadOnly: true, Keys: m.Keys()}
	if m.ManifestErr != nil {
		o.Files = nil // it is found by its own links
		return o      // the mark says nothing of what segments have
	}
	o.Origin, o.Mark, o.Salts = m.State.StoreID, m.Mark, logSalts(m.State)
	if len(m.State.Logs) == 0 {
		o.FromLSN = m.State.FloorLSN // a flush took the last file: segments have it all
		return o
	}
	if m.State.Clean != nil {
		o.DurableLSN = m.State.Clean.LSN
	}
	if n := len(m.State.Images); n > 0 {
		o.DurableLSN = max(o.DurableLSN, m.State.Images[n-1].LSN)
	}
	return o
}

// OpenSegment opens a segment as a store with these options does. The caller keeps f.
// keys are those of the moment the file is of.
func OpenSegment(f vfs.File, name string, size int64, keys *seal.Keyring) (*segment.Reader, error) {
	return segment.Open(f, name, size, segment.WithKeys(keys))
}
