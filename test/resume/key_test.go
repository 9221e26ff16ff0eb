package resume

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// handed is a key that a node was given, and how far the disk's log was then.
type handed struct {
	node, key string
	at        int
}

// letters are three nodes in a line, each of which has one side effect. They are run
// on a disk that syncs as mode says; what they were handed comes back.
func letters(t *testing.T, fs *crashfs.FS, mode disk.SyncMode, d pregel.Durability) []handed {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	sv, err := disk.Open("store", disk.Options{Sync: mode, LogFileSize: 64 << 10, Simulation: disk.Simulation{FS: fs, Rand: rng.Uint64, Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer sv.Close()
	var mu sync.Mutex
	var out []handed
	b := graph.New(graph.Key("sent", channel.Reduce(channel.Append[string])))
	names := []string{"a", "b", "c"}
	for _, name := range names {
		b.Node(name, func(ctx context.Context, _ any) (any, error) {
			key, err := pregel.IdempotencyKey(ctx, "letter")
			mu.Lock()
			defer mu.Unlock()
			out = append(out, handed{name, key, fs.Len()})
			return map[string]any{"sent": []string{name}}, err
		})
	}
	g, err := b.Sequence(append([]string{graph.Start}, names...)...).Compile(graph.Options{Saver: sv})
	if err != nil {
		t.Fatal(err)
	}
	ctx, at, cfg := context.Background(), pregel.Thread("t"), pregel.RunOptions{Durability: d}
	var input any
	if _, err := sv.GetTuple(ctx, saver.Config{ThreadID: "t"}); errors.Is(err, saver.ErrNotFound) {
		input = map[string]any{"sent": []string{}}
	}
	if _, err := g.Invoke(ctx, at, input, cfg); err != nil {
		t.Fatal(err)
	}
	return out
}

// The power may be cut after any operation of the disk: a node that was handed a
// key before is handed the same one when it runs again, in every durability mode,
// and also if the store is told never to sync by itself.
func TestKeyAcrossPowerCuts(t *testing.T) {
	for _, mode := range []disk.SyncMode{disk.SyncAlways, disk.SyncNever} {
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
			t.Run(fmt.Sprint(mode, "/", d), func(t *testing.T) {
				t.Parallel()
				fs := crashfs.New()
				whole := letters(t, fs, mode, d)
				again := 0
				for cut := range fs.Len() + 1 {
					n := 0
					for s := range fs.States(cut, crashfs.Options{Seed: uint64(cut), Random: 1, MaxTorn: 1, MaxSingle: 1}) {
						if n++; n > statesPerCut() {
							break
						}
						for _, h := range letters(t, s.FS(), mode, d) {
							i := slices.IndexFunc(whole, func(w handed) bool { return w.node == h.node && w.at <= cut })
							if i < 0 {
								continue // it had no key before the cut
							}
							if again++; whole[i].key != h.key {
								t.Errorf("%v: node %s was handed %s, and then %s", s, h.node, whole[i].key, h.key)
							}
						}
					}
				}
				if again == 0 {
					t.Error("no node was handed a key twice")
				}
			})
		}
	}
}
