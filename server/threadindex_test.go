package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// indexedHouse is a house whose index of threads is made, for users who see their own threads.
func indexedHouse(t *testing.T, dir string, o disk.Options) *house {
	t.Helper()
	h := openOn(t, dir, o, func(c *server.Config) {
		c.Auth = server.APIKeys(map[string]*server.User{"one": {Identity: "one"}, "two": {Identity: "two"}, "all": {Identity: "all"}})
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			switch u.Identity {
			case "two": // the same as an operator
				return server.Grant{Filter: object{"owner": object{"$eq": "two"}}}, nil
			case "all":
				return server.Grant{}, nil
			}
			return server.OwnThings(ctx, u, a)
		}
		c.Workers = -1
		c.Rate = -1
	})
	h.key = "all"
	h.until("the index is made", func() bool { return server.HasIndex(h.api) })
	return h
}

// none fails the test for an error.
func (h *house) none(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// program stores a checkpoint of a thread beside the server.
func (h *house) program(thread, id string) {
	h.Helper()
	cp := saver.Checkpoint{V: 4, ID: id, TS: "2026-01-02T03:04:05Z", Versions: map[string]saver.Version{}, Values: map[string]saver.Value{}}
	must(h.disk.Put(h.Context(), saver.Config{ThreadID: thread}, cp, saver.Metadata{"source": "loop", "graph_id": "simple"}, nil))
}

// searches are what TestIndexAnswersAsTheRecords asks, with what is of each kind.
func searches(prefix string) []object {
	list := []object{{}, {"metadata": object{}}, {"stele_prefix": []string{prefix}}, {"metadata": object{"graph_id": "simple"}}, {"metadata": object{"graph_id": nil}}}
	for name, values := range map[string][]any{
		"color": {"red", "blue", "none", nil, 1, true},
		"n":     {0, 1, 1.0, -1, 1e300, json.Number("9007199254740993"), "1", nil, false},
		"deep":  {object{"a": 1}, object{}, []any{"x"}, []any{}, "x"},
	} {
		for _, v := range values {
			list = append(list, object{"metadata": object{name: v}}, object{"metadata": object{name: v, "color": "red"}})
		}
	}
	for _, n := range []int{10, 40} { // fewer than the index takes of a search, and more
		m := object{"color": "red"}
		for i := range n {
			m[fmt.Sprint("name ", i)] = i
		}
		list = append(list, object{"metadata": m})
	}
	return append(list, object{"metadata": object{"name 3": 3}}, object{"metadata": object{"name 3": 4}})
}

// TestIndexAnswersAsTheRecords: whatever was done with threads, by clients, by programs beside the
// server and by who erases, flushes and compacts, a search by the index answers as one that reads
// the records, and so does it when the store is opened again.
func TestIndexAnswersAsTheRecords(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			o := disk.Options{ManualWork: true, MemoryBudget: 1 << 20}
			dir := t.TempDir()
			h := indexedHouse(t, dir, o)
			var ids []string
			metadata := func() object {
				m := object{}
				for name, values := range map[string][]any{"color": {"red", "blue", nil}, "n": {0, 1, -1, 1e300, "1", json.Number("9007199254740993")},
					"deep": {object{"a": 1, "b": 2}, []any{"x", "y"}, "x"}, "title": {fmt.Sprint(rng.IntN(1000))}, "graph_id": {"simple"}} {
					if rng.IntN(2) == 0 {
						m[name] = values[rng.IntN(len(values))]
					}
				}
				if rng.IntN(5) == 0 { // more than the index has
					for n := range 80 {
						m[fmt.Sprint("name ", n)] = n
					}
				}
				return m
			}
			pick := func() string { return ids[rng.IntN(len(ids))] }
			for round := range 8 {
				for range 12 {
					h.key = []string{"one", "two", "all"}[rng.IntN(3)]
					switch op := rng.IntN(11); {
					case op < 4 || len(ids) == 0:
						ids = append(ids, h.ok("POST", "/threads", object{"metadata": metadata()}).text1("thread_id"))
					case op < 6:
						h.do("PATCH", "/threads/"+pick(), object{"metadata": metadata()})
					case op == 6:
						h.do("DELETE", "/threads/"+pick(), nil)
					case op == 7:
						if a := h.do("POST", "/threads/"+pick()+"/copy", nil); a.status == http.StatusOK {
							ids = append(ids, a.text1("thread_id"))
						}
					case op == 8:
						h.program(pick(), fmt.Sprint("c", round, rng.IntN(9)))
					case op == 9: // a run is submitted, ends, may be removed
						h.ranBeside(pick(), rng)
					case seed == 0: // else no search for a graph goes by the index
						h.program(fmt.Sprint("beside-", rng.IntN(5)), fmt.Sprint("c", round, rng.IntN(9)))
					default:
						h.do("POST", "/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}) // on a thread that no search shows
					}
				}
				switch round {
				case 2:
					h.none(h.disk.Flush(t.Context()))
				case 4: // as an erasure beside the server does it
					h.none(errors.Join(h.items.Delete(t.Context(), store.Namespace{"__stele_server__", "threads"}, ids[0]), h.disk.DeleteThread(t.Context(), "beside-1")))
				case 5:
					h.none(h.disk.Compact(t.Context()))
				case 6:
					h.shut()
					h = indexedHouse(t, dir, o)
				}
				h.agrees(searches(ids[rng.IntN(len(ids))][:6]), rng)
			}
		})
	}
}

