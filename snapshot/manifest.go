package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// Options are the settings of a manifest writer. The zero value is ready to use.
type Options struct {
	// Rand returns salts and store ids; nil means a generator that the system seeds.
	Rand func() uint64
	// EditRoom is how many bytes a new manifest file has for edits at least; it has more
	// if its complete state is larger. 0 means 4 KiB.
	EditRoom int
	// Keys encrypt the manifest; nil means no encryption. Open then refuses a
	// manifest that is not encrypted, with a *fault.KeyError, unless Adopt is set.
	Keys *seal.Keys
	// NextFileNum raises State.NextFileNum in the file that Open begins, which saves an
	// edit to a caller that is going to need numbers. It has no effect if Open writes
	// nothing.
	NextFileNum base.FileNum
	// Adopt lets Open continue a manifest without encryption in an encrypted one. That
	// one notes that the files there are now are not encrypted; see State.PlainBelow.
	Adopt bool
}

// reading are the options of reading that belong to those of writing.
func (o Options) reading() []ReadOption {
	opts := []ReadOption{WithKeys(o.Keys)}
	if o.Adopt {
		opts = append(opts, AllowPlain())
	}
	return opts
}

func (o Options) withDefaults() Options {
	if o.Rand == nil {
		o.Rand = rand.Uint64
	}
	if o.EditRoom <= 0 {
		o.EditRoom = 4 << 10
	}
	return o
}

// manifestUnit is what the size of a manifest is rounded up to.
const manifestUnit = 4 << 10

// Manifest is the manifest of a store that is open for writing. Its owner holds the lock of the
// store. All methods may be called concurrently. State never waits for the disk.
type Manifest struct {
	fs   vfs.FS
	dir  string
	opts Options

	// cur is the last acknowledged state. The State behind it is never changed.
	cur atomic.Pointer[State]

	// mu guards what follows and orders the edits. It is held during writes and syncs:
	// edits are rare, and their frames must be in their order.
	mu     sync.Mutex
	file   *manifestFile // nil until the first edit, if the file found was closed
	found  listing       // the manifests that Open found; used if file is nil
	cause  error         // first failure after which the file's content is unknown
	closed bool

	poison atomic.Pointer[error] // cause, for Poison, while the manifest is open
}

// manifestFile is the file that edits are appended to. Its size never changes: size-slotsSize
// bytes for header and frames, then the slots.
type manifestFile struct {
	f   vfs.File // nil if it was made and could not be opened; spoilt then
	num base.FileNum
	framer
	size int64
	tail int64 // the place of the next frame
	// synced is the promise: frames up to here survive power loss.
	synced int64
	seq    uint64 // of the last frame
	bytes  []byte // the bytes below tail
	// spoilt: a full disk refused to write over bytes of the file, and what is above tail may be a part of a frame, which is
	// no frame, or a slot is not as it should be. The next edit begins a new file.
	spoilt bool
}

// Create makes the first manifest of a store, MANIFEST-000001, from st. If they are zero, it
// sets FormatVersion, a random StoreID, and a NextFileNum above all numbers in st. When
// Create returns, the file and its name are durable. The caller makes dir itself durable.
//
// It fails with an error that matches fs.ErrExist if dir has a manifest already, and with
// ErrInvalid if st breaks a rule. Nothing was written then.
func Create(fsys vfs.FS, dir string, st State, o Options) (*Manifest, error) {
	l, err := listManifests(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("create manifest in %s: %w", dir, err)
	}
	if len(l.nums) > 0 {
		return nil, fmt.Errorf("create manifest in %s: %s: %w", dir, ManifestName(l.nums[0]), fs.ErrExist)
	}
	m := &Manifest{fs: fsys, dir: dir, opts: o.withDefaults()}
	st = st.Clone()
	if st.FormatVersion == 0 {
		st.FormatVersion = FormatVersion
	}
	for st.StoreID == 0 {
		st.StoreID = m.opts.Rand()
	}
	st.raise(1)
	for _, n := range st.numbers() {
		st.raise(n + 1)
	}
	if err := st.check(); err != nil {
		return nil, fmt.Errorf("create manifest: %w", err)
	}
	if st.FormatVersion > FormatVersion {
		return nil, fmt.Errorf("create manifest: %w: format version %d", ErrInvalid, st.FormatVersion)
	}
	if err := m.replace(1, 0, &st); err != nil {
		return nil, fmt.Errorf("create manifest: %w", err)
	}
	m.sweep(l)
	return m, nil
}

