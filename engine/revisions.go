package engine

import (
	"container/list"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/delta"
	"github.com/stele-go/stele/index"
)

// Series names a sequence of values, each of which is likely to resemble the one
// before: a channel of a partition. Group is for callers whose partitions have parts.
// Names are compared, never stored.
type Series struct{ Partition, Group, Name string }

const (
	// chainCost bounds the total size of the patches of one run, in sizes of the value: a read applies
	// all of them.
	chainCost = 2
	// entryCost is about what an entry of the cache takes besides its bytes.
	entryCost = 256
)

// revision is the last published value of a series. It is immutable, except for pause, and for its
// place, which the commit that stores it sets before it is published.
type revision struct {
	series Series
	family uint64
	ref    index.Ref
	key    string        // of the entry that holds it
	data   *delta.Pieces // nil while no patches are tried
	// runs are the patches that lead to this version, by level. begun is the version
	// with which the run of a level below the last one began; nil: this one.
	runs  [chainLevels]run
	begun [chainLevels - 1]*revision
	fails uint8 // attempts in a row that saved too little
	pause *atomic.Int32
}

// run is a number of patches that follow each other, and the bytes they take.
type run struct {
	n     int
	bytes int64
}

// size is the memory v takes.
func (v *revision) size() int64 {
	n := entryCost + int64(len(v.series.Partition)+len(v.series.Group)+len(v.series.Name))
	if v.data != nil {
		n += int64(v.data.Size(nil))
	}
	held := v.data
	for _, b := range v.begun {
		if b != nil {
			n += int64(b.data.Size(held)) + entryCost
			held = b.data
		}
	}
	return n
}

// start returns the version with which v's run of a level began.
func (v *revision) start(level int) *revision {
	if b := v.begun[level]; b != nil {
		return b
	}
	return v
}

// revisionCache keeps the last published value of each series, bounded by bytes. The least recently
// used are dropped; the next value of such a series is logged whole.
type revisionCache struct {
	mu     sync.Mutex
	max    int64
	size   int64
	series map[Series]*list.Element
	order  list.List
}

func newRevisionCache(bytes int64) *revisionCache {
	return &revisionCache{max: max(bytes, 0), series: map[Series]*list.Element{}}
}

// largest is the size of the largest value kept. Such a value takes half of the cache. As a rule it
// shares nearly all of its bytes with the values that its runs began with.
func (c *revisionCache) largest() int64 { return min(maxRevision, c.max/2) }

func (c *revisionCache) get(s Series) *revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.series[s]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*revision)
}

// put makes v the last of its series, unless a later one is.
func (c *revisionCache) put(v *revision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.series[v.series]; e != nil {
		old := e.Value.(*revision)
		if old.ref.Compare(v.ref) >= 0 {
			return
		}
		c.size += v.size() - old.size()
		e.Value = v
		c.order.MoveToFront(e)
	} else {
		c.size += v.size()
		c.series[v.series] = c.order.PushFront(v)
	}
	for c.size > c.max {
		old := c.order.Remove(c.order.Back()).(*revision)
		delete(c.series, old.series)
		c.size -= old.size()
	}
}

// bytes is the memory the cache takes.
func (c *revisionCache) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.size
}

// candidate is a value of a series that is not published yet.
type candidate struct {
	series Series
	data   *delta.Pieces // the value; nil if it is not kept
	prev   *revision     // the last one; nil if it is not known
	next   *revision     // what it becomes when it is stored
	base   *revision     // what patch is against
	level  int           // of patch
	patch  []byte        // nil: the value is to be stored whole
	sum    uint64        // of patch
	tried  bool
	run    int // Options.PatchRun
}

// Following has the last values of series among commits that are to be made together: the next
// one may be a patch against one of them. The zero Following is empty.
type Following struct{ last map[Series]*revision }

func (f *Following) get(s Series) (last *revision, ok bool) {
	if f == nil {
		return nil, false
	}
	last, ok = f.last[s]
	return last, ok
}

func (f *Following) set(v *revision) {
	if f == nil {
		return
	}
	if f.last == nil {
		f.last = map[Series]*revision{}
	}
	f.last[v.series] = v
}

