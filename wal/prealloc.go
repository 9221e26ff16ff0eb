package wal

import (
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/base"
)

const (
	// minAhead is how many zeros a new file starts with.
	minAhead = 16 << 10
	// maxAhead bounds the zeros ahead of the write position.
	maxAhead = 4 << 20
	// stepSize bounds one write of zeros.
	stepSize = 256 << 10
	// largeBatch is the average size of batches from which on no zeros are written
	// ahead. A sync of so many bytes takes little longer for the metadata, and writing
	// as many zeros would take as long again.
	largeBatch = 32 << 10
	// pageSize is the alignment of the ends of steps.
	pageSize = 4 << 10
	// pauseBatches is how many batches the preallocator waits for after it found no
	// space.
	pauseBatches = 256
)

var zeroes [stepSize]byte

// preallocator works ahead of the committer, on a goroutine of its own (with Options.Inline on the
// committer's). It writes zeros behind the last frame, keeps a blank file ready for the next rotation,
// and closes retired files.
//
// A commit that overwrites blocks which are allocated already needs no change of the file system's
// metadata, and its sync takes half the time. The zeros are written in small steps, and each step is
// synced immediately: commits share the device, and one large sync would delay one of them by many
// milliseconds.
type preallocator struct {
	l    *Log
	kick chan struct{} // capacity 1
	stop chan struct{}
	done chan struct{}

	mu struct {
		sync.Mutex
		spare   *logFile   // zeros, no header yet
		retired []*logFile // finished, to be cut and closed
		pause   int        // batches to rest
	}
	average atomic.Int64 // moving average of the bytes of a batch
}

func newPreallocator(l *Log) *preallocator {
	p := &preallocator{l: l, kick: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	if l.opts.Inline {
		close(p.done)
		return p
	}
	go p.run()
	return p
}

func (p *preallocator) run() {
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

// close ends the goroutine. The caller then calls flushRetired.
func (p *preallocator) close() {
	close(p.stop)
	<-p.done
}

// target returns how many zeros should follow end: as many as there are bytes before it, so that a
// small log stays small, within the bounds above.
func (p *preallocator) target(end int64) int64 {
	if p.average.Load() >= largeBatch {
		return 0
	}
	ahead := min(maxAhead, max(minAhead, end))
	return max(0, min(ahead, p.l.opts.FileSize-end))
}

// spareSize is how many zeros a spare file starts with.
func (p *preallocator) spareSize() int64 {
	return min(stepSize, max(minAhead, p.l.opts.FileSize/4)) &^ (pageSize - 1)
}

// wantsSpare reports whether a file with this end is full enough to make the next one.
func (p *preallocator) wantsSpare(end int64) bool { return end > p.l.opts.FileSize/2 }

// afterBatch is called by the committer when it has written a batch of that many bytes
// to f. It wakes the preallocator if there is something to do.
func (p *preallocator) afterBatch(f *logFile, bytes int64) {
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

// work does all pending work.
func (p *preallocator) work() {
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

// step writes some zeros and syncs them. It reports whether more steps may follow.
func (p *preallocator) step(f *logFile) bool {
	f.wmu.Lock()
	from := max(f.end, f.zeroed)
	want := f.end + p.target(f.end) - from
	// A small deficit is not worth a sync: the frames are filling it up again.
	if want < max(pageSize, p.target(f.end)/4) || p.paused() {
		f.wmu.Unlock()
		return false
	}
	to := (from + min(want, stepSize-pageSize) + pageSize - 1) &^ (pageSize - 1)
	// The zeros make the file longer, and so would hide that somebody cut it.
	err := f.checkSize()
	if err == nil {
		_, err = f.f.WriteAt(zeroes[:to-from], from)
	}
	if err == nil {
		err = f.checkTrace()
	}
	if err == nil {
		f.zeroed = to
		f.grownLocked()
	}
	f.wmu.Unlock()
	if err != nil {
		// A full disk is for the committer to report, when a frame does not fit.
		p.backOff()
		if !isNoSpace(err) {
			_ = p.l.fail("write zeros to log "+f.info.Num.String(), err)
		}
		return false
	}
	p.l.count.preallocated.Add(to - from)
	return p.l.syncWith(f, f.f.SyncData, 0, 0) == nil
}

// makeSpare makes the next file while f still has room, so that a rotation has only the
// header to write.
func (p *preallocator) makeSpare(f *logFile) {
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
		// Nor is this for this goroutine to report: a commit that needs a file meets
		// the same error.
		p.backOff()
		return
	}
	p.mu.Lock()
	p.mu.spare = s
	p.mu.Unlock()
}

// takeSpare returns the spare file, to follow the file prev, or nil. File numbers grow
// along the log: recovery relies on it. So a spare that is older than prev, because the
// committer did not wait for it, is of no use.
func (p *preallocator) takeSpare(prev base.FileNum) *logFile {
	p.mu.Lock()
	s := p.mu.spare
	p.mu.spare = nil
	p.mu.Unlock()
	if s == nil {
		return nil
	}
	if s.info.Num < prev {
		p.l.discard(s)
		return nil
	}
	return s
}

// discardSpare removes the spare of a log that is being closed.
func (p *preallocator) discardSpare() {
	p.mu.Lock()
	s := p.mu.spare
	p.mu.spare = nil
	p.mu.Unlock()
	if s != nil {
		p.l.discard(s)
	}
}

// retire hands over a file that is no longer current.
func (p *preallocator) retire(f *logFile) {
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

// flushRetired cuts the zeros off the retired files and closes them. Nothing can be lost
// by that: all frames are synced, and a reader takes the end of the file from the next
// header or the close mark, never from the size.
func (p *preallocator) flushRetired() {
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

func (p *preallocator) paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.pause > 0
}

func (p *preallocator) backOff() {
	p.mu.Lock()
	p.mu.pause = pauseBatches
	p.mu.Unlock()
}
