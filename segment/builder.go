package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// ErrUsage is returned for calls of a Builder that are out of order or whose arguments
// cannot be stored. Nothing was written, and the builder can still be used.
var ErrUsage = errors.New("segment builder: call out of order or bad argument")

// BuilderOptions configure a Builder. FileNum and Salt are required; the zero value of any
// other field is its default.
type BuilderOptions struct {
	FileNum base.FileNum
	// Salt is mixed into every checksum of the file. It should be random, and
	// must differ between the files of a store.
	Salt uint64
	// Keys is the keyring of the store; nil for a segment without encryption.
	Keys *seal.Keyring
	// BlockSize is the decoded size up to which history values share a block.
	// Default 1 MiB, at most MaxBlockSize.
	BlockSize int
	// HotBlockSize is the same for head values. Default and maximum are
	// MaxHotBlockSize, 64 KiB.
	HotBlockSize int
	// Level is the effort of zstd: 1 fastest, 2 default, 3 better, 4 best.
	Level int
	// Quick compresses with S2 whatever a frame of S2 may hold, of any kind. It takes a
	// tenth of the time and leaves a third more bytes. It is for a segment that a compaction
	// will write again. BlockSize is then 64 KiB by default, and at most.
	Quick bool
	// SyncEvery is the number of bytes after which the file is synced while it is being
	// written. It is as much as a commit may have to wait for whose sync comes in
	// between. Default 64 KiB. See Syncs.
	SyncEvery int64
	// Syncs, if set, returns a count of the syncs of other files on the device. While
	// it grows, and if the file is a vfs.WriteBacker, the builder does not sync but
	// only writes back: the other syncs flush the device's cache anyway, they wait for
	// no more than SyncEvery bytes of this file, and not for the journal because of
	// it. Finish makes the file durable as ever.
	Syncs func() int64
	// Limiter, if set, is called before each write with its size, at most SyncEvery
	// bytes, and blocks as long as the rate limit demands. It is called with 0 between
	// the pieces in which a frame is compressed, and after the last one.
	Limiter func(n int)
}

func (o BuilderOptions) withDefaults() (BuilderOptions, error) {
	most := MaxBlockSize
	if o.Quick {
		most = maxQuickRaw
	}
	if o.BlockSize == 0 {
		o.BlockSize = min(1<<20, most)
	}
	if o.HotBlockSize == 0 {
		o.HotBlockSize = MaxHotBlockSize
	}
	if o.Level == 0 {
		o.Level = 2
	}
	if o.SyncEvery == 0 {
		o.SyncEvery = 64 << 10
	}
	switch {
	case o.BlockSize < 0 || o.BlockSize > most:
		return o, fmt.Errorf("%w: BlockSize %d", ErrUsage, o.BlockSize)
	case o.HotBlockSize < 0 || o.HotBlockSize > MaxHotBlockSize:
		return o, fmt.Errorf("%w: HotBlockSize %d", ErrUsage, o.HotBlockSize)
	case o.Level < 1 || o.Level > 4:
		return o, fmt.Errorf("%w: Level %d", ErrUsage, o.Level)
	case o.SyncEvery < 0:
		return o, fmt.Errorf("%w: SyncEvery %d", ErrUsage, o.SyncEvery)
	}
	return o, nil
}

// pending is a block being filled. Values wait in it, copied, until it is full.
type pending struct {
	kind   kind
	limit  int
	buf    []byte
	values []int // rows of family.values whose Off and Stored are still unknown
}

// family is the family being written.
type family struct {
	id     uint64
	start  int64
	raw    int64
	blocks []extent // ascending
	values []ValueLoc
}

// Builder writes one segment: families by ascending id, and for each of them values, then
// the directory. It is for one goroutine. After an error other than ErrUsage and
// fault.ErrTooLarge all calls return that error.
type Builder struct {
	out      output
	comp     *compressor
	salt     uint64
	num      base.FileNum
	seal     *seal.File // nil: not encrypted
	ext      []byte     // the encryption header
	sealed   []byte     // the last sealed payload
	err      error      // first I/O error, or why the builder is over
	open     bool       // between BeginFamily and EndFamily
	fam      family
	head     pending
	history  pending
	scratch  []byte
	families []FamilyInfo
	props    Props
	tombs    []byte
	meta     []byte
}

var zeroPad [frameAlign]byte

