// Package soak runs a day of agents against a store, and tells whether the store is
// the same in the evening as it was at noon: what it takes on disk and in memory, its
// goroutines, and how long a put takes.
package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// Options say how large the day is. All fields must be set.
type Options struct {
	Dir     string
	Puts    int // of the whole day
	Windows int // the day is told in so many parts; at least 4
	Workers int // concurrent callers
	Sync    disk.SyncMode
	// FlushBytes is the store's option: small enough for many flushes in a window.
	FlushBytes int64
}

// The day. A conversation that ended is deleted after threadTTL, and forgotten after
// deletedMemory more, so that from noon on as much goes as comes.
const (
	day           = 24 * time.Hour
	threadTTL     = 2 * time.Hour
	deletedMemory = 4 * time.Hour
	housekeeping  = 10 * time.Minute // between two rounds of retention and TTL
	keepLast      = 10               // checkpoints of a thread
)

// Window is what was seen in one part of the day.
type Window struct {
	Puts       int
	P50, P99   time.Duration // of puts
	DiskMax    int64         // bytes of the directory, the most that was seen
	Heap       int64         // bytes that live at the end, after a collection
	RSS        int64         // bytes resident at the end; 0 where the system does not say
	Goroutines int           // the most that was seen
	Threads    int           // at the end
}

// Report is what was seen in a day.
type Report struct {
	Windows  []Window
	Expired  int // threads that TTL deleted
	Retained int // checkpoints that retention removed
	Took     time.Duration
}

// soak is a day in progress.
type soak struct {
	Options
	s     *disk.Saver
	chats [][]bench.Step
	begin time.Time

	puts              []atomic.Int64 // of each caller, begun
	expired, retained atomic.Int64

	mu   sync.Mutex
	took []latencies // by window
	seen []Window
}

// Run runs the day in an empty directory. It ends early with the first error, or when
// ctx ends.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Puts < 100 || o.Windows < 4 || o.Workers < 1 {
		return Report{}, fmt.Errorf("soak: %d puts, %d windows and %d workers are no day", o.Puts, o.Windows, o.Workers)
	}
	k := &soak{Options: o, begin: time.Unix(1_767_225_600, 0), puts: make([]atomic.Int64, o.Workers), took: make([]latencies, o.Windows), seen: make([]Window, o.Windows)}
	for i := range 16 {
		chat := bench.NewData(uint64(100 + i)).Chat(40)
		for n := range chat {
			chat[n] = chat[n].Typed()
		}
		k.chats = append(k.chats, chat)
	}
	var err error
	k.s, err = disk.Open(o.Dir, disk.Options{Sync: o.Sync, FlushBytes: o.FlushBytes, LogFileSize: max(o.FlushBytes, 64<<10), Clock: k.now,
		DefaultTTL: threadTTL, DeletedMemory: deletedMemory, SweepInterval: day})
	if err != nil {
		return Report{}, err
	}
	start := time.Now()
	err = k.run(ctx)
	rep := Report{Windows: k.seen, Expired: int(k.expired.Load()), Retained: int(k.retained.Load()), Took: time.Since(start)}
	for i := range rep.Windows {
		w := &rep.Windows[i]
		w.Puts, w.P50, w.P99 = k.took[i].n, k.took[i].quantile(0.5), k.took[i].quantile(0.99)
	}
	return rep, errors.Join(err, k.s.Close())
}

// behind is how many puts have begun, counted by the caller that has begun the fewest.
func (k *soak) behind() int64 {
	n := k.puts[0].Load()
	for i := range k.puts {
		n = min(n, k.puts[i].Load())
	}
	return n * int64(k.Workers)
}

// now is the time of the day: each put takes its share of it. It is the time of the caller that is behind, so that
// no thread expires while its caller is between two calls, however long the system does not let it run.
func (k *soak) now() time.Time {
	return k.begin.Add(time.Duration(float64(day) * float64(k.behind()) / float64(k.Puts)))
}

func (k *soak) window(put int64) int {
	return min(int(put*int64(k.Windows)/int64(k.Puts)), k.Windows-1)
}

func (k *soak) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var workers, watchers sync.WaitGroup
	over := make(chan struct{})
	for w := range k.Workers {
		workers.Go(func() {
			if err := k.work(ctx, w); err != nil {
				stop(err)
			}
		})
	}
	watchers.Go(func() {
		if err := k.keepHouse(ctx, over); err != nil {
			stop(err)
		}
	})
	watchers.Go(func() {
		if err := k.watch(ctx, over); err != nil {
			stop(err)
		}
	})
	workers.Wait()
	close(over)
	watchers.Wait()
	return context.Cause(ctx)
}

// work is a caller: it holds conversations side by side, a turn in one of them at a
// time, and begins another one where one ends.
func (k *soak) work(ctx context.Context, worker int) error {
	r := rand.New(rand.NewPCG(uint64(worker), 7))
	type conversation struct {
		id    string
		steps []bench.Step
		turn  int
		cfg   saver.Config
	}
	active := make([]conversation, min(32, max(1, k.Puts/2000/k.Workers)))
	begun := 0
	for put := int64(worker); put < int64(k.Puts); put += int64(k.Workers) {
		k.puts[worker].Add(1)
		c := &active[r.IntN(len(active))]
		if c.turn == len(c.steps) {
			begun++
			*c = conversation{id: fmt.Sprintf("soak-%d-%d", worker, begun), steps: k.chats[r.IntN(len(k.chats))][:5+r.IntN(35)]}
			c.cfg = saver.Config{ThreadID: c.id}
		}
		st := &c.steps[c.turn]
		c.turn++
		start := time.Now()
		cfg, err := k.s.Put(ctx, c.cfg, st.Checkpoint, st.Metadata, st.Changed)
		if err != nil {
			return fmt.Errorf("put %d, of %s: %w", put, c.id, err)
		}
		took := time.Since(start)
		k.mu.Lock()
		n := k.window(put)
		k.took[n].add(took)
		k.mu.Unlock()
		c.cfg = cfg
		if c.turn%2 == 0 {
			if err := k.s.PutWrites(ctx, cfg, st.Writes[:1], "5a6cc58f-18d9-7bf4-96d2-4a9e6b2f5f0c", ""); err != nil {
				return fmt.Errorf("writes of %s: %w", c.id, err)
			}
		}
		if c.turn%8 == 0 {
			t, err := k.s.GetTuple(ctx, saver.Config{ThreadID: c.id})
			if err != nil || t.Checkpoint.ID != st.Checkpoint.ID {
				return fmt.Errorf("the newest checkpoint of %s is not the one put last: %w", c.id, err)
			}
		}
	}
	return nil
}

// keepHouse applies retention and TTL, over and over.
func (k *soak) keepHouse(ctx context.Context, over <-chan struct{}) error {
	next := k.begin.Add(housekeeping)
	for {
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return nil
		case <-time.After(time.Millisecond):
		}
		if k.now().Before(next) {
			continue
		}
		next = k.now().Add(housekeeping)
		kept, err := k.s.Retain(ctx, saver.RetentionPolicy{KeepLast: keepLast}, false)
		if err != nil {
			return fmt.Errorf("retain: %w", err)
		}
		swept, err := k.s.Sweep(ctx)
		if err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		k.retained.Add(int64(kept.Checkpoints))
		k.expired.Add(int64(swept.Expired))
	}
}