// NewRevision is NewValue for the next value of a series. The value will be stored as a patch against
// the last published one, if that saves enough. A series whose values have little in common is tried
// ever more rarely. The work is done here, on the caller's goroutine.
//
// Stats.VersionBytes counts what the store keeps for the next version: a copy of the bytes in which
// this value differs from the last one. A value of one part may be kept without a copy, so nobody may
// change it afterwards.
//
// A commit that is made together with others comes after the commits whose values f has, and the value
// is added to f. For a commit alone f is nil.
func (e *Engine) NewRevision(f *Following, s Series, parts ...[]byte) (Value, error) {
	size := sizeOf(parts)
	if e.Opts.NoPatches || size < int64(e.Opts.PatchMin) || size > e.revisions.largest() {
		return NewValue(parts...)
	}
	prev, pending := f.get(s)
	if !pending {
		prev = e.revisions.get(s)
	}
	if prev != nil && prev.pause != nil && prev.pause.Add(-1) >= 0 {
		return NewValue(parts...)
	}
	d := &candidate{series: s, prev: prev, run: e.Opts.PatchRun}
	var was *delta.Pieces
	if prev != nil {
		was = prev.data
	}
	v := Value{size: size, candidate: d}
	d.data, v.sum = delta.Divide(was, parts...)
	v.parts = d.data.Parts()
	if was != nil && (pending || e.flusher.mayBeBase(prev.ref)) {
		d.against(prev, v.sum)
	}
	d.next = d.version()
	f.set(d.next)
	return v, nil
}

// against makes the patch against the last version. If the run of patches that this one ends has become
// too long or too large, it makes the patch against the version that the run began with, and so on for
// each level.
func (d *candidate) against(prev *revision, sum uint64) {
	d.tried = true
	size := int64(d.data.Len())
	most := int(size - size/4) // a patch saves a quarter or is not made
	to := prev
	for level := range chainLevels {
		if to.runs[level].n < d.longest(level) {
			p := delta.Between(to.data, d.data, sum, most)
			if p == nil {
				return
			}
			if to.runs[level].bytes+int64(len(p)) <= chainCost*size {
				d.base, d.level, d.patch, d.sum = to, level, p, base.Checksum(0, p)
				return
			}
		}
		if level < chainLevels-1 {
			to = to.start(level)
		}
	}
}

// longest is how many patches a run of a level has at most.
func (d *candidate) longest(level int) int {
	return [chainLevels]int{d.run, outerChain, index.MaxChain - outerChain - d.run}[level]
}

// pauses has, by the number of failures in a row, how many values of a series are not tried.
var pauses = [...]int32{0, 3, 15, 63}

// version returns the revision that the candidate becomes, assuming that its patch is stored if it has
// one.
func (d *candidate) version() *revision {
	v := &revision{series: d.series, data: d.data}
	switch {
	case d.patch != nil:
		v.runs = d.base.runs
		clear(v.runs[:d.level])
		v.runs[d.level].n++
		v.runs[d.level].bytes += int64(len(d.patch))
		for level := d.level; level < len(v.begun); level++ {
			v.begun[level] = d.base.start(level)
		}
	case d.prev != nil:
		v.fails = d.prev.fails
		if d.tried && d.prev.runs[0].n < d.run {
			v.fails = min(v.fails+1, uint8(len(pauses)-1))
			v.data, v.pause = nil, new(atomic.Int32)
			v.pause.Store(pauses[v.fails])
		}
	}
	return v
}

// stored sets where the candidate was stored, and whether as a patch. Candidates that follow it in
// commits made together assumed a patch, so they may count too many patches.
func (d *candidate) stored(family uint64, ref index.Ref, key string, patched bool) {
	v := d.next
	v.family, v.ref, v.key = family, ref, key
	if d.patch != nil && !patched {
		v.runs, v.begun, v.fails = [chainLevels]run{}, [chainLevels - 1]*revision{}, d.prev.fails
	}
}

// publishRevisions makes the values of a commit that is visible the last of their series.
func (e *Engine) publishRevisions(tx *Tx) {
	for i := range tx.values {
		if v := &tx.values[i]; v.val.candidate != nil {
			e.revisions.put(v.val.candidate.next)
		}
	}
}

// liveBase reports whether b may be the base of a value that is about to be put
// into t. "Bases" at Store says why not every value may.
func (e *Engine) liveBase(t *index.Partition, b *revision) bool {
	if b.family != t.Family.ID || !e.flusher.mayBeBase(b.ref) {
		return false
	}
	it := t.Get(b.key)
	return it != nil && it.Slots.Contain(func(r index.Ref) bool { return r == b.ref })
}