// NewBuilder begins a segment in f, which must be new and empty. The builder uses f until
// Finish or Abort. The caller closes it, and removes it if it was not finished.
func NewBuilder(f vfs.File, o BuilderOptions) (*Builder, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := fileHeader{version: FormatVersion, num: o.FileNum, salt: o.Salt}
	if o.Keys != nil {
		h.flags = fileSealed
	}
	head := h.encode()
	file, ext, err := o.Keys.Create(base.SegmentFile.Name(o.FileNum), head)
	if err != nil {
		return nil, err
	}
	comp, err := newCompressor(o.Level, o.BlockSize)
	if err != nil {
		return nil, err
	}
	comp.quick = o.Quick
	b := &Builder{
		out:     output{f: f, name: base.SegmentFile.Name(o.FileNum), syncEvery: o.SyncEvery, limiter: o.Limiter, syncs: o.Syncs},
		comp:    comp,
		salt:    o.Salt,
		num:     o.FileNum,
		seal:    file,
		ext:     ext,
		head:    pending{kind: kindHead, limit: o.HotBlockSize},
		history: pending{kind: kindHistory, limit: o.BlockSize},
	}
	if o.Limiter != nil {
		comp.pause = func() { o.Limiter(0) }
	}
	if o.Syncs != nil {
		b.out.seen = o.Syncs()
	}
	// The headers stay in the buffer: creating a segment touches no disk.
	return b, b.out.write(head, ext)
}

// BeginFamily starts the family id, which must be greater than all before.
func (b *Builder) BeginFamily(id uint64) error {
	if b.err != nil {
		return b.err
	}
	if b.open {
		return fmt.Errorf("%w: family %d is not ended", ErrUsage, b.fam.id)
	}
	if n := len(b.families); n > 0 && b.families[n-1].ID >= id {
		return fmt.Errorf("%w: family %d after %d", ErrUsage, id, b.families[n-1].ID)
	}
	b.fam = family{id: id, start: b.out.off(), blocks: b.fam.blocks[:0], values: b.fam.values[:0]}
	b.open = true
	return nil
}

// AddHot adds a value that must be quick to read, given in parts. Head values are packed
// in the order in which they come, into blocks of at most HotBlockSize. A value that is
// as large as that has a block of its own. The last head block of a family lies directly
// before its directory, so that one read can get both.
//
// Ids must be unique within a family. The parts may be reused after the call.
func (b *Builder) AddHot(id ValueID, parts ...[]byte) error {
	return b.add(&b.head, ValueLoc{ValueID: id}, parts)
}

// AddHistory adds an older value, given in parts. Older values are packed in the order in
// which they come, into blocks of at most BlockSize. They compress best if similar ones
// are neighbours: channel by channel, newest first.
func (b *Builder) AddHistory(id ValueID, parts ...[]byte) error {
	return b.add(&b.history, ValueLoc{ValueID: id}, parts)
}

// CutHistory ends the current block of older values. Values that are added next go into
// another one, and so are not read along with those before.
func (b *Builder) CutHistory() error {
	if b.err != nil {
		return b.err
	}
	if !b.open {
		return fmt.Errorf("%w: history outside of a family", ErrUsage)
	}
	return b.flushPending(&b.history)
}

// AddHistoryPatch is AddHistory for a value that is stored as a reverse patch against the
// value baseID. The parts are those of the patch.
func (b *Builder) AddHistoryPatch(id, baseID ValueID, parts ...[]byte) error {
	if baseID.LSN == 0 || baseID == id {
		return fmt.Errorf("%w: value %v as a patch against %v", ErrUsage, id, baseID)
	}
	return b.add(&b.history, ValueLoc{ValueID: id, Encoding: ReversePatch, Base: baseID}, parts)
}

func (b *Builder) add(p *pending, v ValueLoc, parts [][]byte) error {
	if b.err != nil {
		return b.err
	}
	if !b.open {
		return fmt.Errorf("%w: value %v outside of a family", ErrUsage, v.ValueID)
	}
	if v.LSN == 0 {
		return fmt.Errorf("%w: value with LSN 0", ErrUsage)
	}
	n, ok := sizeOf(parts, base.MaxStored)
	if !ok {
		return fmt.Errorf("segment value %v: %w (%d bytes)", v.ValueID, fault.ErrTooLarge, base.MaxStored)
	}
	alone := n >= p.limit
	if alone || len(p.buf)+n > p.limit {
		if err := b.flushPending(p); err != nil {
			return err
		}
	}
	v.Inner, v.Len, v.Sum = uint32(len(p.buf)), uint32(n), base.ChecksumParts(0, parts...)
	b.fam.values = append(b.fam.values, v)
	b.fam.raw += int64(n)
	p.values = append(p.values, len(b.fam.values)-1)
	if alone {
		return b.writeBlock(p, parts)
	}
	for _, part := range parts {
		p.buf = append(p.buf, part...)
	}
	return nil
}

