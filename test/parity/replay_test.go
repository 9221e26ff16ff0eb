package parity_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/test/parity"
)

// factories make an empty saver each; every one of them must give LangGraph's
// answers.
var factories = map[string]func(t *testing.T) saver.Saver{
	"memory": func(*testing.T) saver.Saver { return memory.New(memory.Options{}) },
	"model":  func(*testing.T) saver.Saver { return &model{} },
	"disk":   func(t *testing.T) saver.Saver { return openDisk(t, t.TempDir(), disk.Simulation{}) },
	"simulated disk": func(t *testing.T) saver.Saver {
		return openDisk(t, "store", disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{WindowsRules: true}), Inline: true})
	},
}

// openDisk opens a disk saver that flushes and compacts while it is used.
func openDisk(t *testing.T, dir string, sim disk.Simulation) saver.Saver {
	t.Helper()
	s, err := disk.Open(dir, disk.Options{LogFileSize: 64 << 10, FlushBytes: 128 << 10, ImageBytes: 32 << 10, Simulation: sim})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var all = sync.OnceValues(parity.All)

func load(t *testing.T) []*parity.Fixture {
	t.Helper()
	fixtures, err := all()
	if err != nil {
		t.Fatal(err)
	}
	return fixtures
}

func TestRecordingsAreComplete(t *testing.T) {
	fixtures := load(t)
	answers := 0
	for _, f := range fixtures {
		answers += f.Answers
		if f.About == "" || f.Answers < 50 {
			t.Errorf("fixture %s: about %q, %d answers", f.Name, f.About, f.Answers)
		}
	}
	if len(fixtures) < 19 || answers < 8000 {
		t.Errorf("%d fixtures with %d answers; there were 19 with more than 8000", len(fixtures), answers)
	}
	if _, err := parity.Load("no such fixture"); err == nil {
		t.Error("a fixture that does not exist was loaded")
	}
}

func TestReplay(t *testing.T) {
	fixtures := load(t)
	for name, empty := range factories {
		t.Run(name, func(t *testing.T) {
			var total parity.Tally
			for _, f := range fixtures {
				tally, err := parity.Replay(context.Background(), empty(t), f, 0, nil)
				total.Add(tally)
				if err != nil {
					t.Errorf("%s: %v", f.Name, err)
				}
			}
			t.Log(total.String())
		})
	}
}

// seed is that of this run; STELE_SEED repeats one.
func seed(t *testing.T) *rand.Rand {
	t.Helper()
	n := rand.Uint64()
	if s := os.Getenv("STELE_SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("STELE_SEED: %v", err)
		}
	}
	t.Logf("repeat with STELE_SEED=%d go test ./test/parity -run '^%s$'", n, t.Name())
	return rand.New(rand.NewPCG(n, n))
}

var errCut = errors.New("cut here")

// cutAt ends a replay when it has acknowledged line or a later one.
func cutAt(line int, acked *int) func(int) error {
	return func(n int) error {
		if *acked = n; n >= line {
			return errCut
		}
		return nil
	}
}

// TestCutAndContinue cuts each replay at a random line, as a crash would, looks
// at what is there, and goes on from the last acknowledged line or the next.
func TestCutAndContinue(t *testing.T) {
	random := seed(t)
	ctx := context.Background()
	for _, f := range load(t) {
		for name, empty := range factories {
			s, acked := empty(t), 0
			cut := 1 + random.IntN(f.Lines)
			if _, err := parity.Replay(ctx, s, f, 0, cutAt(cut, &acked)); err != nil && !errors.Is(err, errCut) {
				t.Fatalf("%s, %s, cut at %d: %v", name, f.Name, cut, err)
			}
			if err := parity.VerifyAt(ctx, s, &model{}, f, acked); err != nil {
				t.Errorf("%s, %s, cut at %d: %v", name, f.Name, cut, err)
			}
			if _, err := parity.Replay(ctx, s, f, acked+random.IntN(2), nil); err != nil {
				t.Errorf("%s, %s, continued after %d: %v", name, f.Name, acked, err)
			}
			tally, err := parity.VerifyAll(ctx, s, f)
			if err != nil || tally.Answers == 0 {
				t.Errorf("%s, %s: verified %d answers: %v", name, f.Name, tally.Answers, err)
			}
		}
	}
}

// TestVerifyAtMissesNoCall leaves out or adds one writing call and expects the
// verification to name it.
func TestVerifyAtMissesNoCall(t *testing.T) {
	ctx := context.Background()
	f, err := parity.Load("forks")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := 1; line <= f.Lines; line += 7 {
		s, acked := &model{}, 0
		if _, err := parity.Replay(ctx, s, f, 0, cutAt(line, &acked)); err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		before := fmt.Sprint(len(s.cps), len(s.writes), len(s.values))
		if _, err := parity.Replay(ctx, s, f, acked+1, cutAt(acked+1, new(int))); err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
		if fmt.Sprint(len(s.cps), len(s.writes), len(s.values)) == before {
			continue // a reading call
		}
		checked++
		if err := parity.VerifyAt(ctx, s, &model{}, f, acked); err == nil {
			t.Errorf("a call after line %d was not noticed", acked)
		}
	}
	if checked < 5 {
		t.Errorf("only %d writing calls were checked", checked)
	}
}

func TestReplayReportsAFailingCall(t *testing.T) {
	f, err := parity.Load("chat")
	if err != nil {
		t.Fatal(err)
	}
	broken := &liar{Saver: &model{}, put: func(saver.Config) (saver.Config, error) { return saver.Config{}, fault.ErrDiskFull }}
	if _, err := parity.Replay(context.Background(), broken, f, 0, nil); !errors.Is(err, fault.ErrDiskFull) {
		t.Errorf("error is %v; want it to wrap %v", err, fault.ErrDiskFull)
	}
}