// ranBeside submits a run on a thread, which may end before it begins, or after, and may be removed.
func (h *house) ranBeside(thread string, rng *rand.Rand) {
	h.Helper()
	if h.do("GET", "/threads/"+thread, nil).status != http.StatusOK {
		return
	}
	r := must(h.queue.Submit(h.Context(), runs.Request{Spec: runs.Spec{Graph: "g", ThreadID: thread}}))
	switch rng.IntN(4) {
	case 0: // it is pending, until the next one is claimed in its place
	case 1:
		must(h.queue.Cancel(h.Context(), r.ID, runs.Interrupt))
	default:
		if c, _, err := h.queue.Claim(h.Context(), "w", []string{"g"}); err != nil {
			h.Fatal(err)
		} else if c != nil {
			h.none(h.queue.Finish(h.Context(), *c, runs.Outcome{Status: runs.Success}))
		}
	}
	if rng.IntN(4) == 0 {
		h.do("DELETE", "/threads/"+thread+"/runs/"+r.ID, nil)
	}
}

// agrees compares searches by the index with searches by the records.
func (h *house) agrees(queries []object, rng *rand.Rand) {
	h.Helper()
	for _, q := range queries {
		q = maps.Clone(q)
		if by := []string{"", "", "created_at", "thread_id", "updated_at"}[rng.IntN(5)]; by != "" {
			q["sort_by"], q["sort_order"] = by, []string{"asc", "desc"}[rng.IntN(2)]
			if rng.IntN(2) == 0 {
				q["stele_status"] = "any"
			}
		}
		q["limit"], q["offset"], q["select"] = 1+rng.IntN(30), rng.IntN(3), []string{"thread_id", "metadata", "created_at"}
		count := object{}
		if m := q["metadata"]; m != nil {
			count["metadata"] = m
		}
		for _, key := range []string{"one", "two", "all"} {
			h.key = key
			var got [2]string
			for i := range got {
				server.SetIndex(h.api, i == 0)
				a := h.ok("POST", "/threads/search", q)
				got[i] = fmt.Sprint(a.header.Get("X-Pagination-Next"), " ", a.header.Get("X-Pagination-Total"), " ", a.text, "\ncount ", h.ok("POST", "/threads/count", count).text)
			}
			server.SetIndex(h.api, true)
			if got[0] != got[1] {
				h.Fatalf("%s asks for %v: by the index\n%s\nby the records\n%s", h.key, q, got[0], got[1])
			}
		}
	}
}

