//go:build unix

package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// TestStorm: clients of two servers make runs on a few threads with all strategies, and cancel them by
// interrupt and rollback while they begin and end. Every run ends, no two of a thread are executed at once, and
// no thread is busy at the end: it takes one run more, and is idle behind that. STELE_SEED repeats the choices,
// STELE_STORM_RUNS makes it longer.
func TestStorm(t *testing.T) {
	pg, err := pgtest.New()
	if err != nil {
		pgtest.Need(t, err)
	}
	t.Cleanup(pg.Close)
	seed, each := uint64(time.Now().UnixNano()%1e9), 8
	if n, err := strconv.ParseUint(os.Getenv("STELE_SEED"), 10, 64); err == nil {
		seed = n
	}
	if n, err := strconv.Atoi(os.Getenv("STELE_STORM_RUNS")); err == nil {
		each = n
	}
	t.Logf("STELE_SEED=%d STELE_STORM_RUNS=%d", seed, each)
	const clients, threads, cancels = 8, 3, 4
	url := pg.Database(t)
	if err := errors.Join(postgres.Setup(t.Context(), url, postgres.Options{}), pgstore.Setup(t.Context(), url, postgres.Options{}, nil)); err != nil {
		t.Fatal(err)
	}
	var under [threads]atomic.Int32
	var bases []string
	for range 2 {
		s := must(postgres.Open(t.Context(), url, postgres.Options{}))
		items := must(pgstore.On(t.Context(), s, store.Options{}))
		queue := pgqueue.Open(s, pgqueue.Options{})
		graphs := map[string]*pregel.Graph{}
		for i := range threads {
			name := fmt.Sprint("g", i)
			node := func(ctx context.Context, _ any) (any, error) {
				if n := under[i].Add(1); n > 1 {
					t.Errorf("%d runs of thread %d are executed at once", n, i)
				}
				defer under[i].Add(-1)
				select {
				case <-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond):
					return map[string]any{"log": []string{"a"}}, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}
			graphs[name] = must(graph.New(graph.Key("text", channel.LastValue[string]()), graph.Key("log", channel.Reduce(channel.Append[string]))).
				Node("a", node).Node("b", node).Sequence(graph.Start, "a", "b").Compile(graph.Options{Name: name, Saver: s, Store: items}))
		}
		api := must(server.New(server.Config{Graphs: graphs, Saver: s, Store: items, Queue: queue, Auth: server.NoAuth(), Logger: slog.New(slog.DiscardHandler)}))
		h := httptest.NewServer(api)
		bases = append(bases, h.URL)
		t.Cleanup(func() {
			h.Close()
			if err := errors.Join(api.Close(), queue.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	// ask makes a request of a server, and returns the status and the JSON of the answer.
	ask := func(base, method, path string, in any) (int, map[string]any) {
		r := must(http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewReader(must(json.Marshal(in)))))
		r.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0, nil
		}
		defer res.Body.Close()
		var out map[string]any
		text, err := io.ReadAll(res.Body)
		if err == nil && len(text) > 0 {
			err = json.Unmarshal(text, &out)
		}
		if err != nil || res.StatusCode >= 500 {
			t.Errorf("%s %s: %d %s %v", method, path, res.StatusCode, text, err)
		}
		return res.StatusCode, out
	}
	var ids [threads]string
	for i := range ids {
		_, made := ask(bases[0], "POST", "/threads", map[string]any{})
		ids[i], _ = made["thread_id"].(string)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	made := map[string]string{} // threads by runs
	for client := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(client)))
		base := bases[client%len(bases)]
		wg.Go(func() {
			for range each {
				at := random.IntN(threads)
				path := "/threads/" + ids[at] + "/runs"
				strategy := []string{"enqueue", "enqueue", "reject", "interrupt", "rollback"}[random.IntN(5)]
				status, run := ask(base, "POST", path, map[string]any{"assistant_id": fmt.Sprint("g", at), "input": map[string]any{"text": "x"}, "multitask_strategy": strategy})
				if status == 409 && strategy == "reject" {
					continue
				}
				id, ok := run["run_id"].(string)
				if status != 200 || !ok {
					t.Errorf("%s: %d %v", strategy, status, run)
					return
				}
				mu.Lock()
				made[id] = ids[at]
				mu.Unlock()
				if random.IntN(2) == 0 {
					continue
				}
				var storm sync.WaitGroup
				for range cancels {
					how, wait, base := []string{"interrupt", "rollback"}[random.IntN(2)], time.Duration(random.IntN(10000))*time.Microsecond, bases[random.IntN(len(bases))]
					storm.Go(func() {
						time.Sleep(wait)
						if status, out := ask(base, "POST", path+"/"+id+"/cancel?action="+how, nil); status != 202 && status != 404 && status != 409 {
							t.Errorf("cancel: %d %v", status, out)
						}
					})
				}
				storm.Wait()
			}
		})
	}
	wg.Wait()
	for id, thread := range made {
		_, _ = ask(bases[0], "GET", "/threads/"+thread+"/runs/"+id+"/join", nil)
	}
	for id, thread := range made {
		for _, base := range bases { // a run that was rolled back is gone
			if status, run := ask(base, "GET", "/threads/"+thread+"/runs/"+id, nil); status != 404 && run["status"] != "success" && run["status"] != "interrupted" {
				t.Errorf("run %s: %v", id, run)
			}
		}
	}
	for at, thread := range ids {
		for _, base := range bases {
			if _, at := ask(base, "GET", "/threads/"+thread, nil); at["status"] != "idle" && at["status"] != "interrupted" {
				t.Errorf("all runs have ended, and thread %s is %v", thread, at)
			}
			_, state := ask(base, "POST", "/threads/"+thread+"/runs/wait", map[string]any{"assistant_id": fmt.Sprint("g", at), "input": map[string]any{"text": "y"}, "multitask_strategy": "reject"})
			_, after := ask(base, "GET", "/threads/"+thread, nil)
			if state["text"] != "y" || after["status"] != "idle" {
				t.Errorf("one run more ends with %v, and thread %s is %v", state, thread, after)
			}
		}
	}
}
