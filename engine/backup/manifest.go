package backup

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// Name is the file that lists what a backup holds.
const Name = "BACKUP"

// FormatVersion is the format version this build writes, and the newest it reads.
const FormatVersion = 1

const (
	magic      = "stele-backup"
	tempSuffix = ".tmp"
	// maxManifest bounds the size of the list, and so how much a reader allocates.
	maxManifest = 64 << 20
)

// Manifest lists what a backup holds.
type Manifest struct {
	StoreID uint64    `json:"store_id"`
	Created time.Time `json:"created"` // when the backup was made, UTC
	LSN     base.LSN  `json:"lsn"`     // last record in it
	// State is the manifest of the store as it was, a whole manifest file.
	State []byte `json:"state"`
	Files []File `json:"files"`
}

// File is one file of a backup.
type File struct {
	Name   string `json:"name"`   // in the store
	Stored string `json:"stored"` // in the backup
	Size   int64  `json:"size"`
	Sum    string `json:"xxh64"` // of its bytes, seed 0, 16 hex digits
}

// Encode returns the bytes of the list: a line with magic, format version and
// checksum, then JSON.
func (m *Manifest) Encode() ([]byte, error) {
	body, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	body = append(body, '\n')
	if len(body) > maxManifest-64 {
		return nil, fmt.Errorf("backup of %d files: %w", len(m.Files), fault.ErrTooLarge)
	}
	prefix := fmt.Sprintf("%s %d ", magic, FormatVersion)
	line := fmt.Sprintf("%s%016x\n", prefix, base.ChecksumParts(0, []byte(prefix), body))
	return append([]byte(line), body...), nil
}

// Decode reads what Encode wrote. Any input gives a list or an error: a
// *fault.CorruptionError, or a *fault.VersionError for a newer format.
func Decode(b []byte) (*Manifest, error) {
	bad := func(off int64, detail string, err error) error {
		return &fault.CorruptionError{File: Name, Kind: "backup list", Offset: off, Detail: detail, Err: err}
	}
	if len(b) > maxManifest {
		return nil, bad(-1, "larger than any backup list", nil)
	}
	line, body, ok := bytes.Cut(b, []byte("\n"))
	fields := strings.Split(string(line[:min(len(line), 128)]), " ")
	if !ok || len(fields) != 3 || fields[0] != magic {
		return nil, bad(0, "wrong magic", nil)
	}
	version, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil || version == 0 || strconv.FormatUint(version, 10) != fields[1] {
		return nil, bad(0, "format version "+strconv.Quote(fields[1]), nil)
	}
	sum, err := hex.DecodeString(fields[2])
	if err != nil || len(sum) != 8 || hex.EncodeToString(sum) != fields[2] {
		return nil, bad(0, "checksum is malformed", nil)
	}
	prefix := line[:len(magic)+1+len(fields[1])+1]
	if fmt.Sprintf("%016x", base.ChecksumParts(0, prefix, body)) != fields[2] {
		return nil, bad(0, "checksum mismatch", nil)
	}
	if version != FormatVersion {
		return nil, &fault.VersionError{File: Name, Have: uint32(version), Supported: FormatVersion}
	}
	m := &Manifest{}
	if err := json.Unmarshal(body, m); err != nil {
		return nil, bad(int64(len(line)+1), "not the JSON it should be", err)
	}
	if err := m.check(); err != nil {
		return nil, bad(int64(len(line)+1), "", err)
	}
	return m, nil
}

// check tests the rules of a list: names are those of files of a store, once each,
// so that nothing can be written elsewhere.
func (m *Manifest) check() error {
	seen := map[string]bool{}
	for _, f := range m.Files {
		if !isStoreFile(f.Name) || seen[f.Name] {
			return fmt.Errorf("file %q", f.Name)
		}
		if !isStored(f.Stored) || seen[f.Stored] {
			return fmt.Errorf("stored file %q", f.Stored)
		}
		if sum, err := hex.DecodeString(f.Sum); err != nil || len(sum) != 8 || f.Size < 0 {
			return fmt.Errorf("file %q: size %d, checksum %q", f.Name, f.Size, f.Sum)
		}
		seen[f.Name], seen[f.Stored] = true, true
	}
	return nil
}

func isStoreFile(name string) bool {
	for _, parse := range []func(string) (base.FileNum, bool){base.LogFile.Parse, base.SegmentFile.Parse, base.ImageFile.Parse} {
		if _, ok := parse(name); ok {
			return true
		}
	}
	return false
}

// storedName is the name of a file in a backup. Number, salt and size say which
// bytes they are: a file number is used once in a store, but a store that was
// restored hands out the same numbers as the one it is a copy of, with other salts.
func storedName(num base.FileNum, salt uint64, size int64, ext string) string {
	return fmt.Sprintf("%s-%016x-%d%s", num, salt, size, ext)
}

func isStored(name string) bool {
	ext := filepath.Ext(name)
	parts := strings.Split(strings.TrimSuffix(name, ext), "-")
	if len(parts) != 3 || ext != ".log" && ext != ".seg" && ext != ".img" {
		return false
	}
	num, err1 := strconv.ParseUint(parts[0], 10, 64)
	salt, err2 := strconv.ParseUint(parts[1], 16, 64)
	size, err3 := strconv.ParseInt(parts[2], 10, 64)
	return errors.Join(err1, err2, err3) == nil && storedName(base.FileNum(num), salt, size, ext) == name
}

// Read reads the list of the backup in dir. A directory without one is
// fault.ErrNotStore.
func Read(fsys vfs.FS, dir string) (*Manifest, error) {
	d, err := holdBackup(fsys, dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }() // only read from
	return readList(d, dir)
}

// holdBackup holds the directory of a backup. One that does not exist is reported as holding no backup.
func holdBackup(fsys vfs.FS, dir string) (vfs.Dir, error) {
	d, err := vfs.Hold(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noBackup(dir)
	}
	return d, err
}

func noBackup(dir string) error {
	return fmt.Errorf("%s holds no backup (no file %s): %w", dir, Name, fault.ErrNotStore)
}

// readList is Read in a directory that is held.
func readList(fsys vfs.Dir, dir string) (*Manifest, error) {
	f, err := fsys.Open(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noBackup(dir)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > maxManifest {
		return nil, &fault.CorruptionError{File: Name, Kind: "backup list", Offset: -1, Detail: "larger than any backup list"}
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		return nil, err
	}
	return Decode(b)
}

// publish replaces the list, in one step.
func (m *Manifest) publish(fsys vfs.FS, dir string) error {
	b, err := m.Encode()
	if err != nil {
		return err
	}
	temp := filepath.Join(dir, Name+tempSuffix)
	if err := removeIfThere(fsys, temp); err != nil {
		return err
	}
	f, err := fsys.Create(temp)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fsys.Rename(temp, filepath.Join(dir, Name))
	}
	if err == nil {
		err = fsys.SyncDir(dir)
	}
	return err
}

func removeIfThere(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
