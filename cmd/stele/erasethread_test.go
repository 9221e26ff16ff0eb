//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine/enginetest"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// TestEraseThreads: of threads on which a word is in every place that a run can write, no file of the store holds one when the
// threads are erased by their ids: signals of one that was deleted before go, too, and the threads of children. What is
// on no thread, and another user's threads, stay.
func TestEraseThreads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	h := &household{T: t}
	d := h.open(dir)
	h.fill("bob", "bob")
	bobs := stay(h.words)
	before := h.threads()
	h.fill("ada", "ada@x.org")
	gone := h.gone()
	_, err := h.in.queue.PutSchedule(t.Context(), runs.Schedule{ID: "on a thread", Cron: "@yearly", Spec: runs.Spec{Graph: "agent", ThreadID: h.words["THREAD-ID"], Metadata: object{"m": h.word("THREAD-SCHEDULE")}}})
	h.none(err)
	adas := stay(h.words)
	for place := range adas { // these are on no thread, but for items, which --items names
		for _, apart := range []string{"ASSISTANT", "CHANGED", "OLD", "NEW", "FREE-CRON", "SCHEDULE"} {
			if strings.HasPrefix(place, apart) {
				delete(adas, place)
			}
		}
	}
	scan := func() map[string][]byte { h.Helper(); return enginetest.Scan(t, vfs.OS{}, dir, nil) }
	h.none(h.api.Close(), h.cache.Clear(t.Context()), d.Flush(t.Context()))
	args := []string{"erase", dir, "--json", "--items", prefixText(server.ItemsOf("ada@x.org")), "--thread", gone}
	added, children := h.added(before)
	args = append(args, added...)
	h.none(h.in.end())
	h.holds(adas, scan(), true)

	saved := files(t, dir)
	out, stderr, code := stele(t, args...)
	var dry erased
	h.none(json.Unmarshal([]byte(out), &dry))
	if code != exitDone || stderr != "" || children != 1 || len(dry.missing()) != 0 || len(dry.Beside.Children) != 1 || dry.Beside.Runs < 10 || dry.Beside.Crons != 1 || dry.Beside.Schedules != 1 || dry.Beside.Actions < 1 || dry.Beside.Unreadable != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	if !maps.Equal(saved, files(t, dir)) {
		t.Error("a dry run has written")
	}
	if out, stderr, code = stele(t, append(args, "--yes")...); code != exitDone {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	h.holds(adas, scan(), false)
	h.holds(bobs, scan(), true)
	if out, _, code = stele(t, args...); code != exitFound || !strings.Contains(out, `"pending": 0`) || strings.Contains(out, `"beside"`) {
		t.Errorf("left: exit code %d\n%s", code, out)
	}
}

// threads are all threads of the household that a record, a checkpoint or a run names, with their parents.
func (h *household) threads() map[string]string {
	h.Helper()
	all := map[string]string{}
	for info, err := range h.in.saver.Threads(h.Context(), saver.ThreadQuery{}) {
		h.none(err)
		all[info.ThreadID] = ""
	}
	found, err := h.in.items.Search(h.Context(), store.Query{Prefix: store.Namespace{"__stele_server__", "threads"}, Limit: store.NoLimit})
	h.none(err)
	for _, f := range found {
		all[f.Key] = ""
	}
	for r, err := range h.in.queue.List(h.Context(), runs.Query{}) {
		h.none(err)
		all[r.ThreadID] = r.Parent
	}
	return all
}

// added names, as arguments, the threads that were not there before, and counts those that go with their parents.
func (h *household) added(before map[string]string) (args []string, children int) {
	h.Helper()
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
	return args, children
}

