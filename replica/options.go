package replica

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/replica/bucket"
)

// ReadAhead is Options.Ahead for who has much to read: chunks are 4 MiB or less, unless a batch is larger.
const ReadAhead = 16

// Options are what a leader and a follower need to know.
type Options struct {
	Bucket bucket.Bucket
	// Store is the id of the store.
	Store uint64
	// Dir names the directory of the local records, for ever. It is not empty.
	Dir string
	// Owner names a process, in the characters that keys may have. No two have the same, nor
	// one that is started again. Default: random.
	Owner string
	// Keys encrypt chunks; nil: they are not encrypted. ChainKey, which must stay the same
	// for ever, then is the key of the chain.
	Keys     *seal.Keyring
	ChainKey []byte
	// TTL is how long a leader's lease lasts: 1 ms to a day. Default: 15 s.
	TTL time.Duration
	// CallTimeout bounds each call of the bucket. Default: 10 s, and a second for each MB of
	// a large object.
	CallTimeout time.Duration
	// Interval is the least time between two chunks of a leader, unless there is enough for
	// a large one. 0: what waits is sent at once.
	Interval time.Duration
	// ChunkBytes is from which size on a chunk gets no further batch. Default: 4 MiB, at most
	// MaxBatch.
	ChunkBytes int
	// QueueBytes bounds the memory that a leader holds for the bucket: ErrBacklog. Default: 64 MiB.
	QueueBytes int
	// Ahead is how many chunks a Follower gets at the same time, where HEAD says that they are there. Default: 1.
	Ahead int
	// Clock is a monotonic clock of this process. Default: that of package time, which
	// stands still while the machine is suspended.
	Clock func() time.Duration
}

var began = time.Now()

func (o Options) withDefaults() Options {
	if o.Owner == "" {
		o.Owner = strings.ToLower(rand.Text())
	}
	if o.TTL <= 0 {
		o.TTL = 15 * time.Second
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = 10 * time.Second
	}
	if o.ChunkBytes <= 0 {
		o.ChunkBytes = 4 << 20
	}
	o.ChunkBytes = min(o.ChunkBytes, MaxBatch)
	if o.QueueBytes <= 0 {
		o.QueueBytes = 64 << 20
	}
	if o.Clock == nil {
		o.Clock = func() time.Duration { return time.Since(began) }
	}
	return o
}

// checked is withDefaults for who leads or may.
func (o Options) checked() (Options, error) {
	o = o.withDefaults()
	switch {
	case o.Dir == "":
		return o, errors.New("the options name no directory: without it every directory would be taken for the own one")
	case o.Keys != nil && o.ChainKey == nil:
		return o, errors.New("the options have keys and none for the chain: the bucket would have hashes of records for all to compare")
	case o.TTL < time.Millisecond || o.TTL > maxTTL*time.Millisecond:
		return o, fmt.Errorf("a lease of %v: it lasts from 1 ms to a day", o.TTL)
	}
	return o, nil
}

// bounded returns a context for a call that moves n bytes.
func (o *Options) bounded(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, o.callTimeout(int64(n)))
}

func (o *Options) callTimeout(n int64) time.Duration {
	return o.CallTimeout + time.Duration(n>>20)*time.Second
}

func (o *Options) put(ctx context.Context, key string, body []byte, cond bucket.Condition) (bucket.ETag, error) {
	ctx, cancel := o.bounded(ctx, len(body))
	defer cancel()
	tag, err := o.Bucket.Put(ctx, key, io.NewSectionReader(bytes.NewReader(body), 0, int64(len(body))), cond)
	if err != nil {
		return "", fmt.Errorf("put %s: %w", key, Unanswered(err))
	}
	return tag, nil
}

// get returns a whole object of up to limit bytes, unless it is the known one.
func (o *Options) get(ctx context.Context, key string, limit int64, known bucket.ETag) ([]byte, bucket.ETag, error) {
	return o.read(ctx, key, limit, bucket.GetOptions{IfNoneMatch: known})
}

// read returns an object of up to limit bytes, or its beginning.
func (o *Options) read(ctx context.Context, key string, limit int64, part bucket.GetOptions) ([]byte, bucket.ETag, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(o.CallTimeout, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	obj, err := o.Bucket.Get(ctx, key, part)
	if err != nil {
		return nil, "", fmt.Errorf("get %s: %w", key, Unanswered(err))
	}
	defer func() { _ = obj.Body.Close() }() // only read from
	if obj.Size < 0 || obj.Size > limit {
		return nil, "", damaged(key, "object", "%d bytes are too many", obj.Size)
	}
	n := obj.Size
	if part.Length > 0 {
		n = min(n, part.Length)
	}
	timer.Reset(o.callTimeout(n))
	b, err := io.ReadAll(io.LimitReader(obj.Body, n))
	if err == nil && int64(len(b)) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, "", fmt.Errorf("get %s: %w", key, Unanswered(err))
	}
	return b, obj.ETag, nil
}

// create puts an object where there is none. nil means that it stands there, byte for byte,
// whoever put it. Else found is what stands there; if that is nil too, the object may still appear.
//
// What is read back may not be durable yet, unless a put was refused because of it. So a put
// without a clear answer is made once more.
func (o *Options) create(ctx context.Context, key string, body []byte) (found []byte, err error) {
	for range 2 {
		_, err = o.put(ctx, key, body, bucket.Condition{IfAbsent: true})
		if err == nil || errors.Is(err, bucket.ErrRefused) {
			return nil, err
		}
		if errors.Is(err, bucket.ErrCondition) {
			break
		}
	}
	if !errors.Is(err, bucket.ErrCondition) {
		return nil, err
	}
	found, _, readErr := o.get(ctx, key, maxChunk, "")
	switch {
	case readErr != nil:
		return nil, errors.Join(err, readErr)
	case bytes.Equal(found, body):
		return nil, nil
	}
	return found, err
}

// errStop ends a listing early, without an error.
var errStop = errors.New("enough")

// list calls fn for the entries with a prefix, in order, until it returns an error.
func (o *Options) list(ctx context.Context, prefix string, fn func(bucket.Entry) error) error {
	for after := ""; ; {
		call, cancel := o.bounded(ctx, 0)
		entries, err := o.Bucket.List(call, prefix, after)
		cancel()
		if err != nil {
			return fmt.Errorf("list %s: %w", prefix, Unanswered(err))
		}
		if len(entries) == 0 {
			return nil
		}
		for _, e := range entries {
			if err := fn(e); errors.Is(err, errStop) {
				return nil
			} else if err != nil {
				return err
			}
			after = e.Key
		}
	}
}

func (o *Options) remove(ctx context.Context, keys ...string) error {
	for len(keys) > 0 {
		n := min(len(keys), 100) // a directory may take some milliseconds for each
		call, cancel := o.bounded(ctx, 0)
		err := o.Bucket.Delete(call, keys[:n]...)
		cancel()
		if err != nil {
			return fmt.Errorf("delete %s and %d others: %w", keys[0], n-1, Unanswered(err))
		}
		keys = keys[n:]
	}
	return nil
}

// Local is what the caller has of the lineage.
type Local interface {
	// End is the last record; 0 if there is none. It grows with what the caller applies.
	End() base.LSN
	// Chain is the chain behind a record that is not above End.
	Chain(lsn base.LSN) (Chain, error)
}
