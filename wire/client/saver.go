package client

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/wire"
)

// NextVersion implements saver.Saver. It makes no call.
func (c *Client) NextVersion(current saver.Version, _ string) (saver.Version, error) {
	return saver.NextVersion(current, nil)
}

// Serializer implements saver.Saver.
func (c *Client) Serializer() serde.Serializer { return c.opts.Serializer }

// Put implements saver.Saver.
func (c *Client) Put(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, md saver.Metadata,
	newVersions map[string]saver.Version) (saver.Config, error) {
	return c.PutRequest(ctx, saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: md, NewVersions: newVersions})
}

// PutRequest implements saver.Saver. Changes are refused: they belong to a store of
// this process.
func (c *Client) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	if err := req.Validate(); err != nil {
		return saver.Config{}, err
	}
	if len(req.Changes) > 0 {
		return saver.Config{}, saver.Invalidf("changes[0]", "belongs to another store")
	}
	p := wire.PutOf(req)
	p.DeferSync = saver.SyncDeferred(ctx)
	a, _, err := ask[wire.PutAnswer](ctx, c, request{method: "put", writes: true, params: &p})
	return a.Config(), err
}

// PutWrites implements saver.Saver.
func (c *Client) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, taskID, taskPath string) error {
	if err := (saver.TaskWrites{TaskID: taskID, TaskPath: taskPath, Writes: writes}).Validate(cfg); err != nil {
		return err
	}
	p := wire.PutWrites{Config: cfg, Task: taskID, Path: taskPath, Writes: writes, DeferSync: saver.SyncDeferred(ctx)}
	_, _, err := c.call(ctx, request{method: "put_writes", writes: true, params: &p})
	return err
}

// owned gives a received value the client's serializer, and makes it safe from changes by callers.
func (c *Client) owned(v saver.Value) saver.Value {
	t, err := v.Typed()
	if err != nil {
		return v // no value
	}
	return saver.ValueShared(t, c.opts.Serializer)
}

func (c *Client) tuple(sent *wire.Tuple) *saver.Tuple {
	t := sent.Saver()
	for channel, v := range t.Checkpoint.Values {
		t.Checkpoint.Values[channel] = c.owned(v)
	}
	c.writes(t.PendingWrites)
	return t
}

func (c *Client) writes(writes []saver.PendingWrite) {
	for i := range writes {
		writes[i].Value = c.owned(writes[i].Value)
	}
}

// GetTuple implements saver.Saver. All values come with it.
func (c *Client) GetTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	p := wire.At{Config: cfg.At(cfg.CheckpointID)}
	got, _, err := ask[wire.Got](ctx, c, request{method: "get", params: &p})
	if err != nil {
		return nil, err
	}
	if got.Tuple == nil {
		return nil, saver.ErrNotFound
	}
	return c.tuple(got.Tuple), nil
}

// errStopped ends a listing whose caller has stopped.
var errStopped = errors.New("the listing was stopped")

// listing yields the elements of a streamed method.
func listing[T any](ctx context.Context, c *Client, method string, params any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		_, _, err := c.call(ctx, request{method: method, params: params, batch: func(item []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			v, err := wire.Decode[T](item)
			if err != nil {
				return err
			}
			if !yield(v, nil) {
				return errStopped
			}
			return nil
		}})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil && !errors.Is(err, errStopped) {
			var none T
			yield(none, err)
		}
	}
}

// List implements saver.Saver. The listing is one state of the store.
func (c *Client) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	if err := q.Validate(); err != nil {
		return func(yield func(*saver.Tuple, error) bool) { yield(nil, err) }
	}
	return func(yield func(*saver.Tuple, error) bool) {
		for t, err := range listing[wire.Tuple](ctx, c, "list", &q) {
			var tup *saver.Tuple
			if err == nil {
				tup = c.tuple(&t)
			}
			if !yield(tup, err) {
				return
			}
		}
	}
}

// empty is the answer of a method that answers nothing.
type empty struct{}

// write makes a call of wire.Threads that writes.
func write[T any](ctx context.Context, c *Client, method string, p wire.Threads) (T, error) {
	a, _, err := ask[T](ctx, c, request{method: method, writes: true, params: &p})
	return a, err
}

// DeleteThread implements saver.Saver.
func (c *Client) DeleteThread(ctx context.Context, threadID string) error {
	_, err := write[empty](ctx, c, "delete_thread", wire.Threads{Thread: threadID})
	return err
}

// Threads implements saver.Saver.
func (c *Client) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	if err := q.Validate(); err != nil {
		return func(yield func(saver.ThreadInfo, error) bool) { yield(saver.ThreadInfo{}, err) }
	}
	find := func(q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
		return listing[saver.ThreadInfo](ctx, c, "threads", &q)
	}
	if q.ThreadID == "" {
		return find(q)
	}
	return func(yield func(saver.ThreadInfo, error) bool) {
		var asked *wire.Error
		for info, err := range find(q) {
			if !errors.As(err, &asked) || asked.Code != wire.CodeBadRequest {
				yield(info, err)
				return
			}
		}
		if asked == nil || !strings.HasPrefix(q.ThreadID, q.Prefix) {
			return
		}
		// An older server does not know the field. Of the ids that begin with the thread's, its
		// own is the first.
		older := q
		older.ThreadID, older.Prefix, older.Limit = "", q.ThreadID, 1
		for info, err := range find(older) {
			if err != nil || info.ThreadID == q.ThreadID {
				yield(info, err)
			}
			return
		}
	}
}

