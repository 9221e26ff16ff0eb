package server_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// TestHistoryCut: in mode async a take-over loses events that a client has seen, and gives their numbers to others. The client that goes on
// behind one of them is told so, whether another one has its number by now or not; who saw none of them goes on.
func TestHistoryCut(t *testing.T) {
	sim, root := buckettest.NewSim(nil), t.TempDir()
	async := disk.Replica{Mode: replica.Async, Interval: time.Millisecond, TTL: time.Hour, AcceptLoss: true}
	o := disk.Options{Replica: async}
	o.Replica.Bucket = sim.Client("old")
	old := openOn(t, filepath.Join(root, "old"), o, nil)
	hasAll := func() bool {
		r := old.disk.Health().Replica
		return r.Seeded && r.Lag.Records == 0
	}
	thread := old.thread()
	run := old.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}, "stream_resumable": true}).text1("run_id")
	place := "/threads/" + thread + "/runs/" + run + "/stream"
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	res, err := old.request(ctx, "GET", place, nil, "Last-Event-ID", "0")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	seen := make(chan frame, 100)
	go func() { _ = frames(res.Body, func(f frame) bool { seen <- f; return true }) }() // it ends with its server
	kept := <-seen
	old.until("the bucket has it", hasAll)
	t.Cleanup(func() { sim.Connect("old") })
	sim.Disconnect("old")
	old.gate <- struct{}{}
	var lost frame
	for lost.event != "updates" && lost.event != "values" || !strings.Contains(lost.data, "slow") {
		select {
		case lost = <-seen:
		case <-time.After(patience):
			t.Fatalf("nothing behind %v", lost)
		}
	}

	if _, err := admin.RestoreBucket(t.Context(), sim, filepath.Join(root, "new"), admin.Moment{}, admin.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	var hours atomic.Int64 // the lease of the old one ends at once
	o.Replica.Bucket, o.Replica.Clock = sim.Client("new"), func() time.Duration { return time.Duration(hours.Add(1)) * time.Hour }
	h := openOn(t, filepath.Join(root, "new"), o, nil)
	told := func(when, id string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		res, err := h.request(ctx, "GET", place, nil, "Last-Event-ID", id)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if res.StatusCode != http.StatusGone {
			t.Fatalf("%s: %d", when, res.StatusCode)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || goWords.Match(text) || !strings.Contains(string(text), "lost") {
			t.Errorf("%s: %s, %v", when, text, err)
		}
		if res, err = h.request(ctx, "GET", "/threads/"+thread+"/stream", nil, "Last-Event-ID", run+"/"+id); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		var says frame
		_ = frames(res.Body, func(f frame) bool { says = f; return false })
		_ = res.Body.Close()
		if says.event != "error" || !strings.Contains(says.data, "HistoryCut") {
			t.Errorf("%s: the stream of the thread says %v", when, says)
		}
	}
	_, mark, _ := strings.Cut(lost.id, ".")
	told("nothing has the number", "1000."+mark)
	h.gate <- struct{}{}
	h.gate <- struct{}{}
	h.ended(thread, run)
	told("another event has the number", lost.id)
	told("the run has ended with fewer", "1000."+mark)
	all := h.stream("GET", place, nil, "Last-Event-ID", "0")
	for name, c := range map[string]struct {
		id   string
		rest int
	}{"an event that was kept": {kept.id, len(all) - 1}, "an id without a mark": {strings.SplitN(kept.id, ".", 2)[0], len(all) - 1}} {
		if rest := h.stream("GET", place, nil, "Last-Event-ID", c.id); len(rest) != c.rest {
			t.Errorf("%s, %s: %v, and all are %v", name, c.id, rest, all)
		}
	}
}