func (b *Builder) flushPending(p *pending) error {
	if len(p.values) == 0 {
		return nil
	}
	return b.writeBlock(p, [][]byte{p.buf})
}

// writeBlock writes parts as one block and tells the waiting values where it is.
func (b *Builder) writeBlock(p *pending, parts [][]byte) error {
	at, err := b.writeFrame(p.kind, b.fam.id, parts, MaxBlockRaw)
	if err != nil {
		return err
	}
	b.fam.blocks = append(b.fam.blocks, at)
	for _, i := range p.values {
		b.fam.values[i].Off, b.fam.values[i].Stored = at.off, at.n
	}
	p.buf, p.values = p.buf[:0], p.values[:0]
	return nil
}

// writeFrame compresses the payload if that pays and appends one frame.
func (b *Builder) writeFrame(k kind, fam uint64, parts [][]byte, limit int) (extent, error) {
	n, ok := sizeOf(parts, limit)
	if !ok {
		return extent{}, fmt.Errorf("%s: %w (%d bytes)", k, fault.ErrTooLarge, limit)
	}
	c, stored, err := b.comp.pack(k, parts, n)
	if err != nil {
		return extent{}, b.fail(err)
	}
	if b.out.limiter != nil {
		b.out.limiter(0)
	}
	m, _ := sizeOf(stored, limit)
	off := b.out.off()
	fh := frameHeader{stored: uint32(m), raw: uint32(n), family: fam, kind: k, codec: c}
	if b.seal != nil {
		stored = b.sealParts(&fh, off, stored)
	}
	size := alignFrame(int64(fh.stored))
	pad := zeroPad[:size-frameHeaderSize-int64(fh.stored)]
	h := fh.encode()

	all := make([][]byte, 0, len(stored)+2)
	all = append(all, h[8:])
	all = append(append(all, stored...), pad)
	binary.LittleEndian.PutUint64(h[:], base.ChecksumParts(seedAt(b.salt, off), all...))
	all[0] = h[:]
	err = b.out.write(all...)
	b.comp.trim()
	if err != nil {
		return extent{}, b.fail(err)
	}
	return extent{uint64(off), uint32(size)}, nil
}

// sealParts returns the encrypted payload of the frame h at off, and completes h. It is
// valid until the next call.
func (b *Builder) sealParts(h *frameHeader, off int64, parts [][]byte) [][]byte {
	h.stored, h.flags = uint32(seal.SealedLen(int64(h.stored))), flagSealed
	enc := h.encode()
	b.sealed = b.seal.Seal(b.sealed[:0], frameAAD(off, enc[:]), parts...)
	out := b.sealed
	if cap(out) > MaxBlockSize {
		b.sealed = nil // what only a large payload needed
	}
	return [][]byte{out}
}

// EndFamily writes the values that are pending and then the directory frame: dir, which is
// opaque to the segment, and the table of all values of the family. dir may be reused
// after the call. If an id was added twice, the error is ErrUsage, and final, because the
// blocks are written by then.
func (b *Builder) EndFamily(dir []byte) error {
	if b.err != nil {
		return b.err
	}
	if !b.open {
		return fmt.Errorf("%w: no family to end", ErrUsage)
	}
	if len(dir) > MaxSectionRaw {
		return fmt.Errorf("directory of family %d: %w (%d bytes)", b.fam.id, fault.ErrTooLarge, MaxSectionRaw)
	}
	// Heads last: they and the directory are one contiguous read.
	for _, p := range []*pending{&b.history, &b.head} {
		if err := b.flushPending(p); err != nil {
			return err
		}
	}
	info := FamilyInfo{ID: b.fam.id, Values: uint32(len(b.fam.values)), RawBytes: b.fam.raw}
	slices.SortFunc(b.fam.values, func(x, y ValueLoc) int { return x.ValueID.Compare(y.ValueID) })
	for i, v := range b.fam.values {
		if i > 0 && v.ValueID == b.fam.values[i-1].ValueID {
			return b.fail(fmt.Errorf("%w: family %d, value %v: %w", ErrUsage, b.fam.id, v.ValueID, errDuplicate))
		}
		info.MinLSN, info.MaxLSN = lsnRange(info.MinLSN, info.MaxLSN, v.LSN)
	}
	b.scratch = appendDirectory(b.scratch[:0], dir, b.fam.blocks, b.fam.values)
	at, err := b.writeFrame(kindDirectory, b.fam.id, [][]byte{b.scratch}, MaxSectionRaw)
	if err != nil {
		return b.fail(err)
	}
	info.DirOff, info.DirStored = at.off, at.n
	info.Stored = b.out.off() - b.fam.start
	b.families = append(b.families, info)
	b.props.addFamily(info)
	b.open = false
	if cap(b.scratch) > MaxBlockSize {
		b.scratch = nil
	}
	return nil
}

