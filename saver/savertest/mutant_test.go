package savertest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

// mutant is the memory saver with hooks to plant bugs at.
type mutant struct {
	*memory.Saver
	onPut         func(req *saver.PutRequest)                              // before Put and PutRequest
	afterPut      func(req saver.PutRequest)                               // after one that succeeded
	onWrites      func(cfg *saver.Config, ws *[]saver.Write, path *string) // before PutWrites
	onConfig      func(req saver.PutRequest, cfg *saver.Config)
	onTuple       func(tup *saver.Tuple) // each one read
	onGet         func(cfg *saver.Config)
	onQuery       func(q *saver.Query)
	onListed      func(q saver.Query, tups []*saver.Tuple) []*saver.Tuple
	onDelete      func(thread string) bool // true: done, do not delete
	onHistory     func(cfg saver.Config, h map[string]saver.DeltaHistory)
	onThreads     func(infos []saver.ThreadInfo) []saver.ThreadInfo
	onErase       func(threads *[]string) // before Erase
	pruneAs       func(threads []string, strategy saver.PruneStrategy) bool
	onRetain      func(p *saver.RetentionPolicy, dryRun *bool) // before Retain
	onThreadQuery func(q *saver.ThreadQuery)
	onAttempt     func(cfg *saver.Config)
	onRemoved     func(done *saver.Removal) // by DeleteForRuns
	onCopied      func(src, dst string)
	deleteRuns    func(runs []string) bool
	onOwned       func(owned **saver.Lease)
	onOwn         func(ctx context.Context, thread string, wait bool) (*saver.Lease, error)
	unwaited      bool // ignore contexts

	mu   sync.Mutex
	memo map[string]serde.Typed // for bugs that need to remember
}

func newMutant(plant func(*mutant)) *mutant {
	m := &mutant{Saver: memory.New(memory.Options{}), memo: map[string]serde.Typed{}}
	plant(m)
	return m
}

func (m *mutant) ctx(ctx context.Context) context.Context {
	if m.unwaited {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (m *mutant) Put(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, md saver.Metadata, nv map[string]saver.Version) (saver.Config, error) {
	return m.PutRequest(ctx, saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: md, NewVersions: nv})
}

func (m *mutant) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	asked := req
	if m.onPut != nil {
		req.Checkpoint = req.Checkpoint.Clone()
		req.NewVersions = maps.Clone(req.NewVersions)
		m.onPut(&req)
	}
	cfg, err := m.Saver.PutRequest(m.ctx(ctx), req)
	if err != nil {
		return cfg, err
	}
	if m.afterPut != nil {
		m.afterPut(req)
	}
	if m.onConfig != nil {
		m.onConfig(asked, &cfg)
	}
	return cfg, nil
}

func (m *mutant) PutWrites(ctx context.Context, cfg saver.Config, ws []saver.Write, task, path string) error {
	if m.onWrites != nil {
		m.onWrites(&cfg, &ws, &path)
	}
	return m.Saver.PutWrites(m.ctx(ctx), cfg, ws, task, path)
}

func (m *mutant) GetTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	if m.onGet != nil {
		m.onGet(&cfg)
	}
	tup, err := m.Saver.GetTuple(m.ctx(ctx), cfg)
	if err == nil && m.onTuple != nil {
		m.onTuple(tup)
	}
	return tup, err
}

func (m *mutant) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	asked := q
	if m.onQuery != nil {
		m.onQuery(&q)
	}
	if m.onListed == nil && m.onTuple == nil {
		return m.Saver.List(m.ctx(ctx), q)
	}
	return func(yield func(*saver.Tuple, error) bool) {
		var all []*saver.Tuple
		for tup, err := range m.Saver.List(m.ctx(ctx), q) {
			if err != nil {
				yield(nil, err)
				return
			}
			if m.onTuple != nil {
				m.onTuple(tup)
			}
			all = append(all, tup)
		}
		if m.onListed != nil {
			all = m.onListed(asked, all)
		}
		for _, tup := range all {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			if !yield(tup, nil) {
				return
			}
		}
	}
}

func (m *mutant) Own(ctx context.Context, thread string, wait bool) (*saver.Lease, error) {
	if m.onOwn != nil {
		return m.onOwn(ctx, thread, wait)
	}
	return m.Saver.Own(m.ctx(ctx), thread, wait)
}

func (m *mutant) DeleteThread(ctx context.Context, thread string) error {
	if m.onDelete != nil && ctx.Err() == nil && m.onDelete(thread) {
		return nil
	}
	return m.Saver.DeleteThread(m.ctx(ctx), thread)
}

