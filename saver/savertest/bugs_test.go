package savertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// bug is a mistake a saver could make, and that the kit must see.
type bug struct {
	name  string
	id    string // of a case that must fail
	plant func(m *mutant)
}

// everyTuple plants f at all reads.
func everyTuple(f func(tup *saver.Tuple)) func(m *mutant) {
	return func(m *mutant) { m.onTuple = f }
}

var bugs = slices.Concat(putBugs, writeBugs, listBugs, removeBugs, deltaBugs, valueBugs, ownerBugs)

var putBugs = []bug{
	{"put returns the caller's config", "CHK-01", func(m *mutant) {
		m.onConfig = func(req saver.PutRequest, cfg *saver.Config) {
			cfg.Configurable, cfg.Metadata = req.Config.Configurable, req.Config.Metadata
		}
	}},
	{"get returns the namespace it was asked for as root", "CHK-07", everyTuple(func(tup *saver.Tuple) { tup.Config.Namespace = "" })},
	{"scalars of the config are not metadata", "SAV-01", func(m *mutant) {
		m.onPut = func(req *saver.PutRequest) { req.Config.Metadata, req.Config.Configurable = nil, nil }
	}},
	{"the parent is lost", "CHK-10", everyTuple(func(tup *saver.Tuple) { tup.Parent = nil })},
	{"a re-put keeps the first parent", "CHK-10", func(m *mutant) {
		m.onPut = func(req *saver.PutRequest) {
			if old, err := m.Saver.GetTuple(context.Background(), req.Config.At(req.Checkpoint.ID)); err == nil {
				req.Config.CheckpointID = ""
				if old.Parent != nil {
					req.Config.CheckpointID = old.Parent.CheckpointID
				}
			}
		}
	}},
	{"an absent updated list comes back empty", "CHK-19", everyTuple(func(tup *saver.Tuple) {
		if tup.Checkpoint.Updated == nil {
			tup.Checkpoint.Updated = []string{}
		}
	})},
	{"v is always the current format", "CHK-19", func(m *mutant) { m.onPut = func(req *saver.PutRequest) { req.Checkpoint.V = 4 } }},
	{"integers become strings in versions", "CHK-04", everyTuple(func(tup *saver.Tuple) {
		for channel, v := range tup.Checkpoint.Versions {
			tup.Checkpoint.Versions[channel] = saver.StringVersion(v.String())
		}
	})},
	{"expect head is ignored", "expect head", func(m *mutant) { m.onPut = func(req *saver.PutRequest) { req.Config.ExpectHead = nil } }},
	{"expect head is looked up before the write, without a lock", "expect head", func(m *mutant) {
		var looking atomic.Int32
		m.onPut = func(req *saver.PutRequest) {
			if want := req.Config.ExpectHead; want != nil {
				tup, err := m.Saver.GetTuple(context.Background(), req.Config.At(""))
				if err == nil && tup.Config.CheckpointID == *want {
					req.Config.ExpectHead = nil
					looking.Add(1)
					for range 50 { // another looks too, or there is none
						if looking.Load() > 1 {
							break
						}
						time.Sleep(time.Millisecond)
					}
					looking.Add(-1)
				}
			}
		}
	}},
	{"values from another checkpoint are ignored", "forks", func(m *mutant) { m.onPut = func(req *saver.PutRequest) { req.ValuesFrom = nil } }},
	{"the writes of a request are lost", "request", func(m *mutant) { m.onPut = func(req *saver.PutRequest) { req.Writes = nil } }},
	{"the writes of a request come first, whatever becomes of it", "request", func(m *mutant) {
		m.onPut = func(req *saver.PutRequest) {
			for _, tw := range req.Writes {
				id := tw.CheckpointID
				if id == "" {
					id = req.Checkpoint.ID
				}
				_ = m.Saver.PutWrites(context.Background(), req.Config.At(id), tw.Writes, tw.TaskID, tw.TaskPath)
			}
		}
	}},
	{"a note is lost", "note", everyTuple(func(tup *saver.Tuple) { tup.Note = nil })},
	{"a note is metadata", "note", func(m *mutant) {
		m.onPut = func(req *saver.PutRequest) {
			if req.Note != nil {
				req.Metadata = maps.Clone(req.Metadata)
				req.Metadata["graph"] = req.Note.Graph
			}
		}
	}},
	{"a re-put keeps the first note", "note", func(m *mutant) {
		m.onPut = func(req *saver.PutRequest) {
			if old, err := m.Saver.GetTuple(context.Background(), req.Config.At(req.Checkpoint.ID)); err == nil {
				req.Note = old.Note
			}
		}
	}},
	{"a status is told by the note alone", "note", func(m *mutant) {
		m.onThreads = func(infos []saver.ThreadInfo) []saver.ThreadInfo {
			for i := range infos {
				if tup, err := m.Saver.GetTuple(context.Background(), saver.Config{ThreadID: infos[i].ThreadID}); err == nil {
					infos[i].Status = rules.StatusOf(tup.Note, nil)
				}
			}
			return infos
		}
	}},
	{"attempts are counted for the thread", "attempts", func(m *mutant) {
		m.onAttempt = func(cfg *saver.Config) { cfg.CheckpointID = "" }
	}},
	{"contexts are ignored", "cancelled", func(m *mutant) { m.unwaited = true }},
}