// Open loads the state of the store in dir and continues it in a new manifest file, which
// begins with that state. It never appends to the file it found: after a crash, what was
// read may be in the page cache and not on the disk. When Open returns, the new file and its
// name are durable, and older manifests are removed. Those that could not be removed are in
// LoadReport.Leftover, and do no harm.
//
// A file that its writer closed is durable to its end. If it is the only one, and there are
// no Options.Keys, Open writes nothing, and the first edit begins the new file.
//
// Errors are those of Load, and fault.ErrDiskFull if there is no space for the new file.
// After an error the store is as it was.
func Open(fsys vfs.FS, dir string, o Options) (*Manifest, LoadReport, error) {
	st, rep, err := Load(fsys, dir, o.reading()...)
	if err != nil {
		return nil, rep, err
	}
	l, err := listManifests(fsys, dir)
	if err != nil {
		return nil, rep, err
	}
	m := &Manifest{fs: fsys, dir: dir, opts: o.withDefaults()}
	if o.Keys != nil && rep.KeyID == "" {
		st.setPlainBelow()
	}
	prev, _ := ParseManifestName(rep.File)
	if rep.Closed && len(rep.Leftover) == 0 && len(l.nums) == 1 && len(l.temps) == 0 && o.Keys == nil {
		m.found = l
		m.cur.Store(&st)
		return m, rep, nil
	}
	st.raise(o.NextFileNum)
	if err := m.replace(l.next(), prev, &st); err != nil {
		return nil, rep, fmt.Errorf("continue %s: %w", rep.File, err)
	}
	rep.Leftover = m.sweep(l)
	return m, rep, nil
}

// State returns a copy of the last acknowledged state. It also works on a poisoned or a closed
// manifest.
func (m *Manifest) State() State { return m.cur.Load().Clone() }

// FloorLSN is State().FloorLSN without the copy.
func (m *Manifest) FloorLSN() base.LSN { return m.cur.Load().FloorLSN }

// Held is State().Held without the copy.
func (m *Manifest) Held() base.LSN { return m.cur.Load().Held }

// Apply makes one edit durable and returns the state after it. When it returns
// nil, the edit survives power loss. Edits are applied one at a time, in the
// order of the calls.
//
// It fails with ErrInvalid if the edit breaks a rule, with fault.ErrTooLarge if the state
// would be too large for a manifest, with fault.ErrDiskFull if there is no space for a new manifest file
// that was due, for its name or, on a file system that copies what is written over, for the edit in the
// file, with the error of the system if that refuses to make or rename the new file (vfs.Refused), or the device fails
// to open it (vfs.Unreadable), and with fault.ErrClosed. In all these cases the edit was not made,
// and the manifest can still be used. After a failed write or sync the edit may or
// may not survive: the error, and that of all later calls, matches fault.ErrPoisoned.
func (m *Manifest) Apply(e Edit) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usableLocked(); err != nil {
		return State{}, err
	}
	next := m.cur.Load().Clone()
	if err := next.apply(&e); err != nil {
		return State{}, fmt.Errorf("manifest edit: %w", err)
	}
	if err := next.check(); err != nil {
		return State{}, fmt.Errorf("manifest edit: %w", err)
	}
	if err := m.poisonUnlessClean(m.logLocked(&e, &next)); err != nil {
		return State{}, err
	}
	return next.Clone(), nil
}

// Poison is the failure by which all edits are refused from now on; nil if they are not. It never waits
// for the disk.
func (m *Manifest) Poison() error {
	if p := m.poison.Load(); p != nil {
		return fmt.Errorf("manifest edit: %w: %w", fault.ErrPoisoned, *p)
	}
	return nil
}

// poisonLocked makes err the poison.
func (m *Manifest) poisonLocked(err error) {
	m.cause = err
	m.poison.Store(&err)
}

// usableLocked is the error that every edit meets from now on, if any.
func (m *Manifest) usableLocked() error {
	switch {
	case m.cause != nil:
		return fmt.Errorf("manifest edit: %w: %w", fault.ErrPoisoned, m.cause)
	case m.closed:
		return fmt.Errorf("manifest edit: %w", fault.ErrClosed)
	}
	return nil
}

