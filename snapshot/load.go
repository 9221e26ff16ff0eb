package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// ErrNoManifest is returned for a directory that has no manifest or does not exist. It matches
// fs.ErrNotExist.
var ErrNoManifest = fmt.Errorf("no manifest: %w", fs.ErrNotExist)

const (
	// slotSize is the size of each of the two slots at the end of a manifest file. A slot
	// says where the frames end. It has a sector of its own, so that one damaged sector
	// cannot destroy both an edit and the proof that there was one.
	slotSize  = 512
	slotsSize = 2 * slotSize // the mark slot, then the close slot
	// maxManifest bounds a manifest file, and with it what Load allocates.
	maxManifest = 16 << 20
	// loadRetries is how often a reader tries again while a writer in another process
	// changes the files.
	loadRetries = 16
)

// LoadReport says what Load found.
type LoadReport struct {
	File  string // name of the manifest file the state was read from
	Edits int    // edits in it after the complete state
	// Closed: the writer of the file closed it, so its end is known and nothing can be
	// missing.
	Closed bool
	// Dropped is the length of the bytes after the last edit that are not zero: an edit that was being
	// written, and was not acknowledged, when its process died. DroppedAt is where they begin.
	Dropped   int64
	DroppedAt int64
	// Leftover names manifest files that are superseded or were never finished. Open
	// removes them, and lists those that it could not remove.
	Leftover []string
	// Damage are the errors with which Load would have failed. Only LoadDamaged sets it.
	Damage []error
	// KeyID is the id of the key that the file is encrypted with; "" if it is not.
	KeyID string
}

// Load reads the state of the store in dir. It writes nothing and takes no lock. If another
// process writes the manifest meanwhile, the state is one that was acknowledged during the
// call or just before it.
//
// It fails with ErrNoManifest if there is no manifest, with a *fault.CorruptionError if
// acknowledged content is damaged, and with a *fault.VersionError if a newer build wrote it.
// For an encrypted store it needs WithKeys.
func Load(fsys vfs.FS, dir string, opts ...ReadOption) (State, LoadReport, error) {
	st, rep, _, err := LoadRaw(fsys, dir, opts...)
	return st, rep, err
}

// LoadDamaged is Load for salvage. It takes the newest manifest whose complete state is intact,
// applies the edits up to the first damaged one, and lists in LoadReport.Damage what Load
// would have failed with. The state may be older than what was acknowledged: files that it
// does not name may have live data, and files that it names may be gone. A store must not
// be written to on this basis.
func LoadDamaged(fsys vfs.FS, dir string, opts ...ReadOption) (State, LoadReport, error) {
	l, err := listManifests(fsys, dir)
	if err != nil {
		return State{}, LoadReport{}, err
	}
	var damage []error
	for i := len(l.nums) - 1; i >= 0; i-- {
		st, rep, _, err := loadFile(fsys, dir, ManifestName(l.nums[i]), optionsOf(opts))
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) {
				return State{}, LoadReport{}, err
			}
			damage = append(damage, err)
		}
		if st.StoreID != 0 {
			rep.Leftover, rep.Damage = l.leftover(), damage
			return st, rep, nil
		}
	}
	if damage == nil {
		return State{}, LoadReport{}, ErrNoManifest
	}
	return State{}, LoadReport{}, errors.Join(damage...)
}

// listing has the manifests in a directory.
type listing struct {
	nums  []base.FileNum // complete manifests, ascending
	temps []base.FileNum // manifests that were being written
}

func listManifests(fsys vfs.FS, dir string) (listing, error) {
	names, err := fsys.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return listing{}, ErrNoManifest
	}
	if err != nil {
		return listing{}, fmt.Errorf("list %s: %w", dir, err)
	}
	var l listing
	for _, name := range names {
		if n, ok := ParseManifestName(name); ok {
			l.nums = insertNum(l.nums, n)
		} else if n, ok := parseTempName(name); ok {
			l.temps = insertNum(l.temps, n)
		}
	}
	return l, nil
}

// insertNum keeps nums sorted by number. Names with more than six digits do not sort so.
func insertNum(nums []base.FileNum, n base.FileNum) []base.FileNum {
	i := len(nums)
	nums = append(nums, n)
	for ; i > 0 && nums[i-1] > n; i-- {
		nums[i] = nums[i-1]
	}
	nums[i] = n
	return nums
}

// leftover names everything but the newest complete manifest.
func (l listing) leftover() []string {
	var out []string
	for i := 0; i+1 < len(l.nums); i++ {
		out = append(out, ManifestName(l.nums[i]))
	}
	for _, n := range l.temps {
		out = append(out, tempName(n))
	}
	return out
}

