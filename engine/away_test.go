package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// awayOptions are those of a store in a simulation.
func awayOptions(fs *crashfs.FS, sim *buckettest.Sim, mode replica.Mode) Options {
	return Options{FS: fs, Inline: true, ManualWork: true, Replica: Replica{Bucket: sim.Client("m"), Mode: mode}}
}

// showsAway opens a store whose bucket is away, and checks which keys it shows.
func showsAway(t *testing.T, o Options, want ...string) {
	t.Helper()
	e, err := OpenAway("s", o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, e); !slices.Equal(got, want) {
		t.Errorf("it shows %q, and is to show %q", got, want)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// ledThenAway has a directory lead, put the keys acked, after which the bucket goes away, and put one key more; then
// its process is killed. imaged says that an image is made before the bucket goes.
func ledThenAway(t *testing.T, fs *crashfs.FS, sim *buckettest.Sim, mode replica.Mode, acked []string, imaged bool) {
	t.Helper()
	e, err := Open("s", awayOptions(fs, sim, mode))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range acked {
		putKey(t, e, k)
	}
	if imaged {
		if err := e.WriteImage(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sim.Disconnect("m")
	err = tryPut(t.Context(), e, "last")
	if (mode == replica.Sync) != (err != nil) {
		t.Fatalf("mode %s, and the bucket is away: %v", mode, err)
	}
	leave(e)
}

// TestAwayShows: of a directory that led in mode sync what is not known to be acknowledged is invisible, also if
// nothing is; of one that led in another mode all is visible. The mode is that in which it led, not that in which it
// is opened. When the bucket is back, it leads, and the bucket gets what was invisible.
func TestAwayShows(t *testing.T) {
	for _, c := range []struct {
		mode   replica.Mode
		acked  []string
		imaged bool
		want   []string
	}{
		{replica.Sync, nil, false, nil},
		{replica.Sync, []string{"a"}, false, nil},
		{replica.Sync, []string{"a", "b"}, true, []string{"a", "b"}},
		{replica.Async, nil, false, []string{"last"}},
		{replica.Async, []string{"a"}, true, []string{"a", "last"}},
		{replica.Bounded, []string{"a"}, false, []string{"a", "last"}},
	} {
		for _, now := range []replica.Mode{replica.Sync, replica.Async} {
			t.Run(fmt.Sprintf("%s %d %t %s", c.mode, len(c.acked), c.imaged, now), func(t *testing.T) {
				fs, sim := crashfs.New(), buckettest.NewSim(nil)
				ledThenAway(t, fs, sim, c.mode, c.acked, c.imaged)
				o := awayOptions(fs, sim, now)
				if _, err := OpenFree("s", o); !errors.Is(err, replica.ErrAway) {
					t.Fatalf("to lead: %v", err)
				}
				files := fs.Len()
				e, err := OpenAway("s", o, nil)
				if err != nil {
					t.Fatal(err)
				}
				if got := keysOf(t, e); !slices.Equal(got, c.want) {
					t.Errorf("it shows %q, and is to show %q", got, c.want)
				}
				err = tryPut(t.Context(), e, "more")
				if !errors.Is(err, fault.ErrBucketAway) || !errors.Is(err, fault.ErrFollower) || !errors.Is(err, fault.ErrReadOnly) {
					t.Errorf("a write: %v", err)
				}
				if err := e.SyncReplica(t.Context()); !errors.Is(err, fault.ErrBucketAway) {
					t.Errorf("that the bucket has all: %v", err)
				}
				if err := e.follower.answer(t.Context()); !errors.Is(err, replica.ErrAway) {
					t.Errorf("the bucket is away: %v", err)
				}
				sim.Connect("m")
				if err := e.follower.answer(t.Context()); !errors.Is(err, ErrVacant) {
					t.Errorf("the bucket is back: %v", err)
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				if n := fs.Len(); n > files+2 { // the lock
					t.Errorf("%d operations on files", n-files)
				}
				if e, err = OpenFree("s", o); err != nil {
					t.Fatal(err)
				}
				want := append(slices.Clone(c.acked), "last")
				if got := keysOf(t, e); !slices.Equal(got, want) {
					t.Errorf("the leader shows %q, and is to show %q", got, want)
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				if got, err := RestoreStore(t.Context(), sim, "r", 0, time.Time{}, Options{FS: crashfs.New()}); err != nil || got != base.LSN(len(want)) {
					t.Errorf("the bucket has %d records, %v", got, err)
				}
			})
		}
	}
}

// TestAwayStale: reads fail after MaxStale, whatever the bucket answers meanwhile, and opening the store again does
// not begin the time anew. Health says for how long the bucket is away.
func TestAwayStale(t *testing.T) {
	fs, sim := crashfs.New(), buckettest.NewSim(nil)
	ledThenAway(t, fs, sim, replica.Sync, []string{"a"}, true)
	now := time.Hour
	o := awayOptions(fs, sim, replica.Sync)
	o.Replica.MaxStale, o.Replica.Clock = time.Minute, func() time.Duration { return now }
	e, err := OpenAway("s", o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h := e.Health(); h.Status > metrics.StatusDegraded {
		t.Errorf("at first: %+v", h)
	}
	again := func() {
		last := e
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if e, err = OpenAway("s", o, last); err != nil {
			t.Fatal(err)
		}
	}
	now += 40 * time.Second
	_ = e.follower.answer(t.Context())
	again()
	if h := e.Health(); h.Status != metrics.StatusDegraded || h.Replica.Follower.Away != 40*time.Second || !strings.Contains(h.Problems[0].Detail, "40s") {
		t.Errorf("after 40 s: %+v", h)
	}
	if got := keysOf(t, e); !slices.Equal(got, []string{"a"}) {
		t.Errorf("after 40 s it shows %q", got)
	}
	now += 21 * time.Second
	if v, err := e.View(); err == nil {
		v.Release()
		t.Error("after 61 s it answers")
	} else if !errors.Is(err, fault.ErrStale) {
		t.Errorf("after 61 s: %v", err)
	}
	if h := e.Health(); h.Status != metrics.StatusFailed || h.Replica.Follower.Away != 61*time.Second {
		t.Errorf("after 61 s: %+v", h)
	}
	last := e
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = OpenAway("s", o, last); err != nil {
		t.Fatal(err) // it goes on asking
	}
	if v, err := e.View(); err == nil {
		v.Release()
		t.Error("opened again after 61 s it answers")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	last, o.Replica.MaxStale = e, -1
	if e, err = OpenAway("s", o, last); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAwayWithOneFault has one call of the bucket fail, each in turn and in each way, from the first question of a
// store that is away to the end of its next life as leader: nothing that was acknowledged is lost, and nothing that
// was not is seen.
func TestAwayWithOneFault(t *testing.T) {
	for _, mode := range []replica.Mode{replica.Sync, replica.Async} {
		t.Run(string(mode), func(t *testing.T) {
			led := 0 // how many calls were made before the first question
			run := func(t *testing.T, sim *buckettest.Sim) {
				fs := crashfs.New()
				ledThenAway(t, fs, sim, mode, []string{"a"}, false)
				sim.Connect("m")
				led = len(sim.History())
				o := awayOptions(fs, sim, mode)
				for life := 0; ; life++ {
					if life == 5 {
						t.Fatal("it does not lead, and there was one fault")
					}
					e, err := OpenAway("s", o, nil)
					if err != nil {
						t.Fatal(err)
					}
					err = e.follower.answer(t.Context())
					if err := e.Close(); err != nil {
						t.Fatal(err)
					}
					if !errors.Is(err, ErrVacant) {
						if !errors.Is(err, replica.ErrAway) {
							t.Fatalf("the bucket has no reason to say: %v", err)
						}
						continue
					}
					if e, err = OpenFree("s", o); err != nil {
						if !errors.Is(err, replica.ErrAway) {
							t.Fatal(err)
						}
						continue
					}
					if got := keysOf(t, e); !slices.Contains(got, "a") {
						t.Errorf("it shows %q", got)
					}
					_ = e.Close() // the fault may be its
					return
				}
			}
			whole := buckettest.NewSim(nil)
			run(t, whole)
			calls := whole.History()[led:]
			if len(calls) < 10 {
				t.Fatalf("only %d calls", len(calls))
			}
			for _, c := range calls {
				for _, fate := range buckettest.Fates(c) {
					sim := buckettest.NewSim(func(other buckettest.Call) buckettest.Fate {
						if other.N == c.N {
							return fate
						}
						return buckettest.Applied
					})
					t.Run(fmt.Sprintf("call %d, %s %s, %s", c.N, c.Op, c.Key, fate), func(t *testing.T) {
						run(t, sim)
						if t.Failed() {
							t.Logf("the calls:\n%s", sim)
						}
					})
				}
			}
		})
	}
}

// TestAwayOtherLed: if another directory led while the bucket was away, one follows: what it has alone is saved.
func TestAwayOtherLed(t *testing.T) {
	fs, other, sim := crashfs.New(), crashfs.New(), buckettest.NewSim(nil)
	ledThenAway(t, fs, sim, replica.Sync, []string{"a"}, false)
	o := awayOptions(other, sim, replica.Sync)
	o.Replica.Bucket = sim.Client("other")
	now := time.Duration(0)
	o.Replica.Clock = func() time.Duration { now += 16 * time.Second; return now } // a lease ends between two questions
	if _, err := RestoreStore(t.Context(), sim, "s", 0, time.Time{}, Options{FS: other}); err != nil {
		t.Fatal(err)
	}
	leader, err := Open("s", o)
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, leader, "other")
	sim.Connect("m")
	o = awayOptions(fs, sim, replica.Sync)
	e, err := OpenAway("s", o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.follower.answer(t.Context()); !errors.Is(err, replica.ErrFenced) {
		t.Errorf("another led: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if first, err := RejoinStore(t.Context(), "s", o); err != nil || first != 2 {
		t.Errorf("saved from %d on, %v", first, err)
	}
	if e, err = FollowStore("s", o); err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, e); !slices.Equal(got, []string{"a", "other"}) {
		t.Errorf("it shows %q", got)
	}
	if err := errors.Join(e.Close(), leader.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestAwayTellsAnswers: an error that is an answer is told, and is not taken for a bucket that is away.
func TestAwayTellsAnswers(t *testing.T) {
	fs, sim := crashfs.New(), buckettest.NewSim(nil)
	ledThenAway(t, fs, sim, replica.Sync, []string{"a"}, true)
	other := buckettest.NewSim(nil)
	stranger, err := Open("s", awayOptions(crashfs.New(), other, replica.Sync))
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sim  *buckettest.Sim
		want error
	}{{other, replica.ErrOtherStore}, {buckettest.NewSim(nil), replica.ErrNoLineage}} {
		e, err := OpenAway("s", awayOptions(fs, c.sim, replica.Sync), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.follower.answer(context.Background()); !errors.Is(err, c.want) || errors.Is(err, replica.ErrAway) {
			t.Errorf("%v, %v is wanted", err, c.want)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAwayImageOfTail: a directory that led in mode sync, and was opened to follow in vain, shows no more than before.
func TestAwayImageOfTail(t *testing.T) {
	fs, sim := crashfs.New(), buckettest.NewSim(nil)
	ledThenAway(t, fs, sim, replica.Sync, []string{"a"}, true)
	o := awayOptions(fs, sim, replica.Sync)
	if _, err := FollowStore("s", o); !errors.Is(err, replica.ErrAway) {
		t.Fatal(err)
	}
	if _, err := SetAside(t.Context(), "s", o); !errors.Is(err, replica.ErrAway) {
		t.Fatal(err)
	}
	showsAway(t, o, "a")
}

// TestAwayImageNotDue: while a directory that led last is opened to follow, nothing is due that makes its records durable
// otherwise than in the log.
func TestAwayImageNotDue(t *testing.T) {
	fs, sim := crashfs.New(), buckettest.NewSim(nil)
	ledThenAway(t, fs, sim, replica.Sync, []string{"a"}, false)
	o := awayOptions(fs, sim, replica.Sync)
	o.follows, o.ImageBytes, o.FlushBytes = true, 1, 1
	e, err := Open("s", o)
	if err != nil {
		t.Fatal(err)
	}
	if e.flusher.anyDue() {
		t.Error("an image or a flush is due")
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAwayNoPointBegun: while a leader in mode sync waits until the bucket has the end of the log, no point has that
// flushed, and so it stays invisible.
func TestAwayNoPointBegun(t *testing.T) {
	fs, cut := crashfs.New(), atomic.Bool{}
	sim := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if cut.Load() && c.Op == buckettest.Put && strings.HasPrefix(c.Key, "e") && !strings.HasPrefix(c.Key, "e0000000001/") {
			return buckettest.NotApplied // chunks, and no fence of the first epoch
		}
		return buckettest.Applied
	})
	e, err := Open("s", awayOptions(fs, sim, replica.Sync))
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, e, "a")
	if err := e.WriteImage(t.Context()); err != nil {
		t.Fatal(err)
	}
	sim.Disconnect("m")
	b := make([]byte, 2*pointLog)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	v, err := NewValue(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Commit(t.Context(), []string{"p"}, func(tx *Tx) error { return tx.Put("p", "last", 0, []SlotIn{{Name: "v", Value: &v}}) }); err == nil {
		t.Fatal("it was acknowledged")
	}
	leave(e)
	sim.Connect("m")
	cut.Store(true)
	o := awayOptions(fs, sim, replica.Sync)
	o.Inline, o.ManualWork = false, false
	o.Replica.Interval, o.Replica.PointEvery, o.Replica.Deadline = time.Millisecond, 1, time.Second
	if _, err := OpenFree("s", o); !errors.Is(err, replica.ErrAway) {
		t.Fatal(err)
	}
	showsAway(t, awayOptions(fs, sim, replica.Sync), "a")
}

// TestAwayPointGone: a directory that led last, and whose mark retention has passed, leads again, and loses nothing.
func TestAwayPointGone(t *testing.T) {
	fs, sim := crashfs.New(), buckettest.NewSim(nil)
	o := awayOptions(fs, sim, replica.Async)
	wall := time.Now()
	o.Clock = func() time.Time { return wall }
	o.Replica.Keep, o.Replica.PointEvery = time.Hour, time.Hour
	e, err := Open("s", o)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"a", "b", "c"} {
		putKey(t, e, k)
		if err := e.replica.pump(t.Context(), e.log.LastLSN()); err != nil {
			t.Fatal(err)
		}
		wall = wall.Add(2 * time.Hour)
		if err := e.replica.makePoint(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sim.Disconnect("m")
	putKey(t, e, "last")
	leave(e)
	if e, err = OpenAway("s", o, nil); err != nil {
		t.Fatal(err)
	}
	sim.Connect("m")
	if err := e.follower.answer(t.Context()); !errors.Is(err, ErrVacant) {
		t.Errorf("the bucket is back: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if first, err := SetAside(t.Context(), "s", o); !errors.Is(err, replica.ErrDiverged) {
		t.Fatalf("set aside from %d on: %v", first, err)
	}
	if e, err = OpenFree("s", o); err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, e); !slices.Equal(got, []string{"a", "b", "c", "last"}) {
		t.Errorf("it shows %q", got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAwayModeChanges: what was acknowledged in mode async stays visible until the bucket has it, though a leader in mode
// sync began; what that one did not acknowledge is invisible.
func TestAwayModeChanges(t *testing.T) {
	fs, cut := crashfs.New(), false
	sim := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if cut && c.Op == buckettest.Put && strings.HasPrefix(c.Key, "e") && !strings.HasPrefix(c.Key, "e0000000001/") {
			return buckettest.NotApplied // chunks, and no fence of the first epoch
		}
		return buckettest.Applied
	})
	ledThenAway(t, fs, sim, replica.Async, []string{"a"}, true)
	sim.Connect("m")
	shows := func(want ...string) {
		t.Helper()
		showsAway(t, awayOptions(fs, sim, replica.Sync), want...)
	}
	cut = true
	o := awayOptions(fs, sim, replica.Sync)
	_, err := OpenFree("s", o)
	if !errors.Is(err, replica.ErrAway) {
		t.Fatal(err)
	}
	shows("a", "last")
	cut = false
	e, err := OpenFree("s", o)
	if err != nil {
		t.Fatal(err)
	}
	cut = true
	if err := tryPut(t.Context(), e, "more"); err == nil {
		t.Fatal("it was acknowledged")
	}
	leave(e)
	shows("a", "last")
}

// TestAwayBegins: a directory whose lineage was to begin in a bucket that is empty begins it again, once the bucket takes
// puts.
func TestAwayBegins(t *testing.T) {
	full := true
	fs, sim := crashfs.New(), buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if full && c.Op == buckettest.Put {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	o := awayOptions(fs, sim, replica.Async)
	if _, err := OpenFree("s", o); !errors.Is(err, replica.ErrAway) {
		t.Fatal(err)
	}
	e, err := OpenAway("s", o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.follower.answer(t.Context()); !errors.Is(err, replica.ErrAway) {
		t.Errorf("the bucket takes no puts: %v", err)
	}
	full = false
	if err := e.follower.answer(t.Context()); !errors.Is(err, ErrVacant) {
		t.Errorf("the bucket is back: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = OpenFree("s", o); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAwayNothingToShow: a directory that is in no lineage is not opened.
func TestAwayNothingToShow(t *testing.T) {
	fs, sim := crashfs.New(), buckettest.NewSim(nil)
	e, err := Open("s", Options{FS: fs, Inline: true, ManualWork: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAway("s", awayOptions(fs, sim, replica.Sync), nil); !errors.Is(err, fault.ErrReplicated) {
		t.Errorf("a store without a lineage: %v", err)
	}
	if _, err := OpenAway("none", awayOptions(fs, sim, replica.Sync), nil); !errors.Is(err, fault.ErrNotStore) {
		t.Errorf("no store: %v", err)
	}
}

// TestAwayPauses: the pauses grow, and are bounded by two TTLs and by a minute.
func TestAwayPauses(t *testing.T) {
	for _, c := range []struct{ ttl, want time.Duration }{{15 * time.Second, 30 * time.Second}, {time.Hour, time.Minute}, {time.Millisecond, leastPause}} {
		w := &follower{o: Replica{TTL: c.ttl}}
		for last := time.Duration(0); ; last = w.pause {
			if w.backOff(); w.pause == last {
				break
			}
		}
		if w.pause != c.want {
			t.Errorf("with a TTL of %v it is %v", c.ttl, w.pause)
		}
	}
}

// TestFollowerSeedsWithoutPuts: a follower's directory is made from a bucket that answers gets and no puts, without a pin.
func TestFollowerSeedsWithoutPuts(t *testing.T) {
	sim := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Client == "f" && c.Op == buckettest.Put {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	leader, err := Open("s", awayOptions(crashfs.New(), sim, replica.Sync))
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, leader, "a")
	o := awayOptions(crashfs.New(), sim, replica.Sync)
	o.Replica.Bucket = sim.Client("f")
	f, err := FollowStore("s", o)
	if err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, f); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it shows %q", got)
	}
	if err := errors.Join(f.Close(), leader.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestAwayTakesNoPuts: a directory whose mark lies below the oldest point stays away while the bucket takes no puts: it is not opened to
// lead, and away again, in turn.
func TestAwayTakesNoPuts(t *testing.T) {
	full := false
	fs := crashfs.New()
	sim := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if full && c.Op == buckettest.Put {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	o := awayOptions(fs, sim, replica.Async)
	wall := time.Now()
	o.Clock = func() time.Time { return wall }
	o.Replica.Keep, o.Replica.PointEvery = time.Hour, time.Hour
	e, err := Open("s", o)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range []string{"a", "b", "c", "d"} {
		putKey(t, e, k)
		if err := e.replica.pump(t.Context(), e.log.LastLSN()); err != nil {
			t.Fatal(err)
		}
		wall = wall.Add(2 * time.Hour)
		if err := e.replica.makePoint(t.Context()); err != nil {
			t.Fatal(i, err)
		}
	}
	leave(e)
	full = true
	var last *Engine
	for range 3 {
		if _, err = OpenFree("s", o); !errors.Is(err, replica.ErrAway) {
			t.Fatal(err)
		}
		if e, err = OpenAway("s", o, last); err != nil {
			t.Fatal(err)
		}
		if why := e.follower.answer(t.Context()); errors.Is(why, ErrVacant) {
			t.Fatal("the role ended, and no put succeeds")
		}
		last = e
		_ = e.Close()
	}
}