// logLocked makes e durable and publishes next. If there is no room for the edit, it becomes
// part of the complete state of a new file. Either of the two files is a valid manifest. It
// also goes on in a new file if somebody changed the old one in place: the state is in memory,
// and nothing depends on what became of the file.
func (m *Manifest) logLocked(e *Edit, next *State) error {
	if m.file == nil || m.file.spoilt {
		return m.rotateLocked(next)
	}
	mf := m.file
	payload := appendEdit(nil, e)
	if mf.tail+int64(frameSize(mf.stored(len(payload)))) > mf.size-slotsSize {
		return m.rotateLocked(next)
	}
	if changed, err := mf.changed(); err != nil {
		return err
	} else if changed {
		return m.rotateLocked(next)
	}
	if err := mf.append(payload); err != nil {
		return err
	}
	if err := mf.f.SyncData(); err != nil {
		return fmt.Errorf("sync %s: %w", ManifestName(mf.num), err)
	}
	// An edit in a file that no Open can find is not stored.
	var size int64
	err := vfs.Again(func() (err error) {
		size, err = mf.f.Attached()
		return err
	})
	if err != nil {
		return fmt.Errorf("after an edit of %s: %w", ManifestName(mf.num), err)
	}
	if size != mf.size {
		if err := m.rotateLocked(next); err != nil {
			// Whatever err matches: the edit is in the old file, and may survive.
			return errors.New("go on after " + ManifestName(mf.num) + " was changed in place: " + err.Error())
		}
		return nil
	}
	mf.synced = mf.tail
	m.cur.Store(next)
	// The mark says that the edit was durable, so that damage to it is not taken for a
	// torn tail. It is not synced, since the edit is acknowledged whether the mark
	// survives or not.
	switch err := mf.setSlot(frameMark); {
	case errors.Is(err, syscall.ENOSPC):
		mf.spoilt = true
	case err != nil:
		m.poisonLocked(err)
	}
	return nil
}

// rotateLocked continues in a new file with next as its complete state.
func (m *Manifest) rotateLocked(next *State) error {
	if m.file == nil {
		if err := m.replace(m.found.next(), m.found.nums[0], next); err != nil {
			return err
		}
		m.sweep(m.found)
		return nil
	}
	old := m.file.num
	if err := m.replace(old+1, old, next); err != nil {
		return err
	}
	// The new file is durable under its name, so nothing depends on the old one.
	// If it cannot be removed, the next Open does it.
	_ = m.fs.Remove(filepath.Join(m.dir, ManifestName(old)))
	return nil
}

// KeyID is the id of the key that the current manifest file is encrypted with; "" if it is not.
func (m *Manifest) KeyID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return ""
	}
	return m.file.seal.KeyID()
}

// Untouched reports whether the manifest is still the file that Open found, because no edit
// was made.
func (m *Manifest) Untouched() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.file == nil
}

// Renew continues in a new manifest file, with the current key. Errors are those of Apply, and
// *fault.KeyError if there is no key, in which case nothing changed.
func (m *Manifest) Renew() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usableLocked(); err != nil {
		return err
	}
	return m.poisonUnlessClean(m.rotateLocked(m.cur.Load()))
}

// poisonUnlessClean returns err. Unless err says that nothing was written, it poisons the manifest.
func (m *Manifest) poisonUnlessClean(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fault.ErrDiskFull), errors.Is(err, fault.ErrTooLarge), errors.Is(err, fault.ErrKey), errors.As(err, new(notMade)):
		return fmt.Errorf("manifest edit: %w", err)
	}
	m.poisonLocked(err)
	return m.usableLocked()
}

// append writes one edit frame at the tail. The room is there.
func (mf *manifestFile) append(payload []byte) error {
	b := mf.framer.append(nil, mf.tail, frame{typ: frameEdit, seq: mf.seq + 1, promise: mf.synced, payload: payload})
	if err := writeAt(mf.f, b, mf.tail); err != nil {
		if errors.Is(err, syscall.ENOSPC) && mf.lacks(b) {
			mf.spoilt, err = true, markDiskFull(err)
		}
		return fmt.Errorf("write %s: %w", ManifestName(mf.num), err)
	}
	mf.seq++
	mf.tail += int64(len(b))
	mf.bytes = append(mf.bytes, b...)
	return nil
}

