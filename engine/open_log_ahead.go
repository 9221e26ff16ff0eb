package engine

import (
	"errors"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/wal"
)

// These are the number of batches that the log may be read ahead of its replay, and about how many
// bytes of memory a batch takes. They suffice to copy the end of the log while the last of a few
// thousand records are replayed.
const (
	aheadBatches = 8
	aheadBytes   = 256 << 10
	aheadStart   = 16 << 10 // of a batch when no other waits to be replayed
)

// errStopped ends the reading of a log whose replay has ended. It is never returned to a caller.
var errStopped = errors.New("the replay has ended")

// logAhead reads the log, and decodes its records, on a goroutine of its own. It may begin
// while the images are still loaded.
type logAhead struct {
	full chan *recordBatch // closed at the end of the log
	free chan *recordBatch // replayed, to be filled again
	made int               // how many batches there are
	cur  *recordBatch      // being filled; may be nil
	dec  recordDecoder

	begun   chan struct{} // closed when the replay begins
	stopped chan struct{} // closed when nothing more is replayed
	once    sync.Once     // closes it

	rec wal.Recovery // result of reading; set when full is closed
	err error
}

// readLog begins to read a log. read calls add for each record, and ended when it knows the end. The
// caller's ended, which may be nil, is called by the reading goroutine, but not before the replay has
// begun.
func readLog(read func(add func(wal.Entry) error, ended func(wal.Recovery) error) (wal.Recovery, error), ended func(wal.Recovery) error) *logAhead {
	l := &logAhead{full: make(chan *recordBatch, aheadBatches), free: make(chan *recordBatch, aheadBatches),
		begun: make(chan struct{}), stopped: make(chan struct{})}
	atEnd := func(rec wal.Recovery) error {
		if err := l.send(); err != nil || ended == nil {
			return err
		}
		select {
		case <-l.begun:
			return ended(rec)
		case <-l.stopped:
			return errStopped
		}
	}
	go func() {
		defer close(l.full)
		l.rec, l.err = read(l.add, atEnd)
		if err := l.send(); l.err == nil { // records before damage
			l.err = err
		}
	}()
	return l
}

// replayAll replays the batches in order until there is no more or a replay fails. It returns when the
// reading has ended.
func (l *logAhead) replayAll(replay func(*recordBatch) error) (wal.Recovery, error) {
	close(l.begun)
	defer l.stop() // otherwise the reader would wait for a replay that panicked
	for b := range l.full {
		if err := replay(b); err != nil {
			l.stop()
			return l.rec, err
		}
		l.free <- b // there is room for all of them
	}
	return l.rec, l.err
}

// stop ends the reading, if it was begun, and waits until it has ended.
func (l *logAhead) stop() {
	if l == nil {
		return
	}
	l.once.Do(func() { close(l.stopped) })
	for b := range l.full {
		l.free <- b
	}
}

// add decodes one record.
func (l *logAhead) add(en wal.Entry) error {
	if l.cur == nil {
		l.cur = l.empty()
	}
	l.cur.add(&l.dec, &en)
	if l.cur.size >= aheadBytes || l.cur.size >= aheadStart && len(l.full) == 0 {
		return l.send() // so that nobody waits for more
	}
	return nil
}

// empty returns a batch without records. If too many batches are full, it waits for the replay.
func (l *logAhead) empty() *recordBatch {
	if l.made < aheadBatches {
		select {
		case b := <-l.free:
			return b.reset()
		default:
			l.made++
			return new(recordBatch)
		}
	}
	return (<-l.free).reset()
}

// send hands the current batch to the replay.
func (l *logAhead) send() error {
	if l.cur != nil {
		l.full <- l.cur
		l.cur = nil
	}
	select {
	case <-l.stopped:
		return errStopped
	default:
		return nil
	}
}

// recordBatch is some records, decoded as far as that needs no index.
type recordBatch struct {
	records []decodedRecord
	ops     []decodedOp      // of all records
	values  []index.ValueLoc // of all operations
	slots   []index.Slot     // of an operation
	size    int              // memory it takes, about, with the entries
}

// decodedRecord is a record whose operations are the next of its batch.
type decodedRecord struct {
	lsn    base.LSN
	file   base.FileNum
	offset int64
	len    int   // of the payload
	time   int64 // unix µs
	ops    int
	err    error // why it could not be decoded
}

// decodedOp is an operation whose values are the next of its batch.
type decodedOp struct {
	kind    opKind
	flags   uint8 // of a partition
	id, key string
	tomb    []byte
	entry   *index.Entry // of opPut
	values  int
}

func (b *recordBatch) reset() *recordBatch {
	clear(b.ops) // which hold entries
	b.records, b.ops, b.values, b.size = b.records[:0], b.ops[:0], b.values[:0], 0
	return b
}

// add decodes one record. The batch keeps nothing of its payload.
func (b *recordBatch) add(dec *recordDecoder, en *wal.Entry) {
	r := decodedRecord{lsn: en.LSN, file: en.File, offset: en.Offset, len: len(en.Payload)}
	ops, values := len(b.ops), len(b.values)
	rec, err := dec.Decode(en.Payload)
	if err == nil {
		r.time = rec.time
		for i := range rec.ops {
			if err = b.addOp(&rec.ops[i], en); err != nil {
				break
			}
		}
	}
	if err != nil {
		r.err, b.ops, b.values = err, b.ops[:ops], b.values[:values]
	}
	r.ops = len(b.ops) - ops
	b.records = append(b.records, r)
	b.size += dec.Size()
}

func (b *recordBatch) addOp(o *recordOp, en *wal.Entry) error {
	d := decodedOp{kind: o.kind, flags: o.flags, id: o.id, key: o.key, tomb: o.tombstone}
	if o.kind == opPut {
		d.entry = &index.Entry{Key: o.key, LSN: en.LSN, Flags: o.flags}
	}
	b.slots = b.slots[:0]
	for i := range o.slots {
		s := &o.slots[i]
		to := index.Slot{Name: s.name, Tag: s.tag}
		switch s.encoding {
		case slotEmpty:
			to.Ref = index.Ref{LSN: en.LSN, Ord: index.EmptyOrd}
		case slotRef:
			to.Ref = index.Ref{LSN: s.lsn, Ord: s.ord}
		case slotInline, slotPatch:
			ref, loc, err := slotLoc(s, en)
			if err != nil {
				return err
			}
			to.Ref = ref
			b.values = append(b.values, index.ValueLoc{Ref: ref, Loc: loc})
			d.values++
		}
		b.slots = append(b.slots, to)
	}
	if d.entry != nil {
		d.entry.Slots = index.PackSlots(b.slots)
	}
	b.ops = append(b.ops, d)
	return nil
}
