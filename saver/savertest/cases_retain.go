package savertest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/stele-go/stele/saver"
)

// retain applies a policy, after a dry run that must say the same and change
// nothing.
func (e *env) retain(p saver.RetentionPolicy) saver.RetentionReport {
	e.Helper()
	var dry saver.RetentionReport
	e.unchanged("a dry run", func() {
		var err error
		dry, err = e.s.Retain(e.ctx, p, true)
		e.ok("dry run", err)
	})
	rep, err := e.s.Retain(e.ctx, p, false)
	e.ok("retain", err)
	if rep.Threads != dry.Threads || rep.Checkpoints != dry.Checkpoints || rep.Writes != dry.Writes || rep.Bytes != dry.Bytes || rep.Left != dry.Left {
		e.Errorf("retain reports %+v, its dry run reported %+v", rep, dry)
	}
	return rep
}

// retainError checks that a policy is refused and that nothing goes.
func (e *env) retainError(p saver.RetentionPolicy, target error) error {
	e.Helper()
	var err error
	e.unchanged("a refused policy", func() { _, err = e.s.Retain(e.ctx, p, false) })
	e.fails("retain", err, target)
	return err
}

// noise is 480 bytes that are like no others and do not compress to less than half.
func noise(seed string) string {
	var b strings.Builder
	for b.Len() < 480 {
		sum := sha256.Sum256([]byte(seed + string(rune('a'+b.Len()/64))))
		b.WriteString(hex.EncodeToString(sum[:]))
	}
	return b.String()[:480]
}

// heavy puts checkpoints from, …, to of a thread, each with 480 bytes of its own
// and a pending write.
func (e *env) heavy(thread string, from, to int) {
	e.Helper()
	for n := from; n <= to; n++ {
		st := step{thread: thread, id: id(n), values: map[string]any{"v": noise(thread + id(n))}, vers: map[string]any{"v": n}}
		if n > from {
			st.parent = id(n - 1)
		}
		e.put(st)
		e.write(saver.Config{ThreadID: thread, CheckpointID: id(n)}, "task", "ch", n)
	}
}

