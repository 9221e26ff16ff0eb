package check

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Captured is a store at one moment, as somebody without its lock sees it: the bytes of its
// manifest, and every file that the manifest names, held open. A writer may remove the
// files meanwhile. Release it.
type Captured struct {
	// FS shows the files of the store and no others.
	FS *vfs.Captured
	// State is the state that the manifest describes. With ManifestErr it is the zero State, and FS
	// holds all files that have the name of a store's file.
	State    snapshot.State
	Manifest string // name of the manifest file
	Raw      []byte // its bytes
	// ManifestErr is the damage of the manifest, or that there is none though other
	// files of a store are there.
	ManifestErr error
	// Mark says how far the log was durable. It was read before anything else.
	Mark wal.Mark
	// Missing are the files that the manifest names and that are not there, or that the device cannot open.
	Missing []string

	keys       *seal.Keys
	unreadable *unreadable // nil: a block that cannot be read is an error
}

// Keys are the keys of the store; nil without encryption.
func (s *Captured) Keys() *seal.Keys { return s.keys }

// Keyring has the keys for the files of the store; nil without encryption.
func (s *Captured) Keyring() *seal.Keyring {
	return s.keys.Keyring(s.State.StoreID, s.State.PlainBelow())
}

// newCaptured returns a Captured without files.
func newCaptured(dir string, keys seal.KeyProvider) *Captured {
	return &Captured{FS: vfs.NewCaptured(dir), keys: seal.New(keys, nil)}
}

// retries is how often Capture starts again when a file that the manifest names is gone.
const retries = 16

// Capture opens what makes up the store in dir, without a lock and without
// writing. Errors: fault.ErrNotStore for a directory that holds nothing of a store,
// fault.VersionError for a store of a newer format, and those of the system. Without keys,
// which may be nil, only a store without encryption can be looked at.
func Capture(fsys vfs.FS, dir string, keys seal.KeyProvider) (*Captured, error) {
	d, err := Hold(fsys, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // its files are open
	var last *Captured
	for range retries {
		s, err := tryCapture(d, dir, keys)
		if err != nil {
			last.Release()
			return nil, err
		}
		stuck := last != nil && bytes.Equal(last.Raw, s.Raw)
		last.Release()
		if len(s.Missing) == 0 || stuck {
			return s, nil // complete, or nobody moves on: the files are lost
		}
		last = s
	}
	return last, nil
}

// Release closes the files. It may be called on nil and twice.
func (s *Captured) Release() {
	if s != nil {
		_ = s.FS.Release() // only read from
	}
}

// tryCapture is one attempt of Capture.
func tryCapture(fsys vfs.FS, dir string, keys seal.KeyProvider) (*Captured, error) {
	s := newCaptured(dir, keys)
	var err error
	if s.Mark, err = wal.ReadMark(fsys, dir); err != nil {
		return nil, err
	}
	st, rep, raw, err := snapshot.LoadRaw(fsys, dir, snapshot.WithKeys(s.keys))
	s.Manifest, s.Raw = rep.File, raw
	switch {
	case err == nil:
		s.State = st
		s.FS.KeepBytes(rep.File, raw)
		return s, s.keep(fsys, engine.FileNames(st))
	case errors.Is(err, fault.ErrCorrupt) && raw != nil:
		s.FS.KeepBytes(rep.File, raw)
	case errors.Is(err, fault.ErrCorrupt):
	case errors.Is(err, snapshot.ErrNoManifest):
		err = &fault.CorruptionError{File: "MANIFEST", Kind: "manifest", Offset: -1, Detail: "missing", Err: err}
	default:
		return nil, err
	}
	s.ManifestErr = err
	names, lerr := fsys.List(dir)
	if lerr != nil && !errors.Is(lerr, fs.ErrNotExist) {
		return nil, lerr
	}
	var own []string
	for _, n := range names {
		if _, ok := engine.FileNumber(n); ok {
			own = append(own, n)
		}
	}
	if len(own) == 0 && s.Raw == nil {
		return nil, fmt.Errorf("%s: %w", dir, fault.ErrNotStore)
	}
	return s, s.keep(fsys, own)
}

// keep opens files, and adds those that are not there, or that cannot be opened, to Missing.
func (s *Captured) keep(fsys vfs.FS, names []string) error {
	for _, n := range names {
		err := s.FS.Keep(fsys, n)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fault.ErrCorrupt):
			s.Missing = append(s.Missing, n)
		case err != nil:
			s.Release()
			return fmt.Errorf("open %s: %w", n, err)
		}
	}
	return nil
}

// Manifest decodes a manifest that is in no directory, and returns the keys of its store.
func Manifest(manifest []byte, keys seal.KeyProvider) (snapshot.State, *seal.Keyring, error) {
	s := newCaptured("", keys)
	s.FS.KeepBytes(snapshot.ManifestName(1), manifest)
	st, _, err := snapshot.Load(s.FS, "", snapshot.WithKeys(s.keys))
	s.State = st
	return st, s.Keyring(), err
}

// Assemble makes a Captured of files in dir and the bytes of a manifest that is not in dir: a store
// before it is published.
func Assemble(fsys vfs.FS, dir string, manifest []byte, keys seal.KeyProvider) (*Captured, error) {
	s := newCaptured(dir, keys)
	s.Manifest, s.Raw = snapshot.ManifestName(1), manifest
	s.FS.KeepBytes(s.Manifest, manifest)
	st, _, err := snapshot.Load(s.FS, dir, snapshot.WithKeys(s.keys))
	if err != nil {
		return nil, err
	}
	s.State = st
	if err := s.keep(fsys, engine.FileNames(st)); err != nil {
		return nil, err
	}
	if len(s.Missing) > 0 {
		s.Release()
		return nil, &fault.CorruptionError{File: s.Missing[0], Kind: "file", Offset: -1, Detail: "the manifest names it, and it is missing"}
	}
	return s, nil
}

// LogOptions returns the options to read the whole log, from its first file on.
func (s *Captured) LogOptions(dir string) wal.RecoverOptions {
	o := wal.RecoverOptions{FS: s.FS, Dir: dir, Files: s.State.LogNums(), ReadOnly: true, Keys: s.Keyring()}
	if s.ManifestErr != nil {
		o.Files = nil // it is found by its own links
		return o      // the mark says nothing of what segments have
	}
	o.Origin, o.Mark, o.Salts = s.State.StoreID, s.Mark, s.State.LogSalts()
	if len(s.State.Logs) == 0 {
		o.FromLSN = s.State.FloorLSN // a flush took the last file: segments have it all
		return o
	}
	if s.State.Clean != nil {
		o.DurableLSN = s.State.Clean.LSN
	}
	if n := len(s.State.Images); n > 0 {
		o.DurableLSN = max(o.DurableLSN, s.State.Images[n-1].LSN)
	}
	return o
}

// Hold holds the directory of a store that is only looked at. One that does not
// exist is no store.
func Hold(fsys vfs.FS, dir string) (vfs.Dir, error) {
	d, err := vfs.Hold(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", fault.ErrNotStore, err)
	}
	return d, err
}
