package wal

import "errors"

// A caller who finds the log with nothing to do is the committer for his record: it is
// prepared, written, synced and published on his own goroutine, and no other has to
// wake for it. That pays where one caller commits at a time: waking two goroutines
// takes as long as all else but the sync. Where batches have more records than one it
// would only make them smaller, so then nobody leads. What is queued meanwhile is left
// to the committer who has the turn.
//
// That one waits in rest, and what is the committer's is nobody's then: nothing is in
// the air or to be published, no batch is begun. The queue says that the log is free;
// whoever takes that back, under the queue's lock, is the committer: a caller, or
// the one who waits, when it wakes.

// lead commits r, with which queue.lead was called, and answers it. If it panics, by
// one of the log's callbacks, the log is poisoned: the caller may go on, and what the
// callback left undone is not known.
func (l *Log) lead(r *request) {
	done := false
	defer func() {
		if !done {
			l.w.batch, l.w.landed = &batch{}, nil
			_ = l.fail("commit", errNoReturn) // whoever asks next is told
		}
		l.q.led()
	}()
	if err := l.prepare(r); err != nil {
		r.finish(err)
	} else {
		l.commitBatch(true)
		l.settle()
	}
	done = true
}

var errNoReturn = errors.New("a callback did not return")

// rest waits until something is queued, or the log is to be told that it is idle.
func (l *Log) rest() {
	l.q.setFree(l.w.alone)
	for {
		idle := false
		select {
		case <-l.q.wake:
		case <-l.w.idle.C:
			idle = true
		}
		switch taken := l.q.take(); {
		case taken && idle:
			l.idleMark()
			return
		case taken:
			return
		case idle: // for later: a caller leads
			l.armIdle()
		}
	}
}

// setFree says that the committer waits, and whether a caller may lead.
func (q *queue) setFree(may bool) {
	q.mu.Lock()
	q.mu.free = may && q.mu.depth == 0 && !q.mu.closed
	q.mu.Unlock()
}

// take is the committer, back from waiting. It reports false if a caller leads.
func (q *queue) take() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.leads {
		return false
	}
	q.mu.free = false
	return true
}

// lead makes the caller, who has r, the committer. It reports false unless the log is
// free and nothing is queued.
func (q *queue) lead(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.mu.free || q.mu.depth > 0 {
		return false
	}
	q.mu.free, q.mu.leads = false, true
	r.state = stateTaken
	return true
}

// led ends what lead began.
func (q *queue) led() {
	q.mu.Lock()
	q.mu.leads = false
	q.mu.free = q.mu.depth == 0 && !q.mu.closed
	free := q.mu.free
	q.mu.Unlock()
	if !free {
		q.signal()
	}
}