var retainCases = []testCase{
	{id: "retain", name: "the last of each namespace stay, with their writes", fn: func(e *env) {
		e.heavy("t", 1, 5)
		e.put(step{ns: "sub", id: id(1)})
		e.put(step{ns: "sub", id: id(2), parent: id(1)})
		rep := e.retain(saver.RetentionPolicy{KeepLast: 2})
		e.equal("report", []any{rep.Threads, rep.Checkpoints, rep.Writes}, []any{1, 3, 3})
		e.listed(saver.Query{ThreadID: "t", Namespace: saver.InNamespace("")}, 5, 4)
		e.listed(saver.Query{ThreadID: "t", Namespace: saver.InNamespace("sub")}, 2, 1)
		e.pending(e.get(at(4)), "task", "ch", 4)
		e.gone(at(3))
		e.unchanged("again", func() { e.retain(saver.RetentionPolicy{KeepLast: 2}) })
	}},
	{id: "retain", name: "what a kept delta channel needs stays", fn: func(e *env) {
		e.deltas(8, map[int]any{1: "far", 4: "seed"})
		e.retain(saver.RetentionPolicy{KeepLast: 2})
		e.listed(saver.Query{ThreadID: "t"}, 8, 7, 6, 5, 4)
		e.history(head, "d", "seed", 4, 5, 6, 7)
		e.history(at(7), "d", "seed", 4, 5, 6)
	}},
	{id: "retain", name: "by age, the newest never", fn: func(e *env) {
		e.heavy("t", 1, 3) // their timestamps are those of the kit, long ago or not yet
		rep := e.retain(saver.RetentionPolicy{MaxAge: 200 * 365 * 24 * time.Hour})
		e.equal("checkpoints that are 200 years old", rep.Checkpoints, 0)
		for n, ts := range map[int]string{4: "1999-01-01T00:00:00+00:00", 5: "not a time", 6: "1999-01-01T00:00:00+00:00"} {
			req := e.request(step{id: id(n)})
			req.Checkpoint.TS = ts
			_, err := e.s.Put(e.ctx, req.Config, req.Checkpoint, req.Metadata, req.NewVersions)
			e.ok("put", err)
		}
		rep = e.retain(saver.RetentionPolicy{MaxAge: 20 * 365 * 24 * time.Hour})
		e.equal("old checkpoints", rep.Checkpoints, 1)
		e.listed(saver.Query{ThreadID: "t"}, 6, 5, 3, 2, 1)
	}},
	{id: "retain", name: "a budget for each thread", fn: func(e *env) {
		e.heavy("t", 1, 10)
		e.heavy("small", 1, 2)
		rep := e.retain(saver.RetentionPolicy{ThreadBytes: 3200})
		if left := len(e.list(saver.Query{ThreadID: "t"})); rep.Threads != 1 || left < 3 || left > 6 {
			e.Errorf("%d checkpoints of 480 bytes and what belongs to them stay within 3200 bytes; %+v", left, rep)
		}
		e.listed(saver.Query{ThreadID: "small"}, 2, 1)
		e.values(e.get(head), map[string]any{"v": noise("t" + id(10))})
	}},
	{id: "retain", name: "a budget for all threads takes the oldest anywhere", fn: func(e *env) {
		e.heavy("a", 1, 6)
		e.heavy("b", 11, 16)
		before := e.retain(saver.RetentionPolicy{StoreBytes: math.MaxInt64})
		e.equal("checkpoints within a large budget", before.Checkpoints, 0)
		rep := e.retain(saver.RetentionPolicy{StoreBytes: before.Left - before.Left/3})
		if rep.Left > before.Left-before.Left/3 || rep.Checkpoints < 3 || rep.Checkpoints > 5 {
			e.Errorf("of %d bytes, %+v", before.Left, rep)
		}
		e.equal("checkpoints of b", len(e.list(saver.Query{ThreadID: "b"})), 6)
	}},
	{id: "retain", name: "rules together", fn: func(e *env) {
		e.heavy("t", 1, 10)
		e.heavy("u", 1, 10)
		e.retain(saver.RetentionPolicy{ThreadIDs: []string{"t", "t", "nobody"}, KeepLast: 7, ThreadBytes: 1 << 20})
		e.listed(saver.Query{ThreadID: "t"}, 10, 9, 8, 7, 6, 5, 4)
		e.equal("checkpoints of u", len(e.list(saver.Query{ThreadID: "u"})), 10)
		e.unchanged("no threads", func() { e.retain(saver.RetentionPolicy{ThreadIDs: []string{}, KeepLast: 1}) })
	}},
	{id: "retain", name: "a budget smaller than what must stay says so", fn: func(e *env) {
		e.heavy("a", 1, 3)
		e.heavy("t", 1, 3)
		var be *saver.BudgetError
		err := e.retainError(saver.RetentionPolicy{KeepLast: 1, ThreadBytes: 100}, saver.ErrBudget)
		if !asBudget(err, &be) || be.ThreadID == "" || be.Least < 480 || be.Budget != 100 {
			e.Errorf("thread budget: %v", err)
		}
		err = e.retainError(saver.RetentionPolicy{StoreBytes: 500}, saver.ErrBudget)
		if !asBudget(err, &be) || be.ThreadID != "" || be.Least < 960 {
			e.Errorf("store budget: %v", err)
		}
		rep := e.retain(saver.RetentionPolicy{ThreadBytes: 100, StoreBytes: 500, CutAnyway: true})
		e.equal("checkpoints", rep.Checkpoints, 4)
		e.equal("threads over", len(rep.Over), 2)
		e.equal("store over", rep.StoreOver, true)
		e.listed(saver.Query{ThreadID: "t"}, 3)
	}},
	{id: "retain", name: "absurd policies are refused", fn: func(e *env) {
		e.heavy("t", 1, 3)
		for _, p := range []saver.RetentionPolicy{
			{}, {KeepLast: -1}, {MaxAge: -time.Hour}, {ThreadBytes: -1}, {StoreBytes: -1},
			{KeepLast: 1, StoreBytes: -1}, {MaxAge: math.MaxInt64}, {KeepLast: 1, ThreadIDs: []string{""}},
		} {
			e.retainError(p, saver.ErrInvalid)
		}
		e.retainError(saver.RetentionPolicy{KeepLast: 1, ThreadIDs: []string{strings.Repeat("x", 1<<20)}}, saver.ErrTooLarge)
	}},
	{id: "retain", name: "an interrupted head stays resumable", fn: func(e *env) {
		e.heavy("t", 1, 4)
		e.write(at(4), "task", saver.ChannelInterrupt, "?")
		e.retain(saver.RetentionPolicy{KeepLast: 1, MaxAge: time.Nanosecond})
		e.equal("interrupts", len(e.get(head).PendingWrites), 2)
	}},
}

func asBudget(err error, be **saver.BudgetError) bool { return errors.As(err, be) }
