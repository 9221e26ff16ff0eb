package parity_test

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// model is the contract of package saver in its shortest form: lists that are
// searched from one end to the other. It shows that the recordings and the
// documented rules agree, whatever the real savers do, and it is what the lying
// savers of this test lie about.
type model struct {
	saver.Saver // nil: nobody calls the rest

	mu     sync.Mutex
	cps    []*saver.Tuple // one for each (thread, namespace, id)
	values []stored       // in the order of their puts
	writes []modelWrite   // in commit order
}

type stored struct {
	thread, ns, channel string
	version             saver.Version
	value               saver.Value // zero: the version has no value
}

type modelWrite struct {
	at saver.Config
	saver.PendingWrite
}

func (m *model) Put(_ context.Context, cfg saver.Config, cp saver.Checkpoint, md saver.Metadata, newVersions map[string]saver.Version) (saver.Config, error) {
	if err := (&saver.PutRequest{Config: cfg, Checkpoint: cp, NewVersions: newVersions}).Validate(); err != nil {
		return saver.Config{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for channel, v := range newVersions {
		m.values = append(m.values, stored{cfg.ThreadID, cfg.Namespace, channel, v, cp.Values[channel]})
	}
	at := cfg.At(cp.ID)
	parent := m.find(cfg)
	given := cp.Values
	cp.Values = map[string]saver.Value{}
	for channel, v := range cp.Versions {
		var value saver.Value
		if _, isNew := newVersions[channel]; isNew {
			value = given[channel]
		} else if parent != nil && cfg.CheckpointID != "" && parent.Checkpoint.Versions[channel] == v {
			value = parent.Checkpoint.Values[channel]
		} else {
			value = m.newest(cfg, channel, v)
		}
		if !value.IsZero() {
			cp.Values[channel] = value
		}
	}
	t := &saver.Tuple{Config: at, Checkpoint: cp, Metadata: md.Merge(cfg)}
	if cfg.CheckpointID != "" {
		p := cfg.At(cfg.CheckpointID)
		t.Parent = &p
	}
	m.cps = slices.DeleteFunc(m.cps, func(old *saver.Tuple) bool { return sameTriple(old.Config, at) })
	m.cps = append(m.cps, t)
	return at, nil
}

func sameTriple(a, b saver.Config) bool {
	return a.ThreadID == b.ThreadID && a.Namespace == b.Namespace && a.CheckpointID == b.CheckpointID
}

func (m *model) newest(cfg saver.Config, channel string, v saver.Version) (value saver.Value) {
	for _, s := range m.values {
		if s.thread == cfg.ThreadID && s.ns == cfg.Namespace && s.channel == channel && s.version == v {
			value = s.value
		}
	}
	return value
}

// find is the checkpoint cfg names, or the newest of its namespace.
func (m *model) find(cfg saver.Config) *saver.Tuple {
	var found *saver.Tuple
	for _, t := range m.cps {
		if t.Config.ThreadID != cfg.ThreadID || t.Config.Namespace != cfg.Namespace {
			continue
		}
		if cfg.CheckpointID == "" && (found == nil || t.Checkpoint.ID > found.Checkpoint.ID) || t.Checkpoint.ID == cfg.CheckpointID {
			found = t
		}
	}
	return found
}

func (m *model) answer(t *saver.Tuple) *saver.Tuple {
	out := *t
	out.PendingWrites = []saver.PendingWrite{}
	for _, w := range m.writes {
		if sameTriple(w.at, t.Config) {
			out.PendingWrites = append(out.PendingWrites, w.PendingWrite)
		}
	}
	out.PendingWrites = saver.ResolveWrites(out.PendingWrites)
	return &out
}

func (m *model) PutWrites(_ context.Context, cfg saver.Config, writes []saver.Write, taskID, taskPath string) error {
	if err := (saver.TaskWrites{TaskID: taskID, TaskPath: taskPath, Writes: writes}).Validate(cfg); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, w := range writes {
		pw := saver.PendingWrite{TaskID: taskID, Channel: w.Channel, Value: w.Value, TaskPath: taskPath, Index: saver.WriteIndex(w.Channel, i)}
		m.writes = append(m.writes, modelWrite{at: cfg.At(cfg.CheckpointID), PendingWrite: pw})
	}
	return nil
}

func (m *model) GetTuple(_ context.Context, cfg saver.Config) (*saver.Tuple, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.find(cfg); t != nil {
		return m.answer(t), nil
	}
	return nil, saver.ErrNotFound
}

func (m *model) List(_ context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	return func(yield func(*saver.Tuple, error) bool) {
		if err := q.Validate(); err != nil {
			yield(nil, err)
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		sorted := slices.SortedFunc(slices.Values(m.cps), func(a, b *saver.Tuple) int {
			return cmp.Or(cmp.Compare(b.Checkpoint.ID, a.Checkpoint.ID), cmp.Compare(a.Config.ThreadID, b.Config.ThreadID), cmp.Compare(a.Config.Namespace, b.Config.Namespace))
		})
		left := q.Limit
		for _, t := range sorted {
			if !selects(q, t) {
				continue
			}
			if left < 0 || !yield(m.answer(t), nil) {
				return
			}
			if left--; left == 0 {
				return
			}
			left = max(left, 0)
		}
	}
}

func selects(q saver.Query, t *saver.Tuple) bool {
	return (q.ThreadID == "" || q.ThreadID == t.Config.ThreadID) &&
		(q.Namespace == nil || *q.Namespace == t.Config.Namespace) &&
		(q.CheckpointID == "" || q.CheckpointID == t.Checkpoint.ID) &&
		(q.Before == "" || t.Checkpoint.ID < q.Before) &&
		t.Metadata.Match(q.Filter)
}

func (m *model) DeleteThread(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cps = slices.DeleteFunc(m.cps, func(t *saver.Tuple) bool { return t.Config.ThreadID == id })
	m.values = slices.DeleteFunc(m.values, func(s stored) bool { return s.thread == id })
	m.writes = slices.DeleteFunc(m.writes, func(w modelWrite) bool { return w.at.ThreadID == id })
	return nil
}

func (m *model) NextVersion(current saver.Version, _ string) (saver.Version, error) {
	return saver.NextVersion(current, nil)
}

// DeltaChannelHistory walks, as for any saver.
func (m *model) DeltaChannelHistory(ctx context.Context, cfg saver.Config, channels []string) (map[string]saver.DeltaHistory, error) {
	return rules.DeltaChannelHistory(ctx, m, cfg, channels)
}
