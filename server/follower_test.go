package server_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
)

// houses are a server whose store leads, and one whose store follows it.
type houses struct {
	leader, follower *house
	sim              *buckettest.Sim
	late             atomic.Int64 // of the follower's clock
}

func openHouses(t *testing.T, change func(*server.Config)) *houses {
	t.Helper()
	return openHousesIn(t, replica.Sync, change)
}

func openHousesIn(t *testing.T, mode replica.Mode, change func(*server.Config)) *houses {
	t.Helper()
	p, dir := &houses{sim: buckettest.NewSim(nil)}, t.TempDir()
	p.leader = openOn(t, filepath.Join(dir, "leader"), disk.Options{Replica: disk.Replica{Bucket: p.sim.Client("leader"), Mode: mode, Interval: time.Millisecond, TTL: time.Hour}}, change)
	p.leader.until("the bucket is seeded", func() bool { return p.leader.disk.Health().Replica.Seeded })
	began := time.Now()
	f, err := disk.OpenFollower(filepath.Join(dir, "follower"), disk.Options{Replica: disk.Replica{Bucket: p.sim.Client("follower"), Interval: time.Millisecond,
		Clock: func() time.Duration { return time.Since(began) + time.Duration(p.late.Load()) }}})
	if err != nil {
		t.Fatal(err)
	}
	p.follower = openSaver(t, filepath.Join(dir, "follower"), f, change)
	return p
}

// meet waits until the follower has what the leader has.
func (p *houses) meet() {
	p.leader.Helper()
	if err := p.follower.disk.Await(p.leader.Context(), p.leader.disk.Stats().LastLSN); err != nil {
		p.leader.Fatal(err)
	}
}

// TestFollowerReads: a server on a follower answers what reads as its leader does, whatever happens there meanwhile.
func TestFollowerReads(t *testing.T) {
	p := openHouses(t, nil)
	l, f := p.leader, p.follower
	thread := l.thread()
	l.ok("PATCH", "/threads/"+thread, object{"metadata": object{"a": "b"}})
	run := l.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "stream_resumable": true}).text1("run_id")
	l.ended(thread, run)
	slow := l.thread()
	waiting := l.ok("POST", "/threads/"+slow+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}, "stream_resumable": true}).text1("run_id")
	l.until("it runs", func() bool { return l.ok("GET", "/threads/"+slow+"/runs/"+waiting, nil).text1("status") == "running" })
	l.ok("PUT", "/store/items", object{"namespace": []string{"n"}, "key": "k", "value": object{"x": 1}})
	l.ok("POST", "/threads/"+thread+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *", "input": object{"text": "x"}})
	assistant := must(l.ok("POST", "/assistants/search", object{"graph_id": "simple"}).json.([]any)[0].(object)["assistant_id"].(string), nil)
	gone := l.thread()
	reads := [][3]any{
		{"GET", "/threads/" + thread}, {"GET", "/threads/" + thread + "/state"}, {"GET", "/threads/" + thread + "/history"}, {"GET", "/threads/" + slow}, {"GET", "/threads/" + gone},
		{"POST", "/threads/" + thread + "/history", object{"limit": 1}}, {"POST", "/threads/search", object{}}, {"POST", "/threads/search", object{"metadata": object{"a": "b"}}},
		{"POST", "/threads/search", object{"status": "busy"}}, {"POST", "/threads/count", object{}},
		{"GET", "/threads/" + thread + "/runs"}, {"GET", "/threads/" + slow + "/runs"}, {"GET", "/threads/" + slow + "/runs?status=running"}, {"GET", "/threads/" + slow + "/runs?status=success"},
		{"GET", "/threads/" + thread + "/runs/" + run}, {"GET", "/threads/" + thread + "/runs/" + run + "/join"}, {"GET", "/threads/" + slow + "/runs/" + waiting},
		{"GET", "/assistants/" + assistant}, {"POST", "/assistants/search", object{}}, {"GET", "/assistants/" + assistant + "/graph"}, {"POST", "/assistants/" + assistant + "/versions", object{}},
		{"POST", "/runs/crons/search", object{}}, {"GET", "/store/items?namespace=n&key=k"}, {"POST", "/store/items/search", object{"namespace_prefix": []string{"n"}}},
		{"POST", "/store/namespaces", object{}}, {"GET", "/stele/runs"}, {"GET", "/stele/runs?status=running"}, {"GET", "/stele/schedules"},
		{"GET", "/stele/threads/" + thread + "/runs/" + run + "/tasks"},
	}
	same := func(when string) {
		t.Helper()
		p.meet()
		for _, r := range reads {
			want, got := l.do(r[0].(string), r[1].(string), r[2]), f.do(r[0].(string), r[1].(string), r[2])
			if got.status != want.status || got.text != want.text {
				t.Errorf("%s: %s %s:\nfollower %d %s\nleader   %d %s", when, r[0], r[1], got.status, got.text, want.status, want.text)
			}
		}
	}
	same("at first")
	begun := f.stream("GET", "/threads/"+thread+"/runs/"+run+"/stream", nil, "Last-Event-ID", "0")
	if want := l.stream("GET", "/threads/"+thread+"/runs/"+run+"/stream", nil, "Last-Event-ID", "0"); len(begun) == 0 || len(begun) != len(want) || begun[len(begun)-1] != want[len(want)-1] {
		t.Errorf("the stream of a run: %v, want %v", begun, want)
	}
	streamed := make(chan []frame)
	go func() {
		streamed <- f.stream("GET", "/threads/"+slow+"/runs/"+waiting+"/stream", nil, "Last-Event-ID", "0")
	}()
	l.gate <- struct{}{}
	l.gate <- struct{}{}
	l.ended(slow, waiting)
	if got, want := <-streamed, l.stream("GET", "/threads/"+slow+"/runs/"+waiting+"/stream", nil, "Last-Event-ID", "0"); len(got) != len(want) || got[len(got)-1] != want[len(want)-1] {
		t.Errorf("the stream of a run that ends meanwhile: %v, want %v", got, want)
	}
	same("when the run has ended")
	l.ok("DELETE", "/threads/"+gone, nil)
	l.ok("DELETE", "/threads/"+slow, nil)
	l.ok("DELETE", "/threads/"+thread+"/runs/"+run, nil)
	same("when they were deleted")
}

