package saver

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/stele-go/stele/saver/serde"
)

// EffectSyncer is a Saver that keeps what it stores in a second place, such as disk.Saver with Options.Replica. Package pregel calls
// SyncEffects instead of Sync before it hands out the key of an effect. A struct that embeds the interface Saver does not implement
// it, whatever the saver in it does, and its keys may differ when the machine is lost: give it the method, or use Intercept.
type EffectSyncer interface {
	// SyncEffects is Sync, and returns when what Sync makes durable is in the second place, too. Errors are those of Sync.
	SyncEffects(ctx context.Context) error
}

// Call says which method of a saver is being called, and for what.
type Call struct {
	// Method is the name of the method: "Put", "GetTuple", "Prune".
	Method string
	// Config is the thread, namespace and checkpoint that the arguments name. For Put
	// and PutRequest, CheckpointID is the parent's.
	Config Config
	// ThreadIDs are the threads of a method that takes several, such as Prune. It is nil
	// for a method that takes one.
	ThreadIDs []string
	// CheckpointID is the id of the checkpoint that Put or PutRequest stores.
	CheckpointID string
	// TaskID is the task of PutWrites, and Writes the number of its writes.
	TaskID string
	Writes int
	// Answer is the Config that Put, PutRequest or GetTuple returns. It is set when next
	// has returned nil. For other methods it is nil.
	Answer *Config
}

// Interceptor is called in place of a method of a saver. It calls next once, with ctx or a
// context derived from it, and next calls the method. The method's caller gets the error
// that Interceptor returns: that of next, or another. If it does not call next, it must
// return an error. For List and Threads, next is the whole iteration.
type Interceptor func(ctx context.Context, call Call, next func(ctx context.Context) error) error

// Intercept wraps s so that around is called for every method that reads, writes or waits.
// The result implements Eraser if s does, and around is called for its method too; so with
// EffectSyncer, which is Sync where s has none. It is not
// called for NextVersion and Serializer, nor when a lazy value is read. Close closes s, if it
// is an io.Closer.
//
// To use several interceptors, call Intercept several times. The last is the outermost. Without a saver or a function, each method
// of the result returns an error.
func Intercept(s Saver, around Interceptor) Saver {
	if s == nil || around == nil {
		s, around = noSaver{}, func(context.Context, Call, func(context.Context) error) error { return errNoSaver }
	}
	core := &intercepted{Saver: s, around: around}
	if e, ok := s.(Eraser); ok {
		return &interceptedEraser{core, e}
	}
	return core
}

var errNoSaver = errors.New("saver: Intercept was given no saver, or no function")

// noSaver is the saver of an Intercept that refuses each call.
type noSaver struct{ Saver }

// NextVersion implements Saver.
func (noSaver) NextVersion(Version, string) (Version, error) { return Version{}, errNoSaver }

// Serializer implements Saver.
func (noSaver) Serializer() serde.Serializer { return serde.Default() }

// intercepted intercepts the methods of Saver. NextVersion and Serializer are those of the
// wrapped saver.
type intercepted struct {
	Saver
	around Interceptor
}