func (m *mutant) DeltaChannelHistory(ctx context.Context, cfg saver.Config, channels []string) (map[string]saver.DeltaHistory, error) {
	h, err := m.Saver.DeltaChannelHistory(m.ctx(ctx), cfg, channels)
	if err == nil && m.onHistory != nil {
		m.onHistory(cfg, h)
	}
	return h, err
}

func (m *mutant) Erase(ctx context.Context, threads ...string) error {
	if m.onErase != nil {
		m.onErase(&threads)
	}
	return m.Saver.Erase(m.ctx(ctx), threads...)
}

func (m *mutant) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	if m.onThreadQuery != nil {
		m.onThreadQuery(&q)
	}
	if m.onThreads == nil {
		return m.Saver.Threads(m.ctx(ctx), q)
	}
	return func(yield func(saver.ThreadInfo, error) bool) {
		var all []saver.ThreadInfo
		for info, err := range m.Saver.Threads(ctx, q) {
			if err != nil {
				yield(info, err)
				return
			}
			all = append(all, info)
		}
		for _, info := range m.onThreads(all) {
			if err := ctx.Err(); err != nil {
				yield(saver.ThreadInfo{}, err)
				return
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (m *mutant) Prune(ctx context.Context, threads []string, strategy saver.PruneStrategy) (saver.Removal, error) {
	if m.pruneAs != nil && ctx.Err() == nil && m.pruneAs(threads, strategy) {
		return saver.Removal{}, nil
	}
	return m.Saver.Prune(m.ctx(ctx), threads, strategy)
}

func (m *mutant) Retain(ctx context.Context, p saver.RetentionPolicy, dryRun bool) (saver.RetentionReport, error) {
	if m.onRetain != nil {
		m.onRetain(&p, &dryRun)
	}
	return m.Saver.Retain(m.ctx(ctx), p, dryRun)
}

func (m *mutant) CountAttempt(ctx context.Context, cfg saver.Config) (int, error) {
	if m.onAttempt != nil {
		m.onAttempt(&cfg)
	}
	return m.Saver.CountAttempt(m.ctx(ctx), cfg)
}

func (m *mutant) CopyThread(ctx context.Context, src, dst string) error {
	err := m.Saver.CopyThread(m.ctx(ctx), src, dst)
	if err == nil && m.onCopied != nil {
		m.onCopied(src, dst)
	}
	return err
}

func (m *mutant) DeleteForRuns(ctx context.Context, runs []string, owned *saver.Lease) (saver.Removal, error) {
	if m.deleteRuns != nil && ctx.Err() == nil && m.deleteRuns(runs) {
		return saver.Removal{}, nil
	}
	if m.onOwned != nil {
		m.onOwned(&owned)
	}
	done, err := m.Saver.DeleteForRuns(m.ctx(ctx), runs, owned)
	if m.onRemoved != nil {
		m.onRemoved(&done)
	}
	return done, err
}

// remember and recall keep typed bytes under a key.
func (m *mutant) remember(key string, v saver.Value, first bool) {
	typed, err := v.Encode(serde.Default())
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.memo[key]; !ok || !first {
		m.memo[key] = typed
	}
}

func (m *mutant) recall(key string) (saver.Value, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	typed, ok := m.memo[key]
	return saver.ValueTyped(typed), ok
}

// all lists everything that is there.
func (m *mutant) all(q saver.Query) []*saver.Tuple {
	var all []*saver.Tuple
	for tup, err := range m.Saver.List(context.Background(), q) {
		if err == nil {
			all = append(all, tup)
		}
	}
	return all
}

// rebuild makes thread anew from tuples of it.
func (m *mutant) rebuild(thread string, tups []*saver.Tuple) {
	ctx := context.Background()
	if len(m.all(saver.Query{ThreadID: thread})) == len(tups) {
		return
	}
	fresh := memory.New(memory.Options{})
	for _, tup := range slices.Backward(m.all(saver.Query{})) {
		if tup.Config.ThreadID == thread {
			continue
		}
		restore(ctx, fresh, tup)
	}
	for _, tup := range slices.Backward(tups) {
		restore(ctx, fresh, tup)
	}
	m.Saver = fresh // the bugs that rebuild are seen before calls run together
}

func restore(ctx context.Context, s *memory.Saver, tup *saver.Tuple) {
	cfg := tup.Config
	cfg.CheckpointID = ""
	if tup.Parent != nil {
		cfg.CheckpointID = tup.Parent.CheckpointID
	}
	_, _ = s.Put(ctx, cfg, tup.Checkpoint, tup.Metadata, tup.Checkpoint.Versions)
	for _, w := range tup.PendingWrites {
		_ = s.PutWrites(ctx, tup.Config, []saver.Write{{Channel: w.Channel, Value: w.Value}}, w.TaskID, w.TaskPath)
	}
}