// TestFollowerRefusesWrites: a server on a follower refuses each operation that changes something with 503 and Retry-After, in words of
// HTTP, and nothing is changed.
func TestFollowerRefusesWrites(t *testing.T) {
	p := openHouses(t, nil)
	thread := p.leader.thread()
	p.meet()
	before := p.follower.disk.Stats().LastLSN
	changes := 0
	for _, route := range p.follower.api.Routes() {
		method, path, _ := strings.Cut(route, " ")
		const some = "00000000-0000-4000-8000-000000000001"
		path = strings.NewReplacer("{$}", "", "{assistant_id}", some, "{namespace}", "x", "{schedule_id...}", "x", "{thread_id}", thread, "{run_id}", some, "{cron_id}", some,
			"{checkpoint_id}", some, "{name}", "x").Replace(path)
		if method == "GET" {
			continue
		}
		a := p.follower.do(method, path, object{})
		if a.status != http.StatusServiceUnavailable {
			if !strings.Contains(path, "search") && !strings.Contains(path, "count") && !strings.HasSuffix(path, "/history") && !strings.HasSuffix(path, "/versions") &&
				!strings.HasSuffix(path, "/state/checkpoint") && !strings.HasSuffix(path, "/namespaces") && !strings.HasSuffix(path, "/stream/events") {
				t.Errorf("%s: %d %s", route, a.status, a.text)
			}
			continue
		}
		changes++
		if a.header.Get("Retry-After") == "" || goWords.MatchString(a.text) || !strings.Contains(a.text, "follows") {
			t.Errorf("%s: %v %s", route, a.header, a.text)
		}
	}
	if changes < 35 {
		t.Errorf("only %d operations are refused", changes)
	}
	if after := p.follower.disk.Stats().LastLSN; after != before {
		t.Errorf("the follower wrote records %d to %d", before, after)
	}
	p.follower.refused(http.StatusServiceUnavailable, "GET", "/ok?leads=1", nil)
	p.leader.ok("GET", "/ok?leads=1", nil)
	for h, want := range map[*house]string{p.leader: "stele_server_leads 1\n", p.follower: "stele_server_leads 0\n"} {
		if m := h.ok("GET", "/metrics", nil); !strings.Contains(m.text, want) {
			t.Errorf("no %s in %s", want, m.text)
		}
	}
	if about := p.follower.ok("GET", "/info", nil).object()["stele"].(object); about["readonly"] != true || about["follower"] != true {
		t.Errorf("%v", about)
	}
}

// TestFollowerIsStale: a server on a follower that has not heard of its leader for too long says so with 503, and that it is not healthy.
func TestFollowerIsStale(t *testing.T) {
	p := openHouses(t, nil)
	thread := p.leader.thread()
	p.meet()
	p.follower.ok("GET", "/threads/"+thread, nil)
	p.sim.Disconnect("follower")
	p.late.Store(int64(2 * time.Minute))
	a := p.follower.refused(http.StatusServiceUnavailable, "GET", "/threads/"+thread, nil)
	if a.header.Get("Retry-After") == "" || goWords.MatchString(a.text) {
		t.Errorf("%v %s", a.header, a.text)
	}
	p.follower.refused(http.StatusInternalServerError, "GET", "/ok?check_db=1", nil)
}

