package wal

import (
	"sync"
	"sync/atomic"
)

// Preallocation writes zeros ahead of the frames, because a commit that
// overwrites allocated blocks needs no metadata in its sync and takes half the
// time. It goes in small steps, each synced at once: one large sync beside
// commits would cost one of them many milliseconds.
const (
	// minAhead is how many zeros a new file starts with.
	minAhead = 16 << 10
	// maxAhead bounds the zeros ahead of the write position.
	maxAhead = 4 << 20
	// stepSize bounds one write of zeros.
	stepSize = 256 << 10
	// largeBatch is the size of batches, on average, from which no zeros are written
	// ahead: a sync of so much takes little longer for the metadata, and zeros as
	// many as the frames would take as long again to write.
	largeBatch = 32 << 10
	// pageSize is the grid on which steps end.
	pageSize = 4 << 10
	// pauseBatches is for how many batches the preparer rests after it found
	// no space.
	pauseBatches = 256
)

var zeroes [stepSize]byte

// preparer works ahead of the committer, on a goroutine of its own (with
// Options.Inline on the committer's): it writes zeros, keeps a spare file ready
// and closes sealed ones.
type preparer struct {
	l    *Log
	kick chan struct{} // capacity 1
	stop chan struct{}
	done chan struct{}

	mu struct {
		sync.Mutex
		spare   *logFile   // zeros, no header yet
		retired []*logFile // sealed, to be cut and closed
		pause   int        // batches to rest
	}
	average atomic.Int64 // bytes of a batch, the last ones counting most
}

func newPreparer(l *Log) *preparer {
	p := &preparer{l: l, kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	if l.opts.Inline {
		close(p.done)
		return p
	}
	go p.run()
	return p
}

func (p *preparer) run() {
	defer close(p.done)
	for {
		select {
		case <-p.kick:
			p.work()
		case <-p.stop:
			return
		}
	}
}

// close ends the goroutine. The caller then flushes what is retired.
func (p *preparer) close() {
	close(p.stop)
	<-p.done
}

// target is how many zeros shall lie ahead of end: as much as the file holds,
// so that a small log stays small, within the bounds above.
func (p *preparer) target(end int64) int64 {
	if p.average.Load() >= largeBatch {
		return 0
	}
	ahead := min(maxAhead, max(minAhead, end))
	return max(0, min(ahead, p.l.opts.FileSize-end))
}

// spareSize is how many zeros a spare file starts with.
func (p *preparer) spareSize() int64 {
	return min(stepSize, max(minAhead, p.l.opts.FileSize/4)) &^ (pageSize - 1)
}

// wantsSpare reports whether the file is far enough to make the next one.
func (p *preparer) wantsSpare(end int64) bool { return end > p.l.opts.FileSize/2 }

// afterBatch is called by the committer, which wrote bytes to f: it wakes the
// preparer if there is something to do.
func (p *preparer) afterBatch(f *logFile, bytes int64) {
	average := p.average.Load()
	p.average.Store(average + (bytes-average)/4)
	f.wmu.Lock()
	end, ahead := f.end, f.zeroed-f.end
	f.wmu.Unlock()
	p.mu.Lock()
	if p.mu.pause > 0 {
		p.mu.pause--
	}
	work := len(p.mu.retired) > 0
	if p.mu.pause == 0 {
		want := p.target(end)
		work = work || want > 0 && ahead < want/2 || p.wantsSpare(end) && p.mu.spare == nil
	}
	p.mu.Unlock()
	switch {
	case !work:
	case p.l.opts.Inline:
		p.work()
	default:
		select {
		case p.kick <- struct{}{}:
		default:
		}
	}
}

// work does all there is to do.
func (p *preparer) work() {
	p.flushRetired()
	if p.paused() || p.l.poisoned() != nil {
		return
	}
	f, _ := p.l.hold()
	if f == nil {
		return
	}
	defer f.busy.Done()
	for p.step(f) {
		select {
		case <-p.stop:
			return
		default:
		}
	}
	p.makeSpare(f)
}

// step writes and syncs one run of zeros ahead of f's end. It reports whether
// to go on.
func (p *preparer) step(f *logFile) bool {
	f.wmu.Lock()
	from := max(f.end, f.zeroed)
	want := f.end + p.target(f.end) - from
	// A small deficit is not worth a sync: the frames are filling it up again.
	if want < max(pageSize, p.target(f.end)/4) || p.paused() {
		f.wmu.Unlock()
		return false
	}
	to := (from + min(want, stepSize-pageSize) + pageSize - 1) &^ (pageSize - 1)
	_, err := f.f.WriteAt(zeroes[:to-from], from)
	if err == nil {
		f.zeroed = to
	}
	f.wmu.Unlock()
	if err != nil {
		// Zeros that did not fit are missed by nobody: the frames will say
		// themselves that the disk is full.
		p.rest()
		if !isNoSpace(err) {
			_ = p.l.fail("write zeros to log "+f.info.Num.String(), err)
		}
		return false
	}
	p.l.count.preallocated.Add(to - from)
	return p.l.syncWith(f, f.f.SyncData, 0, 0) == nil
}

// makeSpare makes the next file while f still has room, so that rotation only
// writes a header.
func (p *preparer) makeSpare(f *logFile) {
	f.wmu.Lock()
	want := p.wantsSpare(f.end)
	f.wmu.Unlock()
	p.mu.Lock()
	want = want && p.mu.spare == nil && p.mu.pause == 0
	p.mu.Unlock()
	if !want || p.l.poisoned() != nil {
		return
	}
	s, err := p.l.blankFile(p.spareSize())
	if err != nil {
		// Not this goroutine's to report: a commit that needs a file will meet
		// the same error.
		p.rest()
		return
	}
	p.mu.Lock()
	p.mu.spare = s
	p.mu.Unlock()
}

// takeSpare returns the spare file, or nil. A spare older than the current file
// (the committer did not wait for it) is of no use: file numbers grow along the
// chain.
func (p *preparer) takeSpare() *logFile {
	p.mu.Lock()
	s := p.mu.spare
	p.mu.spare = nil
	p.mu.Unlock()
	if s == nil {
		return nil
	}
	if cur := p.l.mu.cur; cur != nil && s.info.Num < cur.info.Num {
		p.l.discard(s)
		return nil
	}
	return s
}

// discardSpare removes the spare of a log that is being closed.
func (p *preparer) discardSpare() {
	p.mu.Lock()
	s := p.mu.spare
	p.mu.spare = nil
	p.mu.Unlock()
	if s != nil {
		p.l.discard(s)
	}
}

// retire hands over a file that is no longer current.
func (p *preparer) retire(f *logFile) {
	p.l.count.rotations.Add(1)
	p.mu.Lock()
	p.mu.retired = append(p.mu.retired, f)
	p.mu.Unlock()
	if p.l.opts.Inline {
		p.flushRetired()
		return
	}
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// flushRetired cuts unused zeros off the retired files and closes them. Neither
// can lose anything: all frames are synced, and readers take the end from the
// next header or the close mark, never from the size.
func (p *preparer) flushRetired() {
	p.mu.Lock()
	files := p.mu.retired
	p.mu.retired = nil
	p.mu.Unlock()
	for _, f := range files {
		f.busy.Wait()
		if f.zeroed > f.end && p.l.poisoned() == nil {
			_ = f.f.Truncate(f.end)
		}
		_ = f.f.Close()
	}
}

func (p *preparer) paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.pause > 0
}

func (p *preparer) rest() {
	p.mu.Lock()
	p.mu.pause = pauseBatches
	p.mu.Unlock()
}