var writeBugs = []bug{
	{"pending writes in reverse", "WRT-02", everyTuple(func(tup *saver.Tuple) { slices.Reverse(tup.PendingWrites) })},
	{"pending writes by task id alone", "WRT-04", everyTuple(func(tup *saver.Tuple) {
		slices.SortStableFunc(tup.PendingWrites, func(a, b saver.PendingWrite) int {
			return saver.PendingWrite{TaskID: a.TaskID}.Compare(saver.PendingWrite{TaskID: b.TaskID})
		})
	})},
	{"the task path is lost", "WRT-04", func(m *mutant) { m.onWrites = func(_ *saver.Config, _ *[]saver.Write, path *string) { *path = "" } }},
	{"the last value wins on every channel", "WRT-09", remembered(func(w saver.PendingWrite) bool { return w.Index >= 0 }, false)},
	{"the first value wins on every channel", "WRT-09", remembered(func(w saver.PendingWrite) bool { return w.Index < 0 }, true)},
	{"no writes are nil, not empty", "CHK-18", everyTuple(func(tup *saver.Tuple) {
		if len(tup.PendingWrites) == 0 {
			tup.PendingWrites = nil
		}
	})},
	{"writes before their checkpoint are dropped", "writes", func(m *mutant) {
		m.onWrites = func(cfg *saver.Config, ws *[]saver.Write, _ *string) {
			if _, err := m.Saver.GetTuple(context.Background(), *cfg); err != nil {
				*ws = nil
			}
		}
	}},
	{"writes go to the root namespace", "WRT-07", func(m *mutant) {
		m.onWrites = func(cfg *saver.Config, _ *[]saver.Write, _ *string) { cfg.Namespace = "" }
	}},
	{"a write in thirty is lost", "concurrent", func(m *mutant) {
		n := 0
		m.onWrites = func(_ *saver.Config, ws *[]saver.Write, _ *string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if n++; n%30 == 0 {
				*ws = nil
			}
		}
	}},
}

// remembered makes every read show another value for the writes that which
// selects: the first or last ever written at their place.
func remembered(which func(w saver.PendingWrite) bool, first bool) func(m *mutant) {
	key := func(cfg saver.Config, task string, index int) string {
		return fmt.Sprintf("%q %q %q %q %d", cfg.ThreadID, cfg.Namespace, cfg.CheckpointID, task, index)
	}
	return func(m *mutant) {
		m.onWrites = func(cfg *saver.Config, ws *[]saver.Write, _ *string) {
			for i, w := range *ws {
				m.remember(key(*cfg, "task", saver.WriteIndex(w.Channel, i)), w.Value, first)
			}
		}
		m.onTuple = func(tup *saver.Tuple) {
			for i, w := range tup.PendingWrites {
				if v, ok := m.recall(key(tup.Config, w.TaskID, w.Index)); ok && which(w) {
					tup.PendingWrites[i].Value = v
				}
			}
		}
	}
}