// TestEraseThreadsGoesOn: an erasure that was interrupted when the runs of a child were removed, and nothing else, goes on with its
// thread.
func TestEraseThreadsGoesOn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	h := &household{T: t}
	d := h.open(dir)
	h.key, h.words = "ada", map[string]string{}
	family := h.id("thread_id", h.ok("POST", "/threads", object{}))
	h.ok("POST", "/threads/"+family+"/runs/wait", object{"assistant_id": "parent", "input": object{"text": "WORD-ADA-IN-PARENT-Q7Z"}})
	h.word("PARENT")
	h.word("CHILD")
	h.none(h.api.Close())
	all := slices.Collect(maps.Keys(h.threads()))
	rep, err := server.RemoveBeside(t.Context(), server.BesideOptions{Saver: d, Store: h.in.items, Queue: h.in.queue, Threads: []string{family}})
	if h.none(err); len(all) != 2 || len(rep.Children) != 1 || rep.Runs != 2 {
		t.Fatalf("%v, %+v", all, rep)
	}
	h.none(d.Flush(t.Context()), h.in.end())
	h.holds(h.words, enginetest.Scan(t, vfs.OS{}, dir, nil), true)
	if out, stderr, code := stele(t, "erase", dir, "--thread", family, "--yes"); code != exitDone || !strings.Contains(out, "erased 2 threads") || !strings.Contains(out, "go 1 child thread: "+rep.Children[0]) {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
	h.holds(h.words, enginetest.Scan(t, vfs.OS{}, dir, nil), false)
	for name, content := range enginetest.Scan(t, vfs.OS{}, dir, nil) {
		for _, id := range all {
			if strings.Contains(string(content), id) {
				t.Errorf("%s is in %s", id, name)
			}
		}
	}
}

// onceErased is a context that ends when erasures are pending.
type onceErased struct {
	context.Context
	d *disk.Saver
}

// Err implements context.Context.
func (c onceErased) Err() error {
	if n, err := c.d.PendingErasures(); n > 0 || err != nil {
		return context.Canceled
	}
	return nil
}

// TestEraseThreadsOfManyChildren: of a thread that a filter finds, and whose children are more than one commit erases, nothing is
// left when the call is repeated that was interrupted behind the first commit: no thread of a child, and no note of it.
func TestEraseThreadsOfManyChildren(t *testing.T) {
	for _, children := range []int{62, 63, 64, 70} { // the first commit ends before the notes, between them and the parent, …
		t.Run(fmt.Sprint(children), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			d, err := disk.Open(dir, disk.Options{ManualWork: true})
			must(t, err)
			defer func() { must(t, d.Close()) }()
			put := func(thread string, m saver.Metadata) {
				_, err := d.Put(t.Context(), saver.Config{ThreadID: thread}, saver.Checkpoint{V: 4, ID: "1"}, m, nil)
				must(t, err)
			}
			items, err := store.On(d, store.Options{})
			must(t, err)
			queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
			must(t, err)
			_, err = queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "A-Q7Z", Graph: "g"}})
			must(t, err)
			parent, _, err := queue.Claim(t.Context(), "w", []string{"g"})
			must(t, err)
			put("A-Q7Z", saver.Metadata{"user": "ada"})
			put("other", nil)
			for i := range children {
				id := fmt.Sprintf("CHILD-%d-Q7Z", i)
				put(id, nil)
				_, err := queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: id, Graph: "g"}, Parent: parent})
				must(t, err)
			}
			must(t, queue.Finish(t.Context(), *parent, runs.Outcome{Status: runs.Error, Error: "x"}))
			must(t, items.Close())
			o := admin.EraseOptions{Metadata: map[string]any{"user": "ada"}, Beside: (&erased{}).beside(slog.New(slog.DiscardHandler))}
			if _, err := admin.EraseOpen(onceErased{t.Context(), d}, d, o); !errors.Is(err, saver.ErrEraseUnfinished) || !errors.Is(err, context.Canceled) {
				t.Fatalf("interrupted: %v", err)
			}
			_, err = admin.EraseOpen(t.Context(), d, o)
			must(t, err)
			for info, err := range d.Threads(t.Context(), saver.ThreadQuery{}) {
				if err != nil || info.ThreadID != "other" {
					t.Errorf("%s is left, %v", info.ThreadID, err)
				}
			}
			for name, content := range enginetest.Scan(t, vfs.OS{}, dir, nil) {
				if strings.Contains(string(content), "-Q7Z") {
					t.Errorf("an id is in %s", name)
				}
			}
		})
	}
}
