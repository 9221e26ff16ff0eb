//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// TestEraseThreadsOnPostgreSQL is TestEraseThreads in the tables of a database, beside a server that is at work.
func TestEraseThreadsOnPostgreSQL(t *testing.T) {
	h, url := householdOnPostgres(t)
	ctx := t.Context()
	h.fill("bob", "bob")
	bobs := stay(h.words)
	before := h.threads()
	h.fill("ada", "ada@x.org")
	earlier, err := postgres.Open(ctx, url, postgres.Options{Clock: func() time.Time { return time.Now().Add(-12 * time.Hour) }})
	h.none(err)
	old, err := pgstore.On(ctx, earlier, store.Options{})
	h.none(err, old.Put(ctx, server.ItemsOf("ada@x.org"), "ages", object{"text": h.word("AGES")}, store.TTL(24*time.Hour)), old.Close(), earlier.Close()) // a read would renew it
	gone := h.gone()
	_, err = h.in.queue.PutSchedule(ctx, runs.Schedule{ID: "on a thread", Cron: "@yearly", Spec: runs.Spec{Graph: "agent", ThreadID: h.words["THREAD-ID"], Metadata: object{"m": h.word("THREAD-SCHEDULE")}}})
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
	added, children := h.added(before)
	args = append(args, added...)
	h.holds(adas, tables(t, url), true)

	h.none(h.api.Close())
	saved := tables(t, url)
	out, stderr, code := stele(t, args...)
	var dry erased
	h.none(json.Unmarshal([]byte(out), &dry))
	if code != exitDone || stderr != "" || !dry.DryRun || !dry.Database || children != 1 || len(dry.missing()) != 0 || len(dry.Beside.Children) != 1 || dry.Threads[0].Bytes != -1 || dry.Items[0].Bytes != -1 || len(dry.Left) != 1 || dry.Beside.Runs < 10 || dry.Beside.Crons != 1 || dry.Beside.Schedules != 1 || dry.Beside.Actions < 1 || dry.Items[0].Items == 0 {
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
	for _, wrong := range [][]string{{"erase", "--thread", "x"}, {"erase", "store", "--postgres", url, "--thread", "x"},
		{"erase", "store", "--schema", "s", "--thread", "x"}, {"erase", "--postgres", url, "--replica", "file:///tmp", "--thread", "x"}} {
		if _, stderr, code := stele(t, wrong...); code != exitFailed || !strings.Contains(stderr, "--postgres") {
			t.Errorf("%q: exit code %d, %s", wrong[:2], code, stderr)
		}
	}
}

// lastDelete is a saver whose process ends when it has deleted a thread.
type lastDelete struct{ saver.Saver }

var errEnded = errors.New("the process has ended")

func (s lastDelete) DeleteThread(ctx context.Context, id string) error {
	return errors.Join(errEnded, s.Saver.DeleteThread(ctx, id))
}

// TestDeleteThreadsLeavesNoSignals: when a thread is gone, no call finds it by its metadata, so no signal to it is left then.
func TestDeleteThreadsLeavesNoSignals(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	d, err := disk.Open(dir, disk.Options{})
	must(t, err)
	_, err = d.Put(t.Context(), saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: "1"}, saver.Metadata{}, nil)
	must(t, err)
	must(t, d.Close())
	in, err := (&app{}).openStores(t.Context(), dir, false)
	must(t, err)
	defer func() { must(t, in.end()) }()
	g, err := pregel.Entrypoint("signal", func(context.Context, any) (any, error) { return nil, nil },
		pregel.EntrypointOptions{Options: pregel.Options{Saver: in.saver, Store: in.items}})
	must(t, err)
	must(t, g.Signal(t.Context(), "t", "go on", "now", pregel.SignalOptions{Queue: in.queue}))
	there, err := in.erasedThread(t.Context(), "t")
	must(t, err)
	all := in.saver
	in.saver = lastDelete{all}
	err = in.deleteThreads(t.Context(), server.BesideReport{}, []string{"t"})
	in.saver = all
	left, lerr := in.erasedThread(t.Context(), "t")
	must(t, lerr)
	if !errors.Is(err, errEnded) || there.Checkpoints != 1 || there.Signals == 0 || left.Checkpoints != 0 || left.Signals != 0 {
		t.Errorf("%v: of %+v is left %+v", err, there, left)
	}
}
