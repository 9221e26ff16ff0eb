package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// dump is everything a saver answers about what it stores, a hash of every value
// included, in a canonical text: two savers in the same state give the same text.
func dump(ctx context.Context, s full) (string, error) {
	d := dumper{ctx: ctx, s: s}
	heads := map[string]bool{}
	for info, err := range s.Threads(ctx, saver.ThreadQuery{}) {
		if err != nil {
			return "", fmt.Errorf("threads: %w", err)
		}
		d.line("thread %s head %s updated %d status %q graph %q next %q", info.ThreadID, info.Head, info.UpdatedAt.UnixMicro(), info.Status, info.Graph, info.Next)
	}
	for tup, err := range s.List(ctx, saver.Query{}) {
		if err != nil {
			return "", fmt.Errorf("list: %w", err)
		}
		if err := d.tuple(tup); err != nil {
			return "", err
		}
		cfg := tup.Config
		if at := cfg.ThreadID + "/" + cfg.Namespace; !heads[at] {
			heads[at] = true // ids descend, so this is the newest
			if err := d.latest(cfg); err != nil {
				return "", err
			}
		}
	}
	if k, ok := s.(keeper); ok {
		if err := d.items(k.local()); err != nil {
			return "", err
		}
	}
	if c, ok := s.(cacher); ok {
		if err := d.entries(c.kept()); err != nil {
			return "", err
		}
	}
	return d.b.String(), nil
}

type dumper struct {
	ctx context.Context
	s   full
	b   strings.Builder
}

func (d *dumper) line(format string, args ...any) {
	fmt.Fprintf(&d.b, format, args...)
	d.b.WriteByte('\n')
}

// latest compares the newest checkpoint, and the same one by its id, with the one
// that List showed.
func (d *dumper) latest(cfg saver.Config) error {
	for _, at := range []saver.Config{{ThreadID: cfg.ThreadID, Namespace: cfg.Namespace}, cfg} {
		tup, err := d.s.GetTuple(d.ctx, at)
		if err != nil {
			return fmt.Errorf("get %s %q %s, which List showed: %w", at.ThreadID, at.Namespace, at.CheckpointID, err)
		}
		if tup.Config.CheckpointID != cfg.CheckpointID {
			return fmt.Errorf("get %s %q %q gives %s, the newest is %s", at.ThreadID, at.Namespace, at.CheckpointID, tup.Config.CheckpointID, cfg.CheckpointID)
		}
		if at.CheckpointID == "" {
			continue
		}
		if err := d.tuple(tup); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) tuple(tup *saver.Tuple) error {
	cfg, cp := tup.Config, tup.Checkpoint
	d.line("checkpoint %s %q %s v%d %s", cfg.ThreadID, cfg.Namespace, cfg.CheckpointID, cp.V, cp.TS)
	if tup.Parent != nil {
		d.line(" parent %s", tup.Parent.CheckpointID)
	}
	if tup.Note != nil {
		d.line(" note %+v", *tup.Note)
	}
	for _, k := range slices.Sorted(maps.Keys(tup.Metadata)) {
		d.line(" metadata %s %v", k, tup.Metadata[k])
	}
	for _, channel := range slices.Sorted(maps.Keys(cp.Versions)) {
		d.line(" channel %s %s", channel, cp.Versions[channel])
		if err := d.value(cp.Values[channel]); err != nil {
			return fmt.Errorf("channel %s of %s %q %s: %w", channel, cfg.ThreadID, cfg.Namespace, cfg.CheckpointID, err)
		}
	}
	for _, w := range tup.PendingWrites {
		d.line(" write %s %s %d %q", w.TaskID, w.Channel, w.Index, w.TaskPath)
		if err := d.value(w.Value); err != nil {
			return fmt.Errorf("write on %s of %s %q %s: %w", w.Channel, cfg.ThreadID, cfg.Namespace, cfg.CheckpointID, err)
		}
	}
	return nil
}

func (d *dumper) value(v saver.Value) error {
	if v.IsZero() {
		return nil
	}
	t, err := v.Typed()
	if err != nil {
		return err
	}
	d.line("  %s %d %016x", t.Kind, len(t.Data), xxhash.Sum64(t.Data))
	return nil
}

// class reduces an error to what callers can tell by errors.Is.
func class(err error) string {
	for _, e := range []error{saver.ErrThreadDeleted, saver.ErrThreadExists, saver.ErrNotFound, store.ErrNotFound, saver.ErrInvalid,
		saver.ErrConflict, saver.ErrTooLarge, fault.ErrPoisoned, fault.ErrDiskFull, saver.ErrCorrupt, saver.ErrClosed} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	if err != nil {
		return "other: " + err.Error()
	}
	return "ok"
}

// difference is the first line in which two dumps differ.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		a, b := "(end)", "(end)"
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			return fmt.Sprintf("line %d: %.120q, want %.120q", i, a, b)
		}
	}
	return "none"
}