// CopyThread implements saver.Saver.
func (c *Client) CopyThread(ctx context.Context, src, dst string) error {
	_, err := write[empty](ctx, c, "copy_thread", wire.Threads{Thread: src, To: dst})
	return err
}

// DeleteForRuns implements saver.Saver. If the call had to be asked again, the
// Removal may have no list of what was kept.
func (c *Client) DeleteForRuns(ctx context.Context, runIDs []string, owned *saver.Lease) (saver.Removal, error) {
	p := wire.Threads{Runs: runIDs}
	if owned != nil {
		p.Thread, p.Epoch = owned.ThreadID(), owned.Epoch()
	}
	return write[saver.Removal](ctx, c, "delete_for_runs", p)
}

// Prune implements saver.Saver. If the call had to be asked again, the Removal may
// have no list of what was kept.
func (c *Client) Prune(ctx context.Context, threadIDs []string, strategy saver.PruneStrategy) (saver.Removal, error) {
	return write[saver.Removal](ctx, c, "prune", wire.Threads{Threads: threadIDs, Strategy: strategy})
}

// Retain implements saver.Saver.
func (c *Client) Retain(ctx context.Context, policy saver.RetentionPolicy, dryRun bool) (saver.RetentionReport, error) {
	if err := policy.Validate(); err != nil {
		return saver.RetentionReport{}, err
	}
	p := wire.Retain{Policy: policy, DryRun: dryRun}
	report, _, err := ask[saver.RetentionReport](ctx, c, request{method: "retain", writes: !dryRun, params: &p})
	return report, err
}

// SetTTL implements saver.Saver.
func (c *Client) SetTTL(ctx context.Context, threadID string, ttl time.Duration) error {
	if err := saver.ValidateTTL(threadID, ttl); err != nil {
		return err
	}
	_, err := write[empty](ctx, c, "set_ttl", wire.Threads{Thread: threadID, TTL: ttl})
	return err
}

// Sweep implements saver.Saver.
func (c *Client) Sweep(ctx context.Context) (saver.SweepReport, error) {
	a, err := write[wire.Expired](ctx, c, "sweep", wire.Threads{})
	return saver.SweepReport{Expired: a.Expired}, err
}

// Erase implements saver.Eraser.
func (c *Client) Erase(ctx context.Context, threadIDs ...string) error {
	_, err := write[empty](ctx, c, "erase", wire.Threads{Threads: threadIDs})
	return err
}

// Sync implements saver.Saver.
func (c *Client) Sync(ctx context.Context) error {
	_, _, err := c.call(ctx, request{method: "sync", params: &wire.Threads{}})
	return err
}

// Stats returns the figures of the store.
func (c *Client) Stats(ctx context.Context) (map[string]int64, error) {
	figures, _, err := ask[map[string]int64](ctx, c, request{method: "stats", params: &wire.Threads{}})
	return figures, err
}

// Own implements saver.Saver. The lease lasts as long as the connection.
func (c *Client) Own(ctx context.Context, threadID string, wait bool) (*saver.Lease, error) {
	if err := saver.ValidateThreadID(threadID); err != nil {
		return nil, err
	}
	o, cn, err := ask[wire.Owned](ctx, c, request{method: "own", params: &wire.Threads{Thread: threadID, Wait: wait}})
	if err != nil {
		return nil, err
	}
	lost := make(chan struct{})
	cn.mu.Lock()
	if cn.err != nil {
		close(lost)
	} else {
		cn.leases[o.Lease] = lost
	}
	cn.mu.Unlock()
	return saver.NewLease(threadID, o.Epoch, lost, nil, func() {
		cn.mu.Lock()
		delete(cn.leases, o.Lease)
		cn.mu.Unlock()
		_, _, _ = cn.do(context.Background(), "release", wire.MustEncode(&wire.Threads{Lease: o.Lease}), nil) // a lost connection releases, too
	}), nil
}

// CountAttempt implements saver.Saver.
func (c *Client) CountAttempt(ctx context.Context, cfg saver.Config) (int, error) {
	p := wire.At{Config: cfg.At(cfg.CheckpointID)}
	p.Config.Epoch = cfg.Epoch
	a, _, err := ask[wire.Attempts](ctx, c, request{method: "count_attempt", writes: true, params: &p})
	return a.Attempts, err
}

// DeltaChannelHistory implements saver.Saver.
func (c *Client) DeltaChannelHistory(ctx context.Context, cfg saver.Config, channels []string) (map[string]saver.DeltaHistory, error) {
	p := wire.At{Config: cfg.At(cfg.CheckpointID), Channels: channels}
	h, _, err := ask[map[string]saver.DeltaHistory](ctx, c, request{method: "delta_history", params: &p})
	for channel, d := range h {
		c.writes(d.Writes)
		if !d.Seed.IsZero() {
			d.Seed = c.owned(d.Seed)
		}
		h[channel] = d
	}
	return h, err
}
