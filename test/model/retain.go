package model

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/stele-go/stele/saver"
)

// retain compares what a policy removes. Bytes are left out: savers count what they
// store, each in its way.
func (m *machine) retain(t *rapid.T) {
	if _, ok := m.subject.Saver.(saver.Retainer); !ok {
		t.Skip("it does not retain")
	}
	p := saver.RetentionPolicy{KeepLast: rapid.SampledFrom([]int{0, 1, 1, 2, 3, -1}).Draw(t, "keep last")}
	if rapid.Bool().Draw(t, "some") {
		p.ThreadIDs = rapid.SliceOfN(thread, 0, 2).Draw(t, "threads")
	}
	if rapid.Bool().Draw(t, "by age") {
		p.MaxAge = time.Nanosecond
	}
	dry := rapid.Bool().Draw(t, "dry run")
	var reports []string
	m.change(t, fmt.Sprintf("retain %+v, dry run %v", p, dry), func(s saver.Saver) error {
		rep, err := s.(saver.Retainer).Retain(m.ctx, p, dry)
		reports = append(reports, fmt.Sprint(rep.Threads, rep.Checkpoints, rep.Writes))
		return err
	})
	for _, r := range reports[1:] {
		if r != reports[0] {
			t.Fatalf("retention reports differ (threads, checkpoints, writes): %q", reports)
		}
	}
}

func (m *machine) erase(t *rapid.T) {
	if _, ok := m.subject.Saver.(saver.Eraser); !ok {
		t.Skip("it does not erase")
	}
	id := thread.Draw(t, "thread")
	m.change(t, "erase "+id, func(s saver.Saver) error { return s.(saver.Eraser).Erase(m.ctx, id) })
}
