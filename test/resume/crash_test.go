package resume

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// statesPerCut is how many of the disks a crash at one boundary can leave are
// looked at; STELE_RESUME_STATES goes deeper.
func statesPerCut() int {
	if n, err := strconv.Atoi(os.Getenv("STELE_RESUME_STATES")); err == nil && n > 0 {
		return n
	}
	return 1
}

// acks is a disk saver that notes how far the disk's log was when it answered.
type acks struct {
	*disk.Saver
	fs *crashfs.FS

	mu       sync.Mutex
	put      []ack
	deferred []ack // writes that are not known to be durable
	wrote    []ack
	answers  []int // boundaries besides
}

type ack struct {
	at   int // length of the log of file operations when it was known to be durable
	task string
	out  bool // the write is what the task has to show, not a question or an error
}

// settle notes, after an answer, that all writes answered before are durable, if
// they are: a deferred one becomes so with a later answer. The caller holds mu.
func (a *acks) settle() {
	if st := a.Stats(); st.DurableLSN != st.LastLSN {
		return
	}
	for _, w := range a.deferred {
		w.at = a.fs.Len()
		a.wrote = append(a.wrote, w)
	}
	a.deferred = nil
}

func (a *acks) Sync(c context.Context) error {
	err := a.Saver.Sync(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settle()
	return err
}

func (a *acks) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	at, err := a.Saver.PutRequest(c, req)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range req.Writes {
		a.answers = append(a.answers, a.fs.Len())
		a.deferred = append(a.deferred, ack{a.fs.Len(), w.TaskID, output(w.Writes) && w.TaskID != nullTask})
	}
	a.put = append(a.put, ack{at: a.fs.Len()})
	a.settle()
	return at, err
}

func (a *acks) PutWrites(c context.Context, cfg saver.Config, ws []saver.Write, id, path string) error {
	err := a.Saver.PutWrites(c, cfg, ws, id, path)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = append(a.answers, a.fs.Len())
	a.deferred = append(a.deferred, ack{a.fs.Len(), id, output(ws) && id != nullTask})
	a.settle()
	return err
}

// output reports whether a task that wrote this has ended.
func output(ws []saver.Write) bool {
	return slices.ContainsFunc(ws, func(w saver.Write) bool {
		return w.Channel != "__interrupt__" && w.Channel != "__resume__"
	})
}

const nullTask = "00000000-0000-0000-0000-000000000000"

// cuts are the boundaries: before anything, and after each answer and in the
// middle of what led to the next.
func (a *acks) cuts() []int {
	all := append([]int{0, a.fs.Len()}, a.answers...)
	for _, list := range [][]ack{a.put, a.wrote} {
		for _, x := range list {
			all = append(all, x.at)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i := len(all) - 1; i > 0; i-- {
		if mid := (all[i-1] + all[i]) / 2; mid > all[i-1] {
			all = append(all, mid)
		}
	}
	slices.Sort(all)
	return all
}

// stored are the tasks whose writes were durable before the cut.
func (a *acks) stored(cut int) []string {
	var ids []string
	for _, w := range a.wrote {
		if w.out && w.at <= cut {
			ids = append(ids, w.task)
		}
	}
	return ids
}

func openOn(t *testing.T, fs *crashfs.FS) *acks {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	d, err := disk.Open("store", disk.Options{LogFileSize: 64 << 10, Simulation: disk.Simulation{FS: fs, Rand: rng.Uint64, Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	return &acks{Saver: d, fs: fs}
}

// A crash at any boundary, and any disk it can leave: resumed, the graph ends
// as if nothing had been, and no task runs again whose writes were durable.
func TestCrashAtEveryBoundary(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
		for _, p := range programs {
			t.Run(fmt.Sprintf("%s/%s", d, p.name), func(t *testing.T) {
				t.Parallel()
				whole := openOn(t, crashfs.New())
				counts := newRan()
				want, err := p.drive(context.Background(), mustBuild(t, p, counts, whole), d, true)
				if err != nil {
					t.Fatal(err)
				}
				if err := whole.Close(); err != nil {
					t.Fatal(err)
				}
				resumed := 0
				for _, cut := range whole.cuts() {
					n := 0
					for s := range whole.fs.States(cut, crashfs.Options{Seed: uint64(cut), Random: 1, MaxTorn: 1, MaxSingle: 1}) {
						if n++; n > statesPerCut() {
							break
						}
						if again := resume(t, p, d, s, whole.stored(cut), want); again < counts.total() {
							resumed++
						}
					}
				}
				if resumed == 0 {
					t.Error("no life did less than the whole: nothing was ever replayed")
				}
			})
		}
	}
}

// resume goes on from a disk that a crash left and returns how many tasks ran.
func resume(t *testing.T, p program, d pregel.Durability, s crashfs.State, stored []string, want string) int {
	t.Helper()
	a := openOn(t, s.FS())
	defer a.Close()
	_, err := a.GetTuple(context.Background(), saver.Config{ThreadID: "t"})
	fresh := errors.Is(err, saver.ErrNotFound)
	if err != nil && !fresh {
		t.Fatalf("%v: %v", s, err)
	}
	counts := newRan()
	got, err := p.drive(context.Background(), mustBuild(t, p, counts, a), d, fresh)
	if err != nil {
		t.Fatalf("%v: resume: %v", s, err)
	}
	if got != want {
		t.Errorf("%v: ended with\n%s\nwithout the crash it is\n%s", s, got, want)
	}
	for _, id := range stored {
		if n := counts.count[id]; n > 0 {
			t.Errorf("%v: task %s ran again, though its writes were stored", s, id)
		}
	}
	return counts.total()
}