func (p *Props) addFamily(f FamilyInfo) {
	p.Families++
	p.Values += int64(f.Values)
	p.RawBytes += f.RawBytes
	if f.Values > 0 {
		p.MinLSN, p.MaxLSN = lsnRange(p.MinLSN, p.MaxLSN, f.MinLSN)
		p.MinLSN, p.MaxLSN = lsnRange(p.MinLSN, p.MaxLSN, f.MaxLSN)
	}
}

// Family returns the family that EndFamily ended last, and the places of its values, sorted
// by id. The slice is valid until the next BeginFamily. The places may be used once Finish
// has returned nil.
func (b *Builder) Family() (FamilyInfo, []ValueLoc) {
	if b.open || len(b.families) == 0 {
		return FamilyInfo{}, nil
	}
	return b.families[len(b.families)-1], b.fam.values
}

// Size is the number of bytes written so far, without blocks that are pending. A compaction
// decides by it when to begin another segment.
func (b *Builder) Size() int64 { return b.out.off() }

// SetTombstones sets the tombstones, which are opaque to the segment. It copies them. The
// last call counts; empty data means none.
func (b *Builder) SetTombstones(data []byte) { b.tombs = slices.Clone(data) }

// SetMeta sets the bytes that Reader.Meta returns. It copies them. The last call counts; empty data means none.
func (b *Builder) SetMeta(data []byte) { b.meta = slices.Clone(data) }

// Finish writes the rest of the file and syncs it. After a nil error the bytes are durable;
// the name is so only after the caller's SyncDir. Unless the error is that a family is
// still open, the builder cannot be used any more.
func (b *Builder) Finish() (Props, error) {
	if b.err != nil {
		return Props{}, b.err
	}
	if b.open {
		return Props{}, fmt.Errorf("%w: family %d is not ended", ErrUsage, b.fam.id)
	}
	var ft footer
	for _, s := range []struct {
		kind kind
		data []byte
		at   *extent
	}{
		{kindTombstones, b.tombs, &ft.tombs},
		{kindMeta, b.meta, &ft.meta},
		{kindFamilyIndex, appendFamilyIndex(nil, b.families), &ft.index},
	} {
		if len(s.data) == 0 {
			continue
		}
		at, err := b.writeFrame(s.kind, 0, [][]byte{s.data}, MaxSectionRaw)
		if err != nil {
			return Props{}, b.fail(err)
		}
		*s.at = at
	}
	ft.Props = b.props
	ft.FormatVersion, ft.FileNum, ft.Salt = FormatVersion, b.num, b.salt
	ft.Size = b.out.off() + footerSize
	var tag []byte
	if b.seal != nil {
		ft.Size += sealSize
		ft.flags = fileSealed
		tag = encodeSeal(&ft, b.seal, b.ext, b.out.off())
	}
	if err := b.out.write(tag, ft.encode()); err != nil {
		return Props{}, b.fail(err)
	}
	if err := b.out.finish(); err != nil {
		return Props{}, b.fail(err)
	}
	b.end("the segment is finished")
	return ft.Props, nil
}

// Abort ends the builder and frees its memory. The caller closes and removes the file.
// After Finish it does nothing.
func (b *Builder) Abort() {
	if b.comp != nil {
		b.end("the segment was aborted")
	}
}

// fail ends the builder with its first error.
func (b *Builder) fail(err error) error {
	if b.err == nil {
		b.end("")
		b.err = err
	}
	return b.err
}

func (b *Builder) end(why string) {
	if b.err == nil {
		b.err = fmt.Errorf("%w: %s", ErrUsage, why)
	}
	if b.comp != nil {
		b.comp.close()
	}
	b.comp, b.scratch, b.sealed, b.out.buf = nil, nil, nil, nil
	b.head, b.history, b.fam, b.families = pending{}, pending{}, family{}, nil
}
