package runs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// firesDir in the environment makes of this test binary a process of TestKillsAtFire.
const firesDir = "STELE_FIRES_DIR"

// fires opens the program of TestKillsAtFire, and calls f with its queue and its worker.
func fires(ctx context.Context, dir string, f func(q *runs.Local, w *runs.Worker) error) error {
	s, err := disk.Open(filepath.Join(dir, "data"), disk.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	items, err := store.On(s, store.Options{})
	if err != nil {
		return err
	}
	defer items.Close()
	q, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	if err != nil {
		return err
	}
	g, err := graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).Node("a", func(context.Context, any) (any, error) {
		return map[string]any{"log": []string{"a"}}, nil
	}).Sequence(graph.Start, "a").Compile(graph.Options{Name: "g", Saver: s})
	if err != nil {
		return err
	}
	return f(q, &runs.Worker{Queue: q, Saver: s, Graphs: map[string]*pregel.Graph{"g": g}})
}

// firesWrites in the environment says behind how many writes of schedules a process of TestKillsAtFire
// kills itself; 0, or nothing, is at random.
const firesWrites = "STELE_FIRES_WRITES"

// fired works on the schedules until it is killed, or kills itself beside a write of a schedule.
func fired(dir string) error {
	ctx := context.Background()
	// Before the store is opened: the first call forks, and the fork has a copy of every descriptor. A kill
	// from outside meanwhile would leave the store's lock with the fork, after this process has ended.
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return fires(ctx, dir, func(q *runs.Local, w *runs.Worker) error {
		random := rand.New(rand.NewPCG(uint64(environment("STELE_SEED", 1)), 0))
		w.Queue = &dyingQueue{Local: q, left: environment(firesWrites, 0), random: random, self: self}
		return w.Run(ctx)
	})
}

// dyingQueue kills its process before or behind what a schedule stores: now and then, or behind one
// write.
type dyingQueue struct {
	*runs.Local
	// For the goroutine of Worker.Run alone.
	left   int // writes up to its death; 0: it dies at random
	random *rand.Rand
	self   *os.Process
}

func (q *dyingQueue) before() {
	if q.left == 0 && q.random.IntN(8) == 0 {
		q.die()
	}
}

func (q *dyingQueue) behind() {
	if q.left == 0 {
		q.before()
		return
	}
	if q.left--; q.left == 0 {
		q.die()
	}
}

func (q *dyingQueue) die() {
	_ = q.self.Kill()
	select {}
}

// Submit implements runs.Queue.
func (q *dyingQueue) Submit(ctx context.Context, req runs.Request) (runs.Run, error) {
	q.before()
	defer q.behind()
	return q.Local.Submit(ctx, req)
}

// Advance implements runs.Queue.
func (q *dyingQueue) Advance(ctx context.Context, id string, from, to time.Time) error {
	q.before()
	defer q.behind()
	return q.Local.Advance(ctx, id, from, to)
}

// TestKillsAtFire kills a program behind each of the first writes of its schedules, and at random when
// they are due, again and again: each time that was stored as the next one of a schedule has one run, and it
// ends. STELE_SEED repeats the times, STELE_FIRE_KILLS makes it longer.
func TestKillsAtFire(t *testing.T) {
	t.Parallel()
	seed, kills := environment("STELE_SEED", int(time.Now().UnixNano()%1e9)), environment("STELE_FIRE_KILLS", 8)
	t.Logf("STELE_SEED=%d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	dir, ctx := t.TempDir(), t.Context()
	const many = 4
	expected := map[string]bool{} // keys
	look := func(q *runs.Local) error {
		found, err := q.Schedules(ctx)
		if err == nil && len(found) != many {
			err = fmt.Errorf("%d schedules", len(found))
		}
		for _, s := range found {
			expected["schedule/"+s.ID+"/"+s.Next.UTC().Format(time.RFC3339)] = true
		}
		return err
	}
	if err := fires(ctx, dir, func(q *runs.Local, _ *runs.Worker) error {
		for i := range many {
			spec := runs.Spec{Graph: "g", Input: must(q.Serializer().Encode(graph.InputOf(map[string]any{"log": []string{"x"}})))}
			if i%2 == 0 {
				spec.ThreadID = "t"
			}
			if _, err := q.PutSchedule(ctx, runs.Schedule{ID: fmt.Sprint("s", i), Cron: "@every 1s", Spec: spec}); err != nil {
				return err
			}
		}
		return look(q)
	}); err != nil {
		t.Fatal(err)
	}
	killed := func(env string, kill func(*os.Process)) {
		t.Helper()
		p := exec.Command(os.Args[0])
		p.Env = append(os.Environ(), firesDir+"="+dir, env)
		p.Stderr = os.Stderr
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		kill(p.Process)
		if err := p.Wait(); err == nil {
			t.Fatal("the program ended by itself")
		}
		if err := fires(ctx, dir, func(q *runs.Local, _ *runs.Worker) error { return look(q) }); err != nil {
			t.Fatal(err)
		}
	}
	for writes := 1; writes <= 4; writes++ { // behind each of two schedules, whatever the pace of the machine
		killed(fmt.Sprint(firesWrites, "=", writes), func(*os.Process) {})
	}
	for range kills {
		killed("STELE_SEED="+strconv.Itoa(random.IntN(1e9)), func(p *os.Process) {
			time.Sleep(time.Duration(10+random.IntN(100)+random.IntN(2)*random.IntN(1200)) * time.Millisecond)
			_ = p.Kill()
		})
	}
	err := fires(ctx, dir, func(q *runs.Local, w *runs.Worker) error {
		working, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- w.Run(working) }()
		for passed := false; !passed; time.Sleep(10 * time.Millisecond) { // until all those times have their runs
			found, err := q.Schedules(ctx)
			if err != nil {
				t.Error(err)
			}
			passed = true
			for _, s := range found {
				passed = passed && !expected["schedule/"+s.ID+"/"+s.Next.UTC().Format(time.RFC3339)]
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ctx := context.WithoutCancel(ctx)
		working, stop = context.WithCancel(ctx)
		have := map[string]string{}
		for _, s := range must(q.Schedules(ctx)) {
			if err := q.DeleteSchedule(ctx, s.ID); err != nil {
				t.Error(err)
			}
		}
		go func() { ended <- w.Run(working) }()
		for r, err := range q.List(ctx, runs.Query{}) {
			if err == nil {
				r, err = runs.Wait(ctx, q, r.ID)
			}
			if err != nil || r.Status != runs.Success || !strings.HasPrefix(r.Key, "schedule/") || have[r.Key] != "" {
				t.Errorf("%v: run %s of %q is %s, another is %q: %s", err, r.ID, r.Key, r.Status, have[r.Key], r.Error)
			}
			have[r.Key] = r.ID
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for key := range expected {
			if have[key] == "" {
				t.Errorf("no run of %s", key)
			}
		}
		t.Logf("%d runs of %d times, %d of these seen after a kill", len(have), len(have), len(expected))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
