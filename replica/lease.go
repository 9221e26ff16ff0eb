package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket"
)

// lease is how a leader writes HEAD. Every write renews the lease.
type lease struct {
	o Options

	turn chan struct{} // holds one token, which a writer takes
	// Of the writer:
	beat  uint64
	tried *time.Duration // when the first write after head was sent, whose fate is not known

	mu   sync.Mutex
	head *head // as it stands in the bucket, as far as is known
	tag  bucket.ETag
	// sent is when the write of head was sent. From then on the lease counts, since a
	// challenger may have seen it a moment later, though the answer took long.
	sent time.Duration
	held bool // a write has landed
	over bool // another leader's HEAD was seen, or the lease is given back
}

func newLease(o Options, seen *head, tag bucket.ETag) *lease {
	l := &lease{o: o, turn: make(chan struct{}, 1), head: seen, tag: tag}
	if seen != nil {
		l.beat = seen.Beat
	}
	l.turn <- struct{}{}
	return l
}

// current returns HEAD, which the caller does not change.
func (l *lease) current() *head {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// holds reports whether the lease is held now, with a margin of 20 % for clocks that run at
// different rates.
func (l *lease) holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held && !l.over && l.o.Clock()-l.sent < l.o.TTL-l.o.TTL/5
}

// update changes HEAD, and returns once the bucket has the change, or ErrFenced once it has the
// HEAD of another. After any other error the change may land later: the next update finds out. So
// change may be applied to a HEAD that has it.
//
// All tries since the last known write have the same condition, so that at most one of them
// lands. Each has a beat of its own, so that a challenger sees that it did. Which one it was is
// told by owner, epoch and beat; the lease then counts from the sending of the first.
func (l *lease) update(ctx context.Context, change func(*head)) error {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.turn <- struct{}{} }()
	for try := 0; ; try++ {
		again, err := l.write(ctx, change)
		if !again || try == mostWrites {
			return err
		}
	}
}

// mostWrites is how often an update writes again at most. Each time a write has landed, so that
// the bucket answers, but does not say that it is durable.
const mostWrites = 3

// write tries once. It asks to be called again if a write has landed that lacks the change, or
// may not be durable.
func (l *lease) write(ctx context.Context, change func(*head)) (again bool, err error) {
	next := head{Format: HeadVersion, Store: l.o.Store}
	cond := bucket.Condition{IfAbsent: true}
	if l.head != nil {
		next, cond = l.head.clone(), bucket.Condition{IfMatch: l.tag}
	}
	change(&next)
	l.beat++
	next.Owner, next.Beat, next.TTL = l.o.Owner, l.beat, int64((l.o.TTL+time.Millisecond-1)/time.Millisecond) // rounded up
	if err := next.check(); err != nil {
		return false, fmt.Errorf("HEAD would be damaged: %w", err)
	}
	body, err := encodeText(&next)
	if err != nil {
		return false, err
	}
	if len(body) > maxHead {
		return false, fmt.Errorf("HEAD has %d bytes: retention does not run", len(body))
	}
	sent := l.o.Clock()
	tag, err := l.o.put(ctx, headKey, body, cond)
	if err == nil {
		l.adopt(&next, tag)
		l.renewed(sent)
		return false, nil
	}
	if errors.Is(err, bucket.ErrRefused) {
		return false, err
	}
	first := sent
	if l.tried != nil {
		first = *l.tried
	}
	l.tried = &first
	found, tag, readErr := l.o.get(ctx, headKey, maxHead, "")
	if errors.Is(readErr, bucket.ErrNotFound) && l.head == nil || readErr == nil && tag == l.tag {
		return false, err // as before
	}
	if errors.Is(readErr, bucket.ErrNotFound) {
		return false, ErrNoLineage
	}
	if readErr != nil {
		return false, errors.Join(err, readErr)
	}
	h, decodeErr := decodeHead(l.o.Store, found)
	if errors.Is(decodeErr, fault.ErrCorrupt) {
		return false, err
	}
	last := bytes.Equal(found, body)
	if !last {
		sent = first
	}
	if last || l.earlier(h, &next) {
		l.adopt(h, tag)
		if !errors.Is(err, bucket.ErrCondition) { // only who is refused knows that it is durable
			return true, err
		}
		if l.renewed(sent); last {
			return false, nil
		}
		return true, err
	}
	l.expire()
	return false, ErrFenced
}

// earlier reports whether a HEAD that was read is of a try before next.
func (l *lease) earlier(h, next *head) bool {
	return l.head != nil && h != nil && h.Owner == next.Owner && h.Epoch == next.Epoch && h.Beat > l.head.Beat && h.Beat < next.Beat
}

// adopt goes on from a HEAD that has landed. Until it is known to be durable the lease does not
// count from it: a challenger may never see it.
func (l *lease) adopt(h *head, tag bucket.ETag) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head, l.tag, l.tried = h, tag, nil
}

// renewed makes the lease count from when a write was sent.
func (l *lease) renewed(sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.held = sent, true
}

// expire ends the lease here.
func (l *lease) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}