var listBugs = []bug{
	{"ascending", "LST-02", func(m *mutant) {
		m.onListed = func(_ saver.Query, tups []*saver.Tuple) []*saver.Tuple { slices.Reverse(tups); return tups }
	}},
	{"grouped by thread", "LST-02", func(m *mutant) {
		m.onListed = func(_ saver.Query, tups []*saver.Tuple) []*saver.Tuple {
			slices.SortStableFunc(tups, func(a, b *saver.Tuple) int {
				return saver.Config{ThreadID: a.Config.ThreadID}.CompareListing(saver.Config{ThreadID: b.Config.ThreadID})
			})
			return tups
		}
	}},
	{"the filter is ignored", "LST-04", func(m *mutant) { m.onQuery = func(q *saver.Query) { q.Filter = nil } }},
	{"the limit is ignored", "LST-07", func(m *mutant) { m.onQuery = func(q *saver.Query) { q.Limit = 0 } }},
	{"the limit counts before the filter", "LST-07", func(m *mutant) {
		m.onQuery = func(q *saver.Query) {
			if (saver.Query{Filter: q.Filter}).Validate() == nil {
				q.Filter = nil
			}
		}
		m.onListed = func(q saver.Query, tups []*saver.Tuple) []*saver.Tuple {
			return slices.DeleteFunc(tups, func(tup *saver.Tuple) bool { return !tup.Metadata.Match(q.Filter) })
		}
	}},
	{"a nil filter value needs the key", "LST-11", func(m *mutant) {
		m.onListed = func(q saver.Query, tups []*saver.Tuple) []*saver.Tuple {
			return slices.DeleteFunc(tups, func(tup *saver.Tuple) bool {
				for key, v := range q.Filter {
					if _, ok := tup.Metadata[key]; v == nil && !ok {
						return true
					}
				}
				return false
			})
		}
	}},
	{"before includes the id", "LST-06", func(m *mutant) {
		m.onQuery = func(q *saver.Query) {
			if q.Before != "" {
				q.Before += "0"
			}
		}
	}},
	{"all namespaces are the root", "LST-03", func(m *mutant) {
		m.onQuery = func(q *saver.Query) {
			if q.Namespace == nil {
				q.Namespace = saver.InNamespace("")
			}
		}
	}},
	{"no results are all results", "LST-10", func(m *mutant) {
		m.onQuery = func(q *saver.Query) {
			if q.Limit == saver.NoResults {
				q.Limit = 0
			}
		}
	}},
	{"the id is ignored", "list", func(m *mutant) { m.onQuery = func(q *saver.Query) { q.CheckpointID = "" } }},
}