// Close closes the wrapped saver, if it can be closed.
func (s *intercepted) Close() error {
	if c, ok := s.Saver.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// answer intercepts a method that returns a result and an error.
func answer[T any](ctx context.Context, around Interceptor, call Call, method func(context.Context) (T, error)) (out T, err error) {
	err = around(ctx, call, func(ctx context.Context) error {
		var err error
		out, err = method(ctx)
		return err
	})
	return out, err
}

// each intercepts a method that returns an iterator. It yields an error last.
func each[T any](ctx context.Context, around Interceptor, call Call, method func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := around(ctx, call, func(ctx context.Context) error {
			for v, err := range method(ctx) {
				if err != nil {
					return err
				}
				if !yield(v, nil) {
					stopped = true
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

// Put implements Saver.
func (s *intercepted) Put(ctx context.Context, cfg Config, cp Checkpoint, md Metadata, newVersions map[string]Version) (Config, error) {
	var at Config
	err := s.around(ctx, Call{Method: "Put", Config: cfg, CheckpointID: cp.ID, Answer: &at}, func(ctx context.Context) (err error) {
		at, err = s.Saver.Put(ctx, cfg, cp, md, newVersions)
		return err
	})
	return at, err
}

// PutWrites implements Saver.
func (s *intercepted) PutWrites(ctx context.Context, cfg Config, writes []Write, taskID, taskPath string) error {
	return s.around(ctx, Call{Method: "PutWrites", Config: cfg, TaskID: taskID, Writes: len(writes)}, func(ctx context.Context) error {
		return s.Saver.PutWrites(ctx, cfg, writes, taskID, taskPath)
	})
}

// GetTuple implements Saver.
func (s *intercepted) GetTuple(ctx context.Context, cfg Config) (*Tuple, error) {
	var at Config
	return answer(ctx, s.around, Call{Method: "GetTuple", Config: cfg, Answer: &at}, func(ctx context.Context) (*Tuple, error) {
		tup, err := s.Saver.GetTuple(ctx, cfg)
		if err == nil {
			at = tup.Config
		}
		return tup, err
	})
}

// List implements Saver.
func (s *intercepted) List(ctx context.Context, q Query) iter.Seq2[*Tuple, error] {
	at := Config{ThreadID: q.ThreadID, CheckpointID: q.CheckpointID}
	if q.Namespace != nil {
		at.Namespace = *q.Namespace
	}
	return each(ctx, s.around, Call{Method: "List", Config: at}, func(ctx context.Context) iter.Seq2[*Tuple, error] {
		return s.Saver.List(ctx, q)
	})
}

// DeleteThread implements Saver.
func (s *intercepted) DeleteThread(ctx context.Context, threadID string) error {
	return s.around(ctx, Call{Method: "DeleteThread", Config: Config{ThreadID: threadID}}, func(ctx context.Context) error {
		return s.Saver.DeleteThread(ctx, threadID)
	})
}

// PutRequest implements Saver.
func (s *intercepted) PutRequest(ctx context.Context, req PutRequest) (Config, error) {
	var at Config
	err := s.around(ctx, Call{Method: "PutRequest", Config: req.Config, CheckpointID: req.Checkpoint.ID, Answer: &at}, func(ctx context.Context) (err error) {
		at, err = s.Saver.PutRequest(ctx, req)
		return err
	})
	return at, err
}

// Sync implements Saver.
func (s *intercepted) Sync(ctx context.Context) error {
	return s.around(ctx, Call{Method: "Sync"}, s.Saver.Sync)
}

// SyncEffects implements EffectSyncer: it is that of the wrapped saver, if it has one, and else Sync.
func (s *intercepted) SyncEffects(ctx context.Context) error {
	if e, ok := s.Saver.(EffectSyncer); ok {
		return s.around(ctx, Call{Method: "SyncEffects"}, e.SyncEffects)
	}
	return s.Sync(ctx)
}

// Own implements Saver. Releasing the lease is not intercepted.
func (s *intercepted) Own(ctx context.Context, threadID string, wait bool) (*Lease, error) {
	lease, err := answer(ctx, s.around, Call{Method: "Own", Config: Config{ThreadID: threadID}}, func(ctx context.Context) (*Lease, error) {
		return s.Saver.Own(ctx, threadID, wait)
	})
	if err != nil && lease != nil { // the interceptor failed after Own succeeded
		lease.Release()
		lease = nil
	}
	return lease, err
}

// CountAttempt implements Saver.
func (s *intercepted) CountAttempt(ctx context.Context, cfg Config) (int, error) {
	return answer(ctx, s.around, Call{Method: "CountAttempt", Config: cfg}, func(ctx context.Context) (int, error) {
		return s.Saver.CountAttempt(ctx, cfg)
	})
}

// DeltaChannelHistory implements Saver.
func (s *intercepted) DeltaChannelHistory(ctx context.Context, cfg Config, channels []string) (map[string]DeltaHistory, error) {
	return answer(ctx, s.around, Call{Method: "DeltaChannelHistory", Config: cfg}, func(ctx context.Context) (map[string]DeltaHistory, error) {
		return s.Saver.DeltaChannelHistory(ctx, cfg, channels)
	})
}

// Threads implements Saver.
func (s *intercepted) Threads(ctx context.Context, q ThreadQuery) iter.Seq2[ThreadInfo, error] {
	return each(ctx, s.around, Call{Method: "Threads"}, func(ctx context.Context) iter.Seq2[ThreadInfo, error] {
		return s.Saver.Threads(ctx, q)
	})
}

// CopyThread implements Saver.
func (s *intercepted) CopyThread(ctx context.Context, src, dst string) error {
	return s.around(ctx, Call{Method: "CopyThread", ThreadIDs: []string{src, dst}}, func(ctx context.Context) error {
		return s.Saver.CopyThread(ctx, src, dst)
	})
}

// DeleteForRuns implements Saver.
func (s *intercepted) DeleteForRuns(ctx context.Context, runIDs []string, owned *Lease) (Removal, error) {
	return answer(ctx, s.around, Call{Method: "DeleteForRuns"}, func(ctx context.Context) (Removal, error) {
		return s.Saver.DeleteForRuns(ctx, runIDs, owned)
	})
}

// Prune implements Saver.
func (s *intercepted) Prune(ctx context.Context, threadIDs []string, strategy PruneStrategy) (Removal, error) {
	return answer(ctx, s.around, Call{Method: "Prune", ThreadIDs: threadIDs}, func(ctx context.Context) (Removal, error) {
		return s.Saver.Prune(ctx, threadIDs, strategy)
	})
}

// Retain implements Saver.
func (s *intercepted) Retain(ctx context.Context, policy RetentionPolicy, dryRun bool) (RetentionReport, error) {
	return answer(ctx, s.around, Call{Method: "Retain", ThreadIDs: policy.ThreadIDs}, func(ctx context.Context) (RetentionReport, error) {
		return s.Saver.Retain(ctx, policy, dryRun)
	})
}

// SetTTL implements Saver.
func (s *intercepted) SetTTL(ctx context.Context, threadID string, ttl time.Duration) error {
	return s.around(ctx, Call{Method: "SetTTL", Config: Config{ThreadID: threadID}}, func(ctx context.Context) error {
		return s.Saver.SetTTL(ctx, threadID, ttl)
	})
}

// Sweep implements Saver.
func (s *intercepted) Sweep(ctx context.Context) (SweepReport, error) {
	return answer(ctx, s.around, Call{Method: "Sweep"}, s.Saver.Sweep)
}

// interceptedEraser is an intercepted saver that is an Eraser.
type interceptedEraser struct {
	*intercepted
	eraser Eraser
}

// Erase implements Eraser.
func (s *interceptedEraser) Erase(ctx context.Context, threadIDs ...string) error {
	return s.around(ctx, Call{Method: "Erase", ThreadIDs: threadIDs}, func(ctx context.Context) error {
		return s.eraser.Erase(ctx, threadIDs...)
	})
}