// TestSearchDecodesAPage: a search of many threads decodes the records that it shows, and a count
// none, whichever threads the metadata selects.
func TestSearchDecodesAPage(t *testing.T) {
	h := indexedHouse(t, t.TempDir(), disk.Options{})
	const many = 1500 // more than are kept decoded
	var old string
	for i := range many {
		m := object{"n": i % 100}
		if i < 20 {
			m["age"] = "old"
		}
		id := h.ok("POST", "/threads", object{"metadata": m}).text1("thread_id")
		if i == 19 {
			old = id
		}
	}
	h.ok("POST", "/threads/count", object{}) // the index catches up
	for _, c := range []struct {
		body  object
		first string
		count int
	}{
		{object{}, "", many},
		{object{"metadata": object{"n": 7}}, "", many / 100},
		{object{"metadata": object{"age": "old"}}, old, 20},
		{object{"metadata": object{"age": "old", "n": 3}}, "", 1},
		{object{"metadata": object{"age": "young"}}, "", 0},
	} {
		before := server.DecodedThreads(h.api)
		list := h.ok("POST", "/threads/search", c.body).json.([]any)
		if n := server.DecodedThreads(h.api) - before; n > 10 || len(list) != min(c.count, 10) {
			t.Errorf("%v: %d threads, and %d records were decoded", c.body, len(list), n)
		}
		if c.first != "" && list[0].(object)["thread_id"] != c.first {
			t.Errorf("%v: the first is %v", c.body, list[0])
		}
		before = server.DecodedThreads(h.api)
		if got, want := strings.TrimSpace(h.ok("POST", "/threads/count", c.body).text), fmt.Sprint(c.count); got != want {
			t.Errorf("%v: count is %s, want %s", c.body, got, want)
		}
		if n := server.DecodedThreads(h.api) - before; n != 0 {
			t.Errorf("%v: a count decoded %d records", c.body, n)
		}
	}
}

// TestCountAsTheIndexComes: a count is that of all threads, not of a page, though the index is made meanwhile.
func TestCountAsTheIndexComes(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	for range 20 {
		h.thread()
	}
	h.shut()
	h = open(t, dir, func(c *server.Config) { c.ReadOnly = true }) // nothing else looks
	h.until("there is an index", func() bool { return server.HasIndex(h.api) })
	looks := 0
	server.OnUnfinished(h.api, func() {
		looks++
		server.SetIndex(h.api, looks > 1)
	})
	server.SetIndex(h.api, false)
	h.equal(h.ok("POST", "/threads/count", object{}), "20")
	if looks < 2 {
		t.Errorf("%d looks: it proves nothing", looks)
	}
	server.SetIndex(h.api, true)
}

// TestIndexIsMadeAgain: after reads that failed, also while the index was made again, it has all
// threads again.
func TestIndexIsMadeAgain(t *testing.T) {
	h := indexedHouse(t, t.TempDir(), disk.Options{})
	for failures := range int64(3) {
		for i := range 5 {
			h.ok("POST", "/threads", object{"metadata": object{"color": "red", "n": i}})
		}
		server.FailIndex(h.api, failures)
		h.ok("POST", "/threads", object{"metadata": object{"color": "blue"}})
		count := func() string { return strings.TrimSpace(h.ok("POST", "/threads/count", object{}).text) }
		if got, want := count(), fmt.Sprint(6*(failures+1)); got != want { // by the records, where the index cannot
			t.Errorf("%d failures: %s threads, want %s", failures, got, want)
		}
		h.until("the index is made again", func() bool { return server.HasIndex(h.api) })
		if got, want := count(), fmt.Sprint(6*(failures+1)); got != want {
			t.Errorf("%d failures: %s threads by the index that was made again, want %s", failures, got, want)
		}
		h.agrees([]object{{}, {"metadata": object{"color": "red"}}, {"metadata": object{"color": "blue"}}}, rand.New(rand.NewPCG(1, 2)))
	}
}

// TestIndexOfManyNames: a thread with hundreds of thousands of names in its metadata holds up no
// search of others, and a search for so many is answered, too.
func TestIndexOfManyNames(t *testing.T) {
	h := indexedHouse(t, t.TempDir(), disk.Options{})
	many := object{}
	for i := range 100_000 {
		many[fmt.Sprint(i)] = i
	}
	for range 2 {
		h.ok("POST", "/threads", object{"metadata": many})
		h.ok("POST", "/threads", object{"metadata": object{"color": "red"}})
	}
	for want, m := range map[string]object{"4": {}, "2": {"color": "red"}, "0": {"color": "blue"}} {
		if got := strings.TrimSpace(h.ok("POST", "/threads/count", object{"metadata": m}).text); got != want {
			t.Errorf("%v: count is %s, want %s", m, got, want)
		}
	}
	for _, m := range []object{{"7": 7}, many} {
		if got := strings.TrimSpace(h.ok("POST", "/threads/count", object{"metadata": m}).text); got != "2" {
			t.Errorf("%d names: count is %s, want 2", len(m), got)
		}
	}
	if n := server.IndexedTerms(h.api); n > 10 {
		t.Errorf("the index has %d values", n)
	}
}
