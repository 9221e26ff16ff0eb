package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// ruled is a bucket with rules.
type ruled struct {
	bucket.Bucket
	err      error
	prefixes []string // that it was asked for
	bounded  bool
}

func (r *ruled) CheckRules(ctx context.Context, prefixes ...string) error {
	r.prefixes = prefixes
	_, r.bounded = ctx.Deadline()
	return r.err
}

// TestProbeRules: a bucket whose rule takes objects away is refused before anything is put there. One that does not tell its rules is
// not, and the log says so.
func TestProbeRules(t *testing.T) {
	lost := errors.New("no answer")
	for _, c := range []struct {
		says, want error
		log        bool
	}{
		{nil, nil, false},
		{fmt.Errorf("%w: why", bucket.ErrUnfit), bucket.ErrUnfit, false},
		{fmt.Errorf("%w: no right to", bucket.ErrRefused), nil, true},
		{lost, ErrAway, false},
	} {
		s, log := buckettest.NewSim(nil), bytes.Buffer{}
		b := &ruled{Bucket: s.Client("a"), err: c.says}
		err := Probe(t.Context(), Options{Bucket: b}, slog.New(slog.NewTextHandler(&log, nil)))
		if !errors.Is(err, c.want) || c.want != nil && !errors.Is(err, c.says) {
			t.Errorf("it says %v: %v, and %v is wanted", c.says, err, c.want)
		}
		if asked := len(s.History()) > 0; asked != (c.want == nil) {
			t.Errorf("it says %v: other calls: %v", c.says, asked)
		}
		if c.log != strings.Contains(log.String(), "no right to") || !c.log && log.Len() > 0 {
			t.Errorf("it says %v: the log says %q", c.says, &log)
		}
		if !b.bounded {
			t.Error("the wait has no bound")
		}
	}
}

// TestProbeRulesOfAll: rules are asked for with the key of whatever a lineage puts.
func TestProbeRulesOfAll(t *testing.T) {
	s := buckettest.NewSim(nil)
	b := &ruled{Bucket: s}
	if err := Probe(t.Context(), Options{Bucket: b}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, s, "a")
	l := m.begin(Sync)
	m.ship(l, "one")
	_, err := l.o.create(t.Context(), l.FileKey("state"), []byte("x"))
	_, perr := TakePin(t.Context(), l.o, Position{Epoch: 1})
	page, lerr := s.List(t.Context(), "", "")
	if err := errors.Join(err, perr, lerr); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, e := range page {
		i := slices.IndexFunc(b.prefixes, func(p string) bool { return strings.HasPrefix(e.Key, p) })
		if i < 0 {
			t.Fatalf("%s begins with none of %q", e.Key, b.prefixes)
		}
		kinds[b.prefixes[i]] = true
	}
	if len(kinds) != len(b.prefixes) {
		t.Errorf("there are %v, and %q are asked for", kinds, b.prefixes)
	}
}