// lacks reports whether the file does not have a frame whole whose write failed. What it does not read back, no crash
// can leave in it: what is torn is no frame.
func (mf *manifestFile) lacks(b []byte) bool {
	there := make([]byte, len(b))
	_, err := vfs.ReadAgain(mf.f, there, mf.tail)
	return err == nil && !bytes.Equal(there, b)
}

// changed reports whether the file does not read back as it was written. Errors are those of the
// device.
func (mf *manifestFile) changed() (bool, error) {
	var size int64
	err := vfs.Again(func() (err error) {
		size, err = mf.f.Size()
		return err
	})
	if err == nil && size != mf.size {
		return true, nil
	}
	b := make([]byte, mf.tail)
	if err == nil {
		_, err = vfs.ReadAgain(mf.f, b, 0)
	}
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read back %s: %w", ManifestName(mf.num), err)
	}
	return !bytes.Equal(b, mf.bytes), nil
}

// setSlot writes the slot for typ. No other bytes of a manifest are ever overwritten. A slot
// that a crash tears is not valid, and is ignored.
func (mf *manifestFile) setSlot(typ frameType) error {
	at := mf.size - slotsSize
	if typ == frameClose {
		at += slotSize
	}
	b := mf.framer.append(nil, at, frame{typ: typ, seq: mf.seq, promise: mf.synced})
	if err := writeAt(mf.f, b, at); err != nil {
		return fmt.Errorf("write slot of %s: %w", ManifestName(mf.num), err)
	}
	return nil
}

// Close marks the file as complete, so that any later damage to it is noticed, and closes it.
// State still works. A second Close does nothing. Close of a poisoned manifest closes the
// file without marking it, and returns an error that matches fault.ErrPoisoned.
func (m *Manifest) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	if m.file == nil {
		if m.cause != nil {
			return fmt.Errorf("close manifest: %w: %w", fault.ErrPoisoned, m.cause)
		}
		return nil
	}
	if m.cause != nil {
		_ = m.file.close() // its content is unknown already
		return fmt.Errorf("close %s: %w: %w", ManifestName(m.file.num), fault.ErrPoisoned, m.cause)
	}
	rotate := m.file.spoilt
	if !rotate {
		rotate, m.cause = m.file.changed()
	}
	if m.cause == nil && rotate {
		m.cause = m.rotateLocked(m.cur.Load())
	}
	if m.cause == nil {
		m.cause = m.file.finish()
	}
	if err := m.file.close(); m.cause == nil {
		m.cause = err
	}
	if m.cause != nil {
		return fmt.Errorf("close %s: %w", ManifestName(m.file.num), m.cause)
	}
	return nil
}

// close closes the file, if it could be opened.
func (mf *manifestFile) close() error {
	if mf.f == nil {
		return nil
	}
	return mf.f.Close()
}

// finish writes the close slot, which says where the frames end, and syncs it together with
// the last mark.
func (mf *manifestFile) finish() error {
	if mf.f == nil {
		return nil // as after a crash
	}
	if err := mf.setSlot(frameClose); err != nil {
		return err
	}
	return mf.f.SyncData()
}

// replace makes manifest file num with st as its complete state, durable under its name, and
// continues there. prev is the manifest that it follows. Until the rename nothing refers to
// the new file, so after an error before that the old one is still the manifest.
func (m *Manifest) replace(num, prev base.FileNum, st *State) error {
	mf, b, err := newManifestFile(num, prev, st, m.opts)
	if err != nil {
		return err
	}
	temp := filepath.Join(m.dir, tempName(num))
	if err := writeTemp(m.fs, temp, b); err != nil {
		_ = m.fs.Remove(temp) // swept at the next Open otherwise
		return fmt.Errorf("write %s: %w", tempName(num), err)
	}
	name := filepath.Join(m.dir, ManifestName(num))
	if err := m.fs.Rename(temp, name); err != nil {
		if l, failed := listManifests(m.fs, m.dir); failed == nil && vfs.Refused(err) && !slices.Contains(l.nums, num) {
			_ = m.fs.Remove(temp) // swept at the next Open otherwise
			err = refused(err)
		}
		return fmt.Errorf("rename %s: %w", tempName(num), err)
	}
	if err := m.fs.SyncDir(m.dir); err != nil {
		return fmt.Errorf("sync directory after %s: %w", ManifestName(num), err)
	}
	if mf.f, err = m.fs.OpenReadWrite(name); vfs.Refused(err) || vfs.Unreadable(err) {
		mf.f, mf.spoilt = nil, true // it has the state, and the next edit begins another file
	} else if err != nil {
		return fmt.Errorf("open %s: %w", ManifestName(num), err)
	}
	if m.file != nil {
		_ = m.file.close() // superseded: data that it could still lose is not needed
	}
	m.file = mf
	m.cur.Store(st)
	return nil
}

