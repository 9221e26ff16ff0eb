package traces

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/disk"
)

// childVariable makes a process one that is killed.
const childVariable = "STELE_PARITY_CHILD"

// childJob is what such a process does.
type childJob struct {
	Dir, Scenario string
	Durability    pregel.Durability
	Sync          disk.SyncMode
}

func (j childJob) open(random func() float64) (*disk.Saver, error) {
	return disk.Open(j.Dir, disk.Options{Sync: j.Sync, Random: random})
}

// dying ends the process where a test would fail.
type dying struct{}

func (dying) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func (dying) Error(args ...any) { dying{}.Fatal(args...) }

// killedChild runs a scenario, if this process is there for that. After every
// save it tells the parent which, and waits to be told to go on, or killed. Until
// then nothing else is stored.
func killedChild() {
	spec := os.Getenv(childVariable)
	if spec == "" {
		return
	}
	var j childJob
	if err := json.Unmarshal([]byte(spec), &j); err != nil {
		dying{}.Fatal(err)
	}
	answers := bufio.NewReader(os.Stdin)
	led := &ledger{stored: func(k saveKey) {
		line, err := json.Marshal(k)
		if err == nil {
			_, err = fmt.Printf("%s\n", line)
		}
		if err == nil {
			_, err = answers.ReadString('\n')
		}
		if err != nil {
			dying{}.Fatal(err)
		}
	}}
	liveOn(dying{}, j.Scenario, j.Durability, nil, led, j.open).goOn()
	os.Exit(0)
}

// killAfter runs a child and kills it when it has made n saves; it returns which.
func killAfter(j childJob, n int) ([]saveKey, error) {
	spec, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	var stderr strings.Builder
	cmd.Env, cmd.Stderr = append(os.Environ(), childVariable+"="+string(spec)), &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var saved []saveKey
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var k saveKey
		if err = json.Unmarshal(lines.Bytes(), &k); err != nil {
			break
		}
		if saved = append(saved, k); len(saved) == n {
			break
		}
		if _, err = io.WriteString(in, "go on\n"); err != nil {
			break
		}
	}
	_ = cmd.Process.Kill() // it waits; if it is gone, Wait says why
	ended := cmd.Wait()
	if err != nil || len(saved) != n {
		return nil, fmt.Errorf("the child made %d of %d saves: %w, %w: %s", len(saved), n, err, ended, stderr.String())
	}
	return saved, nil
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

// TestKilledProcesses kills real processes with SIGKILL, each after one of its
// saves, opens what they left and goes on: what follows is LangGraph's trace.
func TestKilledProcesses(t *testing.T) {
	kills, seed := int(number(t, "STELE_PARITY_KILLS", 42)), number(t, "STELE_SEED", rand.Uint64())
	t.Logf("repeat with STELE_SEED=%d STELE_PARITY_KILLS=%d go test ./test/parity/pregel -run '^%s$'", seed, kills, t.Name())
	sum := tally{skipped: map[string]int{}}
	t.Run("all", func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 1))
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(scenarios)), func(n string) bool { return endsWithProcess[n] != "" })
		for i := range kills {
			name, pick := names[random.IntN(len(names))], random.Uint64()
			d := []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit}[i%3]
			for _, other := range []pregel.Durability{pregel.Sync, pregel.Exit} { // not all have a trace in each
				if _, err := os.Stat(goldenOf(name, d)); err != nil {
					d = other
				}
			}
			sync := []disk.SyncMode{disk.SyncAlways, disk.SyncInterval, disk.SyncNever}[random.IntN(3)]
			t.Run(fmt.Sprint(i, "/", name, "/", d), func(t *testing.T) {
				t.Parallel()
				sum.kill(t, childJob{t.TempDir(), name, d, sync}, pick)
			})
		}
	})
	fmt.Printf("killed: %d processes\n%v\n", kills, &sum)
	if sum.boundaries+sumOf(sum.skipped) != kills {
		t.Errorf("%d kills were compared, and %d not; want %d", sum.boundaries, sumOf(sum.skipped), kills)
	}
}

func sumOf(m map[string]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

// kill kills one process after one of its saves, and goes on from what it left.
func (s *tally) kill(t *testing.T, j childJob, pick uint64) {
	whole := wholeLife(t, j.Scenario, j.Durability)
	acks := whole.life.ledger.acks
	inside := make([]int, 0, len(acks)) // saves after which a run has more to store
	for k := 1; k <= len(acks); k++ {
		if p := whole.life.crashedAfter(acks[:k]); len(p.saved) > 0 && p.incomparable() == "" {
			inside = append(inside, k)
		}
	}
	if len(inside) == 0 {
		inside = []int{len(acks)}
	}
	n := inside[pick%uint64(len(inside))]
	keys, err := killAfter(j, n)
	if err != nil {
		t.Fatal(err)
	}
	saved := slices.DeleteFunc(slices.Clone(acks), func(a ack) bool { return !slices.Contains(keys, a.key) })
	if len(saved) != n {
		t.Fatalf("killed after %d saves, of which the whole run made %d", n, len(saved))
	}
	p := whole.life.crashedAfter(saved)
	if why := p.incomparable(); why != "" { // saves of one superstep come in any order
		s.mu.Lock()
		s.skipped[why]++
		s.mu.Unlock()
		return
	}
	tr := liveOn(t, j.Scenario, j.Durability, p, &ledger{}, j.open)
	tr.goOn()
	s.compare(t, whole, tr, p)
}
