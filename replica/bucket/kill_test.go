package bucket_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/replica/bucket"
)

// killedDir is set in the processes that TestDirKilled kills.
const killedDir = "STELE_BUCKET_KILLED_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		fmt.Println(writeForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// bodyOf is what a process puts under a key.
func bodyOf(key string) []byte { return bytes.Repeat([]byte(key+" "), 3000) }

// writeForever adds to the object list by IfMatch, and creates objects, and prints what it is about to put
// and what was acknowledged.
func writeForever(dir string) error {
	b, err := bucket.Dir(context.Background(), dir)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		id := fmt.Sprintf("%d.%d", os.Getpid(), n)
		fmt.Println("try", id)
		if _, err := b.Put(context.Background(), "c/"+id, bucket.NewBody(bodyOf(id)), bucket.Condition{IfAbsent: true}); err != nil {
			return err
		}
		for {
			o, err := b.Get(context.Background(), "list", bucket.GetOptions{})
			if err != nil {
				return err
			}
			text, err := io.ReadAll(o.Body)
			if err = errors.Join(err, o.Body.Close()); err != nil {
				return err
			}
			_, err = b.Put(context.Background(), "list", bucket.NewBody(fmt.Append(text, id, " ")), bucket.Condition{IfMatch: o.ETag})
			if err == nil {
				break
			}
			if !errors.Is(err, bucket.ErrCondition) {
				return err
			}
		}
		fmt.Println("done", id)
	}
}

// TestDirKilled: processes on one directory, killed at any moment, leave what was acknowledged, once
// each, and nothing in part.
func TestDirKilled(t *testing.T) {
	const processes, rounds = 3, 5
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	b := openDir(t, dir)
	put(t, b, "list", "", bucket.Condition{IfAbsent: true})
	var mu sync.Mutex
	tried, done := map[string]bool{}, map[string]bool{}
	for range rounds {
		var all sync.WaitGroup
		for range processes {
			lines := 2 + random.IntN(30)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), killedDir+"="+dir)
			out, err := cmd.StdoutPipe()
			if err = errors.Join(err, cmd.Start()); err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				defer func() { _ = cmd.Wait() }() // it is killed
				for in := bufio.NewScanner(out); in.Scan(); lines-- {
					what, id, _ := strings.Cut(in.Text(), " ")
					mu.Lock()
					switch what {
					case "try":
						tried[id] = true
					case "done":
						done[id] = true
					default:
						t.Error(in.Text())
					}
					mu.Unlock()
					if lines == 0 {
						_ = cmd.Process.Kill() // and what it has printed since is read
					}
				}
			})
		}
		all.Wait()
	}
	text, err := get(t, b, "list")
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, id := range strings.Fields(text) {
		if times[id]++; times[id] > 1 || !tried[id] {
			t.Errorf("%s is there %d times", id, times[id])
		}
	}
	for id := range tried {
		body, err := get(t, b, "c/"+id)
		if errors.Is(err, bucket.ErrNotFound) && !done[id] {
			continue
		}
		if err != nil || body != string(bodyOf(id)) || done[id] && times[id] == 0 {
			t.Errorf("%s: %d bytes, acknowledged: %v, %d times in the list, %v", id, len(body), done[id], times[id], err)
		}
	}
	if len(done) < processes*rounds {
		t.Errorf("only %d puts", len(done))
	}
	t.Logf("%d kills, %d puts, %d acknowledged", processes*rounds, len(tried), len(done))
}