// newManifestFile makes the bytes of a new manifest: header, complete state, and zeros for the
// edits to come and for the slots. Because the zeros are written now, an edit neither
// extends the file nor allocates blocks. So its sync is cheap, and a file of another size is
// known to be damaged.
func newManifestFile(num, prev base.FileNum, st *State, o Options) (*manifestFile, []byte, error) {
	payload := appendState(nil, st)
	stored, start := len(payload), headerSize
	if o.Keys != nil {
		stored, start = int(seal.SealedLen(int64(stored))), sealedStart
	}
	stateSize := frameSize(stored)
	size := start + stateSize + max(stateSize, o.EditRoom) + slotsSize
	size = (size + manifestUnit - 1) / manifestUnit * manifestUnit
	if size > maxManifest {
		return nil, nil, fmt.Errorf("manifest of %d bytes: %w", size, fault.ErrTooLarge)
	}
	mf := &manifestFile{num: num, framer: framer{salt: o.Rand()}, size: int64(size), seq: 1}
	h := fileHeader{version: FormatVersion, num: num, storeID: st.StoreID, salt: mf.salt, a: uint64(prev), b: uint64(size)}
	b, file, err := sealedHead(make([]byte, 0, size), ManifestName(num), manifestMagic, h, o.Keys.Keyring(st.StoreID, 0))
	if err != nil {
		return nil, nil, err
	}
	mf.seal = file
	b = mf.framer.append(b, int64(start), frame{typ: frameState, seq: 1, payload: payload})
	mf.tail = int64(len(b))
	mf.synced = mf.tail
	mf.bytes = b
	return mf, b[:size], nil
}

// writeTemp writes a file that nothing refers to yet, and syncs it. The error matches
// fault.ErrDiskFull if there was no space to create or write it, but not if the sync or the
// close failed: then nobody knows what is on the disk, whatever the cause.
func writeTemp(fsys vfs.FS, name string, b []byte) error {
	f, err := fsys.Create(name)
	if errors.Is(err, fs.ErrExist) {
		// Left by a process that died here.
		if err = fsys.Remove(name); err == nil {
			f, err = fsys.Create(name)
		}
	}
	if vfs.Unreadable(err) {
		return notMade{err} // nothing refers to what it may have made
	}
	if err != nil {
		return refused(err)
	}
	if err = writeAt(f, b, 0); err != nil {
		err = markDiskFull(err)
	} else {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// notMade is the error of a new manifest file that the system refused to make: the old one is still the manifest.
type notMade struct{ error }

// Unwrap returns the error of the system.
func (e notMade) Unwrap() error { return e.error }

// refused marks an error of making or renaming a file by which nothing was changed.
func refused(err error) error {
	if vfs.Refused(err) {
		err = notMade{markDiskFull(err)}
	}
	return err
}

// markDiskFull makes system errors about space match fault.ErrDiskFull.
func markDiskFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("%w: %w", fault.ErrDiskFull, err)
	}
	return err
}

// writeAt writes all of b.
func writeAt(f vfs.File, b []byte, off int64) error {
	n, err := f.WriteAt(b, off)
	if err == nil && n < len(b) {
		err = fmt.Errorf("short write: %d of %d bytes", n, len(b))
	}
	return err
}

// sweep removes the manifests of l, which the current file supersedes, and returns the names of
// those that it could not remove.
func (m *Manifest) sweep(l listing) (left []string) {
	remove := func(name string) {
		if err := m.fs.Remove(filepath.Join(m.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			left = append(left, name)
		}
	}
	for _, n := range l.nums {
		remove(ManifestName(n))
	}
	for _, n := range l.temps {
		remove(tempName(n))
	}
	return left
}
