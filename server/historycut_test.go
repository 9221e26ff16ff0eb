package server_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"slices"
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

// TestHistoryCutFollower: a follower without the event behind which a client goes on may only be behind. It waits, and goes on once it has
// the event, or says that it is lost when another one has its number, or when the run has ended with fewer.
func TestHistoryCutFollower(t *testing.T) {
	p := openHousesIn(t, replica.Async, nil)
	l, f := p.leader, p.follower
	thread := l.thread()
	run := l.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}, "stream_resumable": true}).text1("run_id")
	l.until("it runs", func() bool { return l.ok("GET", "/threads/"+thread+"/runs/"+run, nil).text1("status") == "running" })
	p.meet()
	t.Cleanup(func() { p.sim.Connect("follower") })
	p.sim.Disconnect("follower")
	l.gate <- struct{}{}
	l.gate <- struct{}{}
	l.ended(thread, run)
	place := "/threads/" + thread + "/runs/" + run + "/stream"
	all := l.stream("GET", place, nil, "Last-Event-ID", "0")
	rest := all
	for len(rest) > 0 && (rest[0].event != "updates" && rest[0].event != "values" || !strings.Contains(rest[0].data, "slow")) {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		t.Fatalf("no event behind the gate: %v", all)
	}
	number, mark, marked := strings.Cut(rest[0].id, ".")
	if !marked {
		t.Fatalf("%v has no mark", rest[0])
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	type asked struct {
		name string
		lost bool
		body io.Reader
	}
	var runs, threads []asked
	for _, c := range []struct {
		name, id string
		lost     bool
	}{{"the event comes", rest[0].id, false}, {"another one comes", number + ".00000000", true}, {"the run ends with fewer", "1000." + mark, true}} {
		ask := func(path, id string) asked {
			res, err := f.request(ctx, "GET", path, nil, "Last-Event-ID", id)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			t.Cleanup(func() { _ = res.Body.Close() })
			if res.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s: %d, and the follower may have it later", c.name, path, res.StatusCode)
			}
			return asked{c.name, c.lost, res.Body}
		}
		runs, threads = append(runs, ask(place, c.id)), append(threads, ask("/threads/"+thread+"/stream", run+"/"+c.id))
	}
	p.sim.Connect("follower")
	for _, a := range runs {
		var got []frame
		_ = frames(a.body, func(f frame) bool { got = append(got, f); return true })
		if a.lost && (len(got) != 1 || got[0].event != "error" || !strings.Contains(got[0].data, "HistoryCut")) || !a.lost && !slices.Equal(got, rest[1:]) {
			t.Errorf("%s: %v; lost: %v, %v", a.name, got, a.lost, rest)
		}
	}
	for _, a := range threads {
		var first frame
		_ = frames(a.body, func(f frame) bool { first = f; return false })
		if cut := first.event == "error" && strings.Contains(first.data, "HistoryCut"); cut != a.lost || !a.lost && !strings.HasPrefix(first.id, run+"/") {
			t.Errorf("%s: the stream of the thread: %v", a.name, first)
		}
	}
}