var removeBugs = []bug{
	{"delete leaves the namespaces", "DEL-01", func(m *mutant) {
		m.onDelete = func(thread string) bool {
			left := slices.DeleteFunc(m.all(saver.Query{ThreadID: thread}), func(tup *saver.Tuple) bool { return tup.Config.Namespace == "" })
			m.rebuild(thread, left)
			return len(left) > 0
		}
	}},
	{"deletion is forgotten at once", "deleted", func(m *mutant) {
		m.onDelete = func(thread string) bool { m.rebuild(thread, nil); return true }
	}},
	{"deletion is remembered for threads that never were", "deleted", func(m *mutant) {
		m.onDelete = func(thread string) bool {
			ctx := context.Background()
			_ = m.Saver.PutWrites(ctx, saver.Config{ThreadID: thread, CheckpointID: id(1)}, writes("x", 1), "x", "")
			return m.Saver.DeleteThread(ctx, thread) == nil
		}
	}},
	{"copy takes the newest alone", "DEL-05", func(m *mutant) {
		m.onCopied = func(_, dst string) { m.rebuild(dst, m.all(saver.Query{ThreadID: dst, Limit: 1})) }
	}},
	{"prune keeps the latest of the thread, not of each namespace", "DEL-07", func(m *mutant) {
		m.pruneAs = func(threads []string, strategy saver.PruneStrategy) bool {
			for _, thread := range threads {
				m.rebuild(thread, m.all(saver.Query{ThreadID: thread, Limit: 1}))
			}
			return strategy == saver.KeepLatest
		}
	}},
	{"prune cuts delta channels off", "prune", func(m *mutant) {
		m.pruneAs = func(threads []string, strategy saver.PruneStrategy) bool {
			for _, thread := range threads {
				newest := map[string]bool{}
				left := slices.DeleteFunc(m.all(saver.Query{ThreadID: thread}), func(tup *saver.Tuple) bool {
					again := newest[tup.Config.Namespace]
					newest[tup.Config.Namespace] = true
					return again
				})
				m.rebuild(thread, left)
			}
			return strategy == saver.KeepLatest
		}
	}},
	{"prune to nothing forgets which ids there were", "deleted", func(m *mutant) {
		m.pruneAs = func(threads []string, strategy saver.PruneStrategy) bool {
			if strategy != saver.PruneAll {
				return false
			}
			ctx := context.Background()
			_, err := m.Saver.Put(ctx, saver.Config{ThreadID: "small"}, saver.Checkpoint{V: 4, ID: "0"}, nil, nil)
			for _, thread := range threads { // a copy ends the memory of a deletion
				err = errors.Join(err, m.Saver.DeleteThread(ctx, thread), m.Saver.CopyThread(ctx, "small", thread), m.Saver.DeleteThread(ctx, thread))
			}
			return errors.Join(err, m.Saver.DeleteThread(ctx, "small")) == nil
		}
	}},
	{"prune does nothing", "DEL-07", func(m *mutant) { m.pruneAs = func([]string, saver.PruneStrategy) bool { return true } }},
	{"a dry run of retention is none", "retain", func(m *mutant) { m.onRetain = func(_ *saver.RetentionPolicy, dry *bool) { *dry = false } }},
	{"retention is always a dry run", "retain", func(m *mutant) { m.onRetain = func(_ *saver.RetentionPolicy, dry *bool) { *dry = true } }},
	{"retention looks at all threads", "retain", func(m *mutant) { m.onRetain = func(p *saver.RetentionPolicy, _ *bool) { p.ThreadIDs = nil } }},
	{"retention keeps one more", "retain", func(m *mutant) {
		m.onRetain = func(p *saver.RetentionPolicy, _ *bool) {
			if p.KeepLast > 0 {
				p.KeepLast++
			}
		}
	}},
	{"retention has no budget for the store", "retain", func(m *mutant) {
		m.onRetain = func(p *saver.RetentionPolicy, _ *bool) {
			if p.StoreBytes > 0 {
				p.StoreBytes = 1 << 40
			}
		}
	}},
	{"deleting runs looks at one thread", "DEL-03", func(m *mutant) {
		m.deleteRuns = func(runs []string) bool {
			for _, thread := range []string{"t"} {
				left := slices.DeleteFunc(m.all(saver.Query{ThreadID: thread}), func(tup *saver.Tuple) bool { return slices.Contains(runs, tup.Metadata.RunID()) })
				m.rebuild(thread, left)
			}
			return true
		}
	}},
	{"deleting runs under a lease looks at all threads", "DEL-03", func(m *mutant) { m.onOwned = func(owned **saver.Lease) { *owned = nil } }},
	{"deleting runs does not say what it keeps", "kept", func(m *mutant) {
		m.onRemoved = func(done *saver.Removal) { done.KeptList = saver.KeptList{} }
	}},
	{"delta channels are not told", "kept", func(m *mutant) { m.onPut = func(req *saver.PutRequest) { req.Note = nil } }},
	{"threads are not sorted", "threads", func(m *mutant) {
		m.onThreads = func(infos []saver.ThreadInfo) []saver.ThreadInfo { slices.Reverse(infos); return infos }
	}},
	{"the one thread is the first", "threads", func(m *mutant) {
		m.onThreadQuery = func(q *saver.ThreadQuery) {
			if q.ThreadID != "" {
				q.ThreadID, q.Prefix, q.Limit = "", q.ThreadID, 1
			}
		}
	}},
	{"threads are not selected by metadata", "threads", func(m *mutant) {
		m.onThreadQuery = func(q *saver.ThreadQuery) { q.Metadata = nil }
	}},
	{"only the first thread is erased", "erase", func(m *mutant) {
		m.onErase = func(threads *[]string) { *threads = (*threads)[:min(len(*threads), 1)] }
	}},
	{"interrupts are never seen", "threads", func(m *mutant) {
		m.onThreads = func(infos []saver.ThreadInfo) []saver.ThreadInfo {
			for i := range infos {
				infos[i].Status = ""
			}
			return infos
		}
	}},
	{"the head is of any namespace", "threads", func(m *mutant) {
		m.onThreads = func(infos []saver.ThreadInfo) []saver.ThreadInfo {
			for i := range infos {
				for _, tup := range m.all(saver.Query{ThreadID: infos[i].ThreadID, Limit: 1}) {
					infos[i].Head = tup.Config.CheckpointID
				}
			}
			return infos
		}
	}},
}

