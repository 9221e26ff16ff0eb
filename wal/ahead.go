package wal

import (
	"errors"
	"sync"
)

// The reading of the log may run ahead of the visits by so many batches of so many
// bytes of payload each: then the copy of the end of the log is made while the last of
// a few thousand records are visited.
const (
	aheadBatches = 8
	aheadBytes   = 256 << 10
	aheadStart   = 16 << 10 // of a batch when no other waits for its visits
)

// errVisited ends the reading after a visit has failed. Nobody sees it.
var errVisited = errors.New("a visit failed")

// ahead reads the log on a goroutine of its own, and visits the records on that of
// the caller. It returns when both have ended.
func (rv *recoverer) ahead(visit func(Entry) error) error {
	q := &visitQueue{full: make(chan *visitBatch, aheadBatches), free: make(chan *visitBatch, aheadBatches), failed: make(chan struct{})}
	rv.visit = q.add
	var readErr error
	go func() {
		defer close(q.full)
		readErr = rv.run()
		if err := q.send(); readErr == nil {
			readErr = err
		}
		if readErr == nil {
			readErr = rv.ended()
		}
	}()
	defer q.drain() // else the reader would wait for one that panicked
	if err := q.visitAll(visit); err != nil {
		return err
	}
	return readErr
}

// visitQueue hands records from the goroutine that reads them to the one that visits
// them, in their order.
type visitQueue struct {
	full   chan *visitBatch
	free   chan *visitBatch // visited, to be filled again
	failed chan struct{}    // closed when no more is visited
	once   sync.Once        // closes it
	made   int              // how many batches there are
	cur    *visitBatch      // being filled; may be nil
}

// visitAll visits what is added until there is no more, or until a visit fails.
func (q *visitQueue) visitAll(visit func(Entry) error) error {
	for b := range q.full {
		if err := q.visit(b, visit); err != nil {
			return err
		}
	}
	return nil
}

func (q *visitQueue) visit(b *visitBatch, visit func(Entry) error) error {
	defer q.done(b)
	for _, en := range b.entries {
		if err := visit(en); err != nil {
			return err
		}
	}
	return nil
}

// drain ends the visits, and waits for the reader.
func (q *visitQueue) drain() {
	q.once.Do(func() { close(q.failed) })
	for b := range q.full {
		q.done(b)
	}
}

// done gives a batch back. There is room for all of them.
func (q *visitQueue) done(b *visitBatch) {
	if b.visited != nil {
		close(b.visited)
		return
	}
	q.free <- b
}

// visitBatch is some records, with payloads of their own.
type visitBatch struct {
	entries []Entry
	bytes   []byte
	visited chan struct{} // closed then, if the payload is the reader's; else nil
}

// size is the memory it takes, about.
func (b *visitBatch) size() int {
	const entry = 64 // with the payload, which is in bytes, a little more than that
	return len(b.bytes) + entry*len(b.entries)
}

// add hands on one record. A large one is not copied, and waited for.
func (q *visitQueue) add(en Entry) error {
	if len(en.Payload) > aheadBytes {
		if err := q.send(); err != nil {
			return err
		}
		b := &visitBatch{entries: []Entry{en}, visited: make(chan struct{})}
		q.full <- b
		<-b.visited
		return q.failure()
	}
	if q.cur != nil && q.cur.size()+len(en.Payload) > aheadBytes {
		if err := q.send(); err != nil {
			return err
		}
	}
	if q.cur == nil {
		q.cur = q.empty()
	}
	b := q.cur
	from := len(b.bytes)
	b.bytes = append(b.bytes, en.Payload...) // never beyond its capacity: visits refer to it
	en.Payload = b.bytes[from:len(b.bytes):len(b.bytes)]
	b.entries = append(b.entries, en)
	if b.size() >= aheadStart && len(q.full) == 0 {
		return q.send() // so that nobody waits for more
	}
	return nil
}

// empty is a batch without records. It waits for the visits where too many have none.
func (q *visitQueue) empty() *visitBatch {
	if q.made < aheadBatches {
		select {
		case b := <-q.free:
			return b.reset()
		default:
			q.made++
			return &visitBatch{bytes: make([]byte, 0, aheadBytes)}
		}
	}
	return (<-q.free).reset()
}

func (b *visitBatch) reset() *visitBatch {
	b.entries, b.bytes = b.entries[:0], b.bytes[:0]
	return b
}

// send hands on what was added.
func (q *visitQueue) send() error {
	if q.cur != nil {
		q.full <- q.cur
		q.cur = nil
	}
	return q.failure()
}

func (q *visitQueue) failure() error {
	select {
	case <-q.failed:
		return errVisited
	default:
		return nil
	}
}
