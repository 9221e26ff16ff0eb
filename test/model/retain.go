package model

import (
	"fmt"
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/saver"
)

// retain compares what a policy removes. Bytes are left out: savers count what they
// store, each in its way.
func (m *machine) retain(t *rapid.T) {
	p := saver.RetentionPolicy{KeepLast: rapid.SampledFrom([]int{0, 1, 1, 2, 3, -1}).Draw(t, "keep last")}
	if rapid.Bool().Draw(t, "some") {
		p.ThreadIDs = rapid.SliceOfN(thread, 0, 2).Draw(t, "threads")
	}
	if rapid.Bool().Draw(t, "by age") {
		p.MaxAge = time.Nanosecond
	}
	dry := rapid.Bool().Draw(t, "dry run")
	var reports []string
	said, refused := m.subject.Saver.Retain(m.ctx, p, true)
	m.change(t, fmt.Sprintf("retain %+v, dry run %v", p, dry), func(s saver.Saver) error {
		rep, err := s.Retain(m.ctx, p, dry)
		reports = append(reports, fmt.Sprintf("%d %d %d %+v", rep.Threads, rep.Checkpoints, rep.Writes, rep.KeptList))
		if s == m.subject.Saver && (decided(rep) != decided(said) || outcome(err) != outcome(refused)) {
			return fmt.Errorf("a dry run said %+v, %w; it is %+v, %w", said, refused, rep, err)
		}
		return err
	})
	for _, r := range reports[1:] {
		if r != reports[0] {
			t.Fatalf("retention reports differ (threads, checkpoints, writes, kept): %q", reports)
		}
	}
}

// decided is what a report says without bytes. A flush beside the calls may store a value as a
// patch of another, so that it is freed or not: the figures of a dry run are those of its moment.
func decided(r saver.RetentionReport) string {
	r.Bytes, r.Left = 0, 0
	return fmt.Sprint(r)
}

func (m *machine) setTTL(t *rapid.T) {
	id := thread.Draw(t, "thread")
	ttl := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Millisecond, time.Hour, deletedMemory, 0, saver.NoTTL, math.MaxInt64, -2, 999}).Draw(t, "ttl")
	m.change(t, fmt.Sprintf("set the TTL of %s to %v", id, ttl), func(s saver.Saver) error { return s.SetTTL(m.ctx, id, ttl) })
}

// sweep compares how many threads expire, and what is left.
func (m *machine) sweep(t *rapid.T) {
	var expired []int
	m.change(t, "sweep", func(s saver.Saver) error {
		rep, err := s.Sweep(m.ctx)
		expired = append(expired, rep.Expired)
		return err
	})
	if expired[0] != expired[1] {
		t.Fatalf("%d threads expired in the model, %d in the saver", expired[0], expired[1])
	}
	if expired[0] > 0 {
		m.note("expired", "ok")
	}
}

func (m *machine) erase(t *rapid.T) {
	ids := rapid.SliceOfN(thread, 1, 3).Draw(t, "threads")
	m.change(t, fmt.Sprintf("erase %q", ids), func(s saver.Saver) error { return s.(saver.Eraser).Erase(m.ctx, ids...) })
}