var deltaBugs = []bug{
	{"history newest first", "DLH-01", history(func(_ *mutant, _ saver.Config, h saver.DeltaHistory) saver.DeltaHistory {
		slices.Reverse(h.Writes)
		return h
	})},
	{"history without its first write", "DLH-08", history(func(_ *mutant, _ saver.Config, h saver.DeltaHistory) saver.DeltaHistory {
		if len(h.Writes) > 0 {
			h.Writes = h.Writes[1:]
		}
		return h
	})},
	{"history without seed", "DLH-02", history(func(_ *mutant, _ saver.Config, h saver.DeltaHistory) saver.DeltaHistory {
		h.Seed = saver.Value{}
		return h
	})},
	{"history with the target's writes", "DLH-03", history(func(m *mutant, cfg saver.Config, h saver.DeltaHistory) saver.DeltaHistory {
		if tup, err := m.Saver.GetTuple(context.Background(), cfg); err == nil {
			h.Writes = append(h.Writes, tup.PendingWrites...)
		}
		return h
	})},
	{"a stored nil is no seed", "DLH-10", history(func(_ *mutant, _ saver.Config, h saver.DeltaHistory) saver.DeltaHistory {
		if typed, err := h.Seed.Typed(); err == nil && typed.Kind == serde.KindNull {
			h.Seed = saver.Value{}
		}
		return h
	})},
}

func history(change func(*mutant, saver.Config, saver.DeltaHistory) saver.DeltaHistory) func(m *mutant) {
	return func(m *mutant) {
		m.onHistory = func(cfg saver.Config, all map[string]saver.DeltaHistory) {
			for channel, h := range all {
				all[channel] = change(m, cfg, h)
			}
		}
	}
}

var valueBugs = []bug{
	{"empty markers are dropped: an emptied channel keeps its parent's value", "empty", func(m *mutant) {
		m.onPut = func(req *saver.PutRequest) {
			old, err := m.Saver.GetTuple(context.Background(), req.Config)
			if req.Config.CheckpointID == "" || err != nil {
				return
			}
			for channel := range req.NewVersions {
				if v, ok := old.Checkpoint.Values[channel]; ok && req.Checkpoint.Values[channel].IsZero() {
					req.Checkpoint.Values[channel] = v
				}
			}
		}
	}},
	{"values are kept by version: forks mix", "forks", func(m *mutant) {
		key := func(cfg saver.Config, channel string, v saver.Version) string {
			return fmt.Sprintf("%q %q %q %v", cfg.ThreadID, cfg.Namespace, channel, v)
		}
		m.afterPut = func(req saver.PutRequest) {
			for channel, v := range req.NewVersions {
				if !req.Checkpoint.Values[channel].IsZero() {
					m.remember(key(req.Config, channel, v), req.Checkpoint.Values[channel], false)
				}
			}
		}
		m.onTuple = func(tup *saver.Tuple) {
			for channel := range tup.Checkpoint.Values {
				if v, ok := m.recall(key(tup.Config, channel, tup.Checkpoint.Versions[channel])); ok {
					tup.Checkpoint.Values[channel] = v
				}
			}
		}
	}},
	{"every value given is stored, new version or not", "CHK-11", func(m *mutant) {
		m.onPut = func(req *saver.PutRequest) {
			for channel := range req.Checkpoint.Values {
				if v, ok := req.Checkpoint.Versions[channel]; ok {
					req.NewVersions[channel] = v
				}
			}
		}
	}},
	{"a nil value is no value", "CHK-03", everyTuple(func(tup *saver.Tuple) {
		for channel, v := range tup.Checkpoint.Values {
			if typed, err := v.Typed(); err == nil && typed.Kind == serde.KindNull {
				delete(tup.Checkpoint.Values, channel)
			}
		}
	})},
	{"a value hands out the store's own bytes", "isolation", func(m *mutant) {
		shared := map[string]serde.Typed{}
		m.onTuple = func(tup *saver.Tuple) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for channel, v := range tup.Checkpoint.Values {
				own, _ := v.Typed()
				key := fmt.Sprint(tup.Config, channel, own)
				if _, ok := shared[key]; !ok {
					shared[key] = own
				}
				tup.Checkpoint.Values[channel] = saver.ValueTyped(shared[key])
			}
		}
	}},
	{"old packets are not migrated", "SAV-03", everyTuple(func(tup *saver.Tuple) { delete(tup.Checkpoint.Values, saver.ChannelTasks) })},
	{"a tuple follows later writes", "isolation", func(m *mutant) {
		var last *saver.Tuple
		m.onTuple = func(tup *saver.Tuple) {
			m.mu.Lock()
			defer m.mu.Unlock()
			last = tup
		}
		m.onWrites = func(_ *saver.Config, ws *[]saver.Write, _ *string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if last != nil {
				for _, w := range *ws {
					last.PendingWrites = append(last.PendingWrites, saver.PendingWrite{Channel: w.Channel, Value: w.Value})
				}
			}
		}
	}},
}
