//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
)

// TestEraseThreadsOnPostgreSQL is TestEraseThreads in the tables of a database, beside a server that is at work.
func TestEraseThreadsOnPostgreSQL(t *testing.T) {
	url, _ := postgresServer(t)
	ctx := t.Context()
	h := &household{T: t}
	h.none(postgres.Setup(ctx, url, postgres.Options{}), pgstore.Setup(ctx, url, postgres.Options{}, nil))
	s, err := postgres.Open(ctx, url, postgres.Options{})
	h.none(err)
	items, err := pgstore.On(ctx, s, store.Options{})
	h.none(err)
	queue := pgqueue.Open(s, pgqueue.Options{})
	h.cache, err = cache.NewMemory(cache.Options{})
	h.none(err)
	h.in = &stores{saver: s, items: items, queue: queue}
	h.serve()
	t.Cleanup(func() { h.none(h.api.Close(), queue.Close(), items.Close(), s.Close()) })
	h.fill("bob", "bob")
	bobs := stay(h.words)
	before := h.threads()
	h.fill("ada", "ada@x.org")
	gone := h.gone()
	_, err = queue.PutSchedule(ctx, runs.Schedule{ID: "on a thread", Cron: "@yearly", Spec: runs.Spec{Graph: "agent", ThreadID: h.words["THREAD-ID"], Metadata: object{"m": h.word("THREAD-SCHEDULE")}}})
	h.none(err)
	adas := stay(h.words)
	for place := range adas {
		for _, apart := range []string{"ASSISTANT", "CHANGED", "OLD", "NEW", "FREE-CRON", "SCHEDULE", // on no thread
			"THREAD-ID", "REFUSING-ID", "GONE-ID"} { // remembered, so that late writes are refused
			if strings.HasPrefix(place, apart) {
				delete(adas, place)
			}
		}
	}
	args := []string{"erase", "--postgres", url, "--json", "--items", prefixText(server.ItemsOf("ada@x.org")), "--thread", gone}
	children := 0
	for id, parent := range h.threads() {
		if _, known := before[id]; known {
			continue
		}
		if parent != "" { // it goes with its parent
			children++
			continue
		}
		args = append(args, "--thread", id)
	}
	h.holds(adas, tables(t, url), true)

	h.none(h.api.Close())
	saved := tables(t, url)
	out, stderr, code := stele(t, args...)
	var dry erased
	h.none(json.Unmarshal([]byte(out), &dry))
	if code != exitDone || stderr != "" || !dry.DryRun || !dry.Database || children != 1 || len(dry.missing()) != 0 || len(dry.Beside.Children) != 1 || dry.Beside.Runs < 10 || dry.Beside.Crons != 1 || dry.Beside.Schedules != 1 || dry.Beside.Actions < 1 || dry.Items[0].Items == 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	for name, content := range tables(t, url) {
		if !bytes.Equal(content, saved[name]) {
			t.Errorf("a dry run has written to %s", name)
		}
	}
	h.serve()
	people := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "--json" })
	if out, stderr, code = stele(t, append(people, "--yes")...); code != exitDone || !strings.Contains(out, "\ndeleted ") || !strings.Contains(out, "VACUUM") || strings.Contains(out, " B ") {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	h.holds(adas, tables(t, url), false)
	h.holds(bobs, tables(t, url), true)
	for _, yes := range []string{"--yes=false", "--yes"} {
		if out, _, code = stele(t, append(people, yes)...); code != exitFound || !strings.Contains(out, "nothing matches") {
			t.Errorf("left, %s: exit code %d\n%s", yes, code, out)
		}
	}
	for _, wrong := range [][]string{{"erase", "--thread", "x"}, {"erase", "store", "--postgres", url, "--thread", "x"}} {
		if _, stderr, code := stele(t, wrong...); code != exitFailed || !strings.Contains(stderr, "--postgres") {
			t.Errorf("%q: exit code %d, %s", wrong[:2], code, stderr)
		}
	}
}