// next is a manifest number above all that are in use.
func (l listing) next() base.FileNum {
	var n base.FileNum
	if len(l.nums) > 0 {
		n = l.nums[len(l.nums)-1]
	}
	if len(l.temps) > 0 {
		n = max(n, l.temps[len(l.temps)-1])
	}
	return n + 1
}

// loadFile reads and decodes one manifest file. A read while an edit is written may get an
// older half of the edit and a newer mark behind it, which looks like damage. So a file that
// looks damaged is read again, until two reads give the same bytes.
func loadFile(fsys vfs.FS, dir, name string, o readOptions) (State, LoadReport, []byte, error) {
	f, err := fsys.Open(filepath.Join(dir, name))
	if err != nil {
		return State{}, LoadReport{}, nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // nothing was written through it
	var prev []byte
	for try := 0; ; try++ {
		b, err := readAll(f, name)
		if err != nil {
			return State{}, LoadReport{}, nil, err
		}
		st, rep, err := decodeManifest(name, b, o)
		if err == nil || try == loadRetries || prev != nil && bytes.Equal(prev, b) {
			return st, rep, b, err
		}
		prev = b
	}
}

// readAll reads a whole manifest.
func readAll(f vfs.File, name string) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("size of %s: %w", name, err)
	}
	if size > maxManifest {
		return nil, &fault.CorruptionError{File: name, Kind: "manifest", Offset: -1, Len: size, Detail: "the file is larger than any manifest"}
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !(errors.Is(err, io.EOF) && int64(n) == size) {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// decodeManifest decodes the bytes of a manifest file. If there is damage behind the complete
// state, it returns the state up to there with the error, for LoadDamaged.
func decodeManifest(name string, b []byte, o readOptions) (State, LoadReport, error) {
	rep := LoadReport{File: name}
	h, err := decodeManifestHeader(name, b)
	if err != nil {
		return State{}, rep, err
	}
	file, err := h.openSeal(name, b, 0, o.manifestKeys(h.storeID))
	if err != nil {
		return State{}, rep, err
	}
	rep.KeyID = file.KeyID()
	r := reader{name: name, b: b, framer: framer{salt: h.salt, seal: file}, off: h.frameStart(), limit: len(b) - slotsSize, rep: &rep}
	if err := r.first(h); err != nil {
		return State{}, rep, err
	}
	err = r.edits()
	if err == nil {
		err = r.end()
	}
	if err == nil {
		if invalid := r.st.check(); invalid != nil {
			err = r.damaged(h.frameStart(), 0, invalid.Error())
		}
	}
	return r.st, rep, err
}

// decodeManifestHeader decodes the header and compares it with name and length. The length of
// a manifest never changes, so that a file that was cut or extended is known to be damaged.
func decodeManifestHeader(name string, b []byte) (fileHeader, error) {
	h, err := decodeHeader(name, "manifest header", manifestMagic, sealedFlag, b)
	if err != nil {
		return fileHeader{}, err
	}
	bad := func(detail string) error {
		return &fault.CorruptionError{File: name, Kind: "manifest header", Offset: 0, Len: headerSize, Detail: detail}
	}
	if num, ok := ParseManifestName(name); ok && num != h.num {
		return fileHeader{}, bad(fmt.Sprintf("the file is manifest %s by its content", h.num))
	}
	if h.b != uint64(len(b)) {
		return fileHeader{}, bad(fmt.Sprintf("the file has %d bytes, its header says %d", len(b), h.b))
	}
	if len(b)%8 != 0 || len(b) < h.frameStart()+frameHeaderSize+slotsSize {
		return fileHeader{}, bad(fmt.Sprintf("no manifest has %d bytes", len(b)))
	}
	return h, nil
}

// reader walks the frames of one manifest.
type reader struct {
	name string
	b    []byte
	framer
	off     int // of the next frame
	limit   int // where the slots begin
	seq     uint64
	promise int64 // highest so far
	st      State
	rep     *LoadReport
}

// first reads the complete state. A manifest gets its name only when this frame is durable,
// so if it is not valid it is damaged, and not torn.
func (r *reader) first(h fileHeader) error {
	f, ok := parseFrame(r.b[r.off:r.limit], r.salt, int64(r.off))
	if !ok {
		return r.damaged(r.off, 0, "the complete state does not validate")
	}
	if err := r.admit(&f); err != nil {
		return err
	}
	if f.typ != frameState {
		return r.damaged(r.off, 0, fmt.Sprintf("frame type %d where the complete state belongs", f.typ))
	}
	st, err := decodeState(r.name, f.payload)
	if err == nil && st.StoreID != h.storeID {
		err = fmt.Errorf("%w: store id differs from the header's", ErrInvalid)
	}
	if err != nil {
		return r.undecodable(f, err)
	}
	r.st = st
	r.next(f)
	return nil
}

// edits reads the frames after the complete state up to the first that is not valid.
func (r *reader) edits() error {
	for {
		f, ok := parseFrame(r.b[r.off:r.limit], r.salt, int64(r.off))
		if !ok {
			return nil
		}
		if err := r.admit(&f); err != nil {
			return err
		}
		switch f.typ {
		case frameEdit:
			if err := r.edit(f); err != nil {
				return r.undecodable(f, err)
			}
			r.rep.Edits++
		case frameState, frameMark, frameClose:
			return r.damaged(r.off, f.size, fmt.Sprintf("frame type %d among the edits", f.typ))
		default:
			return newerError(r.name, fmt.Sprintf("frame type %d", f.typ))
		}
		r.next(f)
	}
}

// edit applies one edit to a state that nobody else has seen yet.
func (r *reader) edit(f frame) error {
	e, err := decodeEdit(r.name, f.payload)
	if err != nil {
		return err
	}
	return r.st.apply(&e)
}

// admit decrypts the payload of an intact frame and checks its fields against the frames
// before. No interrupted write makes these differ.
func (r *reader) admit(f *frame) error {
	f.size = frameSize(len(f.payload))
	if !r.open(int64(r.off), f) {
		return r.damaged(r.off, f.size, "the frame does not authenticate")
	}
	if f.flags != 0 || f.reserved != 0 {
		return newerError(r.name, fmt.Sprintf("frame flags %#x", uint32(f.reserved)<<8|uint32(f.flags)))
	}
	if f.seq != r.seq+1 {
		return r.damaged(r.off, f.size, fmt.Sprintf("frame %d follows frame %d", f.seq, r.seq))
	}
	if f.promise < r.promise || f.promise > int64(r.off) {
		return r.damaged(r.off, f.size, fmt.Sprintf("promise %d at offset %d", f.promise, r.off))
	}
	return nil
}

func (r *reader) next(f frame) {
	r.seq, r.promise = f.seq, f.promise
	r.off += f.size
}

// end judges the first invalid frame. It is damage if a slot or a later frame says that its bytes were
// durable; otherwise it is the end of the edits.
func (r *reader) end() error {
	mark, marked, err := r.slot(r.limit, frameMark)
	if err != nil {
		return err
	}
	last, closed, err := r.slot(r.limit+slotSize, frameClose)
	if err != nil {
		return err
	}
	if marked && (mark.promise > int64(r.off) || mark.seq > r.seq) {
		return r.damaged(r.off, 0, fmt.Sprintf("%d frames up to offset %d were durable, %d are intact", mark.seq, mark.promise, r.seq))
	}
	if closed && (last.promise != int64(r.off) || last.seq != r.seq) {
		return r.damaged(r.off, 0, fmt.Sprintf("the file was closed with %d frames up to offset %d, %d are intact", last.seq, last.promise, r.seq))
	}
	if at, found := findPromise(r.b, r.off, r.limit, r.salt, r.seq); found {
		return r.damaged(r.off, 0, fmt.Sprintf("the frame at offset %d says that these bytes were durable", at))
	}
	r.rep.Closed = closed
	if junk := len(bytes.TrimRight(r.b[r.off:r.limit], "\x00")); junk > 0 {
		r.rep.Dropped, r.rep.DroppedAt = int64(junk), int64(r.off)
	}
	return nil
}

// slot reads the slot at off. A slot that is not valid says nothing: it is still zero, torn by
// a crash, or damaged, and the frames may be intact all the same.
func (r *reader) slot(off int, typ frameType) (f frame, ok bool, err error) {
	f, ok = parseFrame(r.b[off:off+slotSize], r.salt, int64(off))
	if ok && !r.open(int64(off), &f) {
		return frame{}, false, r.damaged(off, slotSize, "the slot does not authenticate")
	}
	if ok && (f.typ != typ || f.flags != 0 || f.reserved != 0 || len(f.payload) != 0) {
		return frame{}, false, newerError(r.name, fmt.Sprintf("content of the slot at offset %d", off))
	}
	return f, ok, nil
}

// damaged names the frame at off; n is its size if that is known.
func (r *reader) damaged(off, n int, detail string) error {
	return &fault.CorruptionError{File: r.name, Kind: "manifest frame", Offset: int64(off), Len: int64(n), Detail: detail}
}

// undecodable makes damage of this frame of the error of a payload decoder, unless that says
// that a newer build wrote it.
func (r *reader) undecodable(f frame, err error) error {
	if errors.Is(err, fault.ErrVersion) {
		return err
	}
	return &fault.CorruptionError{
		File: r.name, Kind: "manifest frame", Offset: int64(r.off),
		Len: int64(f.size), Err: err,
	}
}