// TestReplicaOfOK: whoever asks whether the store is well is told of its copy in the bucket, by the leader and by a follower, and not
// where that is.
func TestReplicaOfOK(t *testing.T) {
	p := openHousesIn(t, replica.Async, nil)
	said := func(h *house) object {
		t.Helper()
		a := h.do("GET", "/ok?check_db=1", nil)
		o, _ := a.object()["services"].(object)["replica"].(object)
		if o["mode"] != "async" {
			t.Fatalf("%d %s", a.status, a.text)
		}
		return o
	}
	p.leader.thread()
	p.meet()
	p.leader.until("the bucket has all", func() bool {
		o := said(p.leader)
		return o["status"] == "ok" && o["seeded"] == true && fmt.Sprint(o["lag_records"]) == "0" && fmt.Sprint(o["lag_seconds"]) == "0"
	})
	if o := said(p.follower); o["status"] != "ok" || o["behind_seconds"] == nil || o["beat_seconds"] == nil || o["lag_records"] != nil {
		t.Errorf("the follower says %v", o)
	}
	p.sim.Disconnect("leader")
	p.leader.thread()
	p.leader.until("the bucket lacks some", func() bool {
		o := said(p.leader)
		return o["status"] == "degraded" && fmt.Sprint(o["lag_records"]) != "0" && fmt.Sprint(o["lag_seconds"]) != "0"
	})
	p.sim.Disconnect("follower")
	p.late.Store(int64(2 * time.Minute))
	p.follower.until("it has no news", func() bool {
		o := said(p.follower)
		beat, err := strconv.ParseFloat(fmt.Sprint(o["beat_seconds"]), 64)
		return o["status"] == "failed" && err == nil && beat >= 60
	})
	p.follower.until("the bucket is away", func() bool { return said(p.follower)["away_seconds"] != nil })
	for _, h := range []*house{p.leader, p.follower} {
		if a := h.do("GET", "/ok?check_db=1", nil); strings.Contains(a.text, "bucket") || strings.Contains(a.text, "rror") {
			t.Errorf("anybody is told %s", a.text)
		}
	}
}

// TestServesWhileAway: a server on a store that was opened while its bucket is away answers what reads, refuses
// changes with 503 and Retry-After, and says for how long the bucket has been away.
func TestServesWhileAway(t *testing.T) {
	sim, dir := buckettest.NewSim(nil), filepath.Join(t.TempDir(), "s")
	o := disk.Options{Replica: disk.Replica{Bucket: sim.Client("m"), Mode: replica.Sync, Interval: time.Millisecond}}
	h := openOn(t, dir, o, nil)
	thread := h.thread()
	h.shut()
	sim.Disconnect("m")
	ctx, stop := context.WithCancel(t.Context())
	served, ended := make(chan *disk.Saver), make(chan error, 1)
	go func() {
		ended <- disk.LeadOrFollow(ctx, dir, o, func(ctx context.Context, s *disk.Saver) error {
			served <- s
			<-ctx.Done()
			return nil
		})
	}()
	select {
	case s := <-served:
		h = openSaver(t, dir, s, nil)
	case err := <-ended:
		t.Fatal(err)
	}
	h.ok("GET", "/threads/"+thread, nil)
	h.ok("POST", "/threads/search", object{})
	if a := h.refused(http.StatusServiceUnavailable, "POST", "/threads", object{}); a.header.Get("Retry-After") == "" || goWords.MatchString(a.text) {
		t.Errorf("%v %s", a.header, a.text)
	}
	h.refused(http.StatusServiceUnavailable, "GET", "/ok?leads=1", nil)
	said := h.ok("GET", "/ok?check_db=1", nil).object()["services"].(object)["replica"].(object)
	if said["status"] != "degraded" || said["away_seconds"] == nil {
		t.Errorf("%v", said)
	}
	h.shut()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestEraseUserSaysWhatIsLeft: an erasure of a user says what the bucket may keep, and that other machines have directories. A dry run
// asks no bucket.
func TestEraseUserSaysWhatIsLeft(t *testing.T) {
	p := openHousesIn(t, replica.Async, nil)
	for _, dry := range []bool{true, false} {
		beyond := p.leader.erase(dry).text1("beyond")
		for _, part := range []string{"snapshots of the directory", "other machines", "may keep versions"} {
			if want := !dry || strings.HasPrefix(part, "snapshots"); strings.Contains(beyond, part) != want {
				t.Errorf("dry %t: not reached is %q; %q: %t", dry, beyond, part, want)
			}
		}
	}
}
