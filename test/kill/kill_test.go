package kill_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/test/kill"
)

func TestMain(m *testing.M) {
	kill.ChildMain()
	os.Exit(m.Run())
}

func number(t *testing.T, variable string, def uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return def
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// progress writes to the test's log.
type progress struct{ t *testing.T }

func (p progress) Write(b []byte) (int, error) {
	p.t.Logf("%s", b[:len(b)-1])
	return len(b), nil
}

// TestKilledProcessesLoseNothing runs two loops side by side: a child waits for
// the disk most of the time.
func TestKilledProcessesLoseNothing(t *testing.T) {
	const loops = 2
	kills := (int(number(t, "KILLS", 52)) + loops - 1) / loops
	seed := number(t, "STELE_SEED", rand.Uint64())
	t.Logf("repeat with STELE_SEED=%d KILLS=%d go test ./test/kill -run '^%s$'", seed, kills*loops, t.Name())
	var wg sync.WaitGroup
	for i := range uint64(loops) {
		opts := kill.Options{Kills: kills, Seed: seed + i, Dir: t.TempDir(), Progress: progress{t}}
		wg.Go(func() { killLoop(t, opts) })
	}
	wg.Wait()
}

func killLoop(t *testing.T, opts kill.Options) {
	if names := os.Getenv("FIXTURES"); names != "" {
		opts.Fixtures = strings.Split(names, ",")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute+time.Duration(opts.Kills)*time.Second)
	defer cancel()
	r, err := kill.Run(ctx, opts)
	if err != nil {
		t.Error(err)
		return
	}
	fmt.Println(r)
	t.Logf("%s; %d recordings to their end, %d calls in flight survived, %d torn tails cut, kills by mode %v", r, r.Recordings, r.InFlight, r.Dropped, r.ByMode)
	for _, err := range r.First {
		t.Error(err)
	}
	if r.Kills != opts.Kills || r.Checkpoints == 0 || r.Writes == 0 {
		t.Errorf("%s: want %d kills, and something recovered", r, opts.Kills)
	}
	for _, mode := range []disk.SyncMode{disk.SyncAlways, disk.SyncInterval, disk.SyncNever} {
		if opts.Kills >= 100 && r.ByMode[mode] == 0 {
			t.Errorf("no kill in mode %s", mode)
		}
	}
}

// TestLostLogIsNoticed takes replay away: what the child had acknowledged since
// the last image is gone, and Run must say so.
func TestLostLogIsNoticed(t *testing.T) {
	seed := number(t, "STELE_SEED", rand.Uint64())
	t.Logf("repeat with STELE_SEED=%d go test ./test/kill -run '^%s$'", seed, t.Name())
	r, err := kill.Run(context.Background(), kill.Options{
		Kills: 4, Seed: seed, Dir: t.TempDir(), LoseLog: true, Progress: progress{t}, Fixtures: []string{"chat", "threads", "delta"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r, r.First)
	if r.Differences == 0 || len(r.First) == 0 {
		t.Error("the log was lost, and nobody noticed")
	}
}

func TestRunNeedsKillsAndADirectory(t *testing.T) {
	for _, opts := range []kill.Options{{Dir: "d"}, {Kills: 1}, {Kills: 1, Dir: t.TempDir(), Fixtures: []string{"no such"}}} {
		if _, err := kill.Run(context.Background(), opts); err == nil {
			t.Errorf("%+v: no error", opts)
		}
	}
}
