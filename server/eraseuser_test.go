package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/engine/enginetest"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
)

// operated is a house of ann and bob.b, with an operator who may do all.
func operated(t *testing.T, change func(*server.Config)) (ann, bob, root *house) {
	return operatedOn(t, t.TempDir(), disk.Options{}, change)
}

func operatedOn(t *testing.T, dir string, o disk.Options, change func(*server.Config)) (ann, bob, root *house) {
	ann = openOn(t, dir, o, func(c *server.Config) {
		c.Auth = server.APIKeys(map[string]*server.User{"ann": {Identity: "ann"}, "bob": {Identity: "bob.b"}, "root": {Identity: "root"}, "half": {Identity: "half"}})
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			switch {
			case u.Identity == "root", u.Identity == "half" && a.Resource == "system" && a.Action != "delete":
				return server.Grant{}, nil
			case a.Resource == "threads" && a.Value["team"] == "red":
				return server.Grant{Filter: object{"team": "red"}}, nil
			}
			return server.OwnThings(ctx, u, a)
		}
		if change != nil {
			change(c)
		}
	})
	as := func(key string) *house {
		one := *ann
		one.key = key
		return &one
	}
	return as("ann"), as("bob"), as("root")
}

// erase erases ann, or says what it would.
func (h *house) erase(dry bool) answer {
	h.Helper()
	return h.ok("POST", "/stele/erase-user", object{"identity": "ann", "filter": object{"owner": "ann"}, "dry_run": dry})
}

func (a answer) whole(name string) int {
	n, _ := a.object()[name].(float64)
	return int(n)
}

// TestEraseUserIsGranted: nobody erases a user but who is granted that, of all the things of the server; and what
// would select others' things is refused before anything is erased.
func TestEraseUserIsGranted(t *testing.T) {
	ann, bob, root := operated(t, nil)
	thread := ann.thread()
	half := *ann
	half.key = "half"
	for _, h := range []*house{ann, bob, &half} {
		for _, dry := range []bool{true, false} {
			h.refused(403, "POST", "/stele/erase-user", object{"identity": "ann", "filter": object{"owner": "ann"}, "dry_run": dry})
		}
	}
	half.ok("GET", "/stele/health", nil)
	own := object{"owner": "ann"}
	for what, body := range map[string]object{
		"no identity": {"filter": own}, "empty identity": {"identity": "", "filter": own}, "no filter": {"identity": "ann"}, "empty filter": {"identity": "ann", "filter": object{}},
		"null": {"identity": "ann", "filter": object{"owner": nil}}, "object": {"identity": "ann", "filter": object{"owner": object{"$eq": "ann"}}}, "list": {"identity": "ann", "filter": object{"owner": []string{"ann"}}},
		"all items": {"identity": "ann", "filter": own, "items": [][]string{{}}}, "the server's": {"identity": "ann", "filter": own, "items": [][]string{{"__stele_server__"}}},
		"another's": {"identity": "ann", "filter": own, "items": [][]string{server.ItemsOf("bob.b")}}, "a queue's": {"identity": "ann", "filter": own, "items": [][]string{{"stele.runs"}}},
	} {
		body["dry_run"] = false
		if a := root.do("POST", "/stele/erase-user", body); a.status != 422 {
			t.Errorf("%s: %d %s", what, a.status, a.text)
		}
	}
	ann.ok("GET", "/threads/"+thread, nil)
	if a := root.ok("POST", "/stele/erase-user", object{"identity": "ann", "filter": own}); a.object()["dry_run"] != true || a.whole("threads") != 1 { // unless it is told
		t.Errorf("%s", a.text)
	}
	ann.ok("GET", "/threads/"+thread, nil)
	root.erase(false)
	ann.refused(404, "GET", "/threads/"+thread, nil)

	_, _, shut := operated(t, func(c *server.Config) { c.ReadOnly = true })
	shut.refused(403, "POST", "/stele/erase-user", object{"identity": "ann", "filter": own})
}

// clearing is a cache that notes that it was cleared, which is when all is deleted and the files are not yet rewritten.
type clearing struct {
	cache.Cache
	cleared int
	then    func()
}

func (c *clearing) Clear(ctx context.Context, groups ...string) error {
	if c.cleared++; c.then != nil {
		c.then()
	}
	return c.Cache.Clear(ctx, groups...)
}

// graph is a graph "cached" with the cache.
func (c *clearing) graph(cfg *server.Config) {
	cfg.Graphs["cached"] = must(builder().Node("a", says("a"), graph.NodeOptions{Cache: &pregel.CachePolicy{}}).Sequence(graph.Start, "a").Compile(graph.Options{Name: "cached", Saver: cfg.Saver, Cache: c}))
}

// TestEraseUserOnAFullDisk: nobody is told that everything is deleted while items are there: the next commit of the
// erasure failed. With room again the same call goes on.
func TestEraseUserOnAFullDisk(t *testing.T) {
	inj := faultfs.NewInjector()
	kept := &clearing{Cache: must(cache.NewMemory(cache.Options{}))}
	ann, _, root := operatedOn(t, "store", disk.Options{Simulation: disk.Simulation{FS: faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj), Inline: true}}, kept.graph)
	for i := range 100 { // more than one commit deletes
		ann.none(ann.items.Put(t.Context(), append(server.ItemsOf("ann"), fmt.Sprint(i)), "k", object{"n": 1}))
	}
	ann.thread()
	kept.then = func() {
		inj.Set(faultfs.Rule{Op: faultfs.OpWriteAt, N: 2, Sticky: true, Err: syscall.ENOSPC})
	}
	root.refused(507, "POST", "/stele/erase-user", object{"identity": "ann", "filter": object{"owner": "ann"}, "dry_run": false})
	inj.Set()
	if n := must(ann.disk.PendingErasures()); n == 0 {
		t.Fatal("the first commit of the erasure has failed: it proves nothing")
	}
	kept.then = nil
	if a := root.erase(false); a.object()["erased"] != true || a.whole("items") == 0 || a.whole("items") == 100 {
		t.Errorf("%s", a.text)
	}
	if left := ann.all(server.ItemsOf("ann")...); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestEraseUserAtWork: runs of the user that have not ended are cancelled, and go, and what graphs have cached. Another user's stay.
func TestEraseUserAtWork(t *testing.T) {
	kept := &clearing{Cache: must(cache.NewMemory(cache.Options{}))}
	ann, bob, root := operated(t, kept.graph)
	ann.ok("POST", "/runs/wait", object{"assistant_id": "cached", "input": object{"text": "x"}})
	var slow [2]string
	for i, h := range []*house{ann, bob} {
		slow[i] = h.thread()
		h.ok("POST", "/threads/"+slow[i]+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}})
		h.ok("POST", "/threads/"+slow[i]+"/runs", object{"assistant_id": "slow", "input": object{"text": "y"}})
		h.until("the run begins", func() bool {
			return strings.Contains(h.ok("GET", "/threads/"+slow[i]+"/state", nil).text, `"next":["x"]`)
		})
	}
	if a := root.erase(true); a.whole("runs") != 3 || kept.cleared != 0 {
		t.Errorf("%s", a.text)
	}
	if a := root.erase(false); a.whole("runs") != 3 || a.whole("threads") != 2 || kept.cleared != 1 {
		t.Errorf("%s, cleared %d times", a.text, kept.cleared)
	}
	ann.refused(404, "GET", "/threads/"+slow[0], nil)
	if left := must(collected(ann.queue.List(t.Context(), runs.Query{ThreadID: slow[0]}))); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	bob.equal(bob.ok("GET", "/threads/"+slow[1]+"/runs?status=running&select=status", nil), `[{"status":"running"}]`)
	for range 4 {
		bob.gate <- struct{}{}
	}
}

func collected[T any](all func(func(T, error) bool)) (list []T, err error) {
	all(func(v T, e error) bool { list, err = append(list, v), e; return e == nil })
	if err != nil {
		list = nil
	}
	return list, err
}

// TestEraseUserAmongOthers: on a thread of others the user's runs go, and the thread is named; of an assistant
// that was given to another the user's versions go; what a record says counts more than what somebody put into the metadata of a run;
// what cannot be decoded stays, and is counted; items where an earlier version had them stay, unless they are named.
func TestEraseUserAmongOthers(t *testing.T) {
	ann, bob, root := operated(t, nil)
	ctx := t.Context()
	shared := root.ok("POST", "/threads", object{"metadata": object{"owner": "bob.b"}}).text1("thread_id")
	theirs := bob.ok("POST", "/threads/"+shared+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}).text1("run_id")
	bob.ended(shared, theirs)
	for _, user := range []string{"ann", "root"} {
		spec := runs.Spec{ThreadID: shared, Graph: "simple", Metadata: object{"owner": "ann"}, Configurable: object{"langgraph_auth_user_id": user, "thread_id": shared}}
		r := must(root.queue.Submit(ctx, runs.Request{Spec: spec, Input: object{"text": user}}))
		root.ended(shared, r.ID)
	}
	mine := ann.ok("POST", "/assistants", object{"graph_id": "simple", "name": "of ann"}).text1("assistant_id")
	root.ok("PATCH", "/assistants/"+mine, object{"name": "of bob", "metadata": object{"owner": "bob.b"}})
	alone := ann.ok("POST", "/assistants", object{"graph_id": "simple"}).text1("assistant_id")
	for _, ns := range []store.Namespace{{"ann", "facts"}, {"people", "ann"}, {"people", "bob"}} {
		if err := root.items.Put(ctx, ns, "k", object{"n": 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := root.items.Put(ctx, store.Namespace{"__stele_server__", "threads"}, "broken", object{"json": "{"}); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		a := root.ok("POST", "/stele/erase-user", object{"identity": "ann", "filter": object{"owner": "ann"}, "items": [][]string{{"people", "ann"}}, "dry_run": dry})
		if a.whole("threads") != 0 || a.whole("runs") != 1 || a.whole("assistants") != 2 || a.whole("items") != 1 || a.whole("former") != 1 || a.whole("unreadable") != 1 || fmt.Sprint(a.object()["shared"]) != fmt.Sprint([]any{shared}) {
			t.Errorf("dry %v: %s", dry, a.text)
		}
	}
	if left := must(collected(root.queue.List(ctx, runs.Query{ThreadID: shared}))); len(left) != 2 || left[0].ID != theirs {
		t.Errorf("runs: %v", left)
	}
	if a := root.ok("POST", "/assistants/"+mine+"/versions", object{}); strings.Contains(a.text, "of ann") || !strings.Contains(a.text, "of bob") {
		t.Errorf("%s", a.text)
	}
	root.refused(404, "GET", "/assistants/"+alone, nil)
	for ns, want := range map[string]int{"ann": 1, "people": 1, "__stele_server__/threads": 2} {
		if left := root.all(strings.Split(ns, "/")...); len(left) != want {
			t.Errorf("%s: %v", ns, left)
		}
	}
}

// busyUser makes something for the user whenever a thread is deleted.
type busyUser struct {
	saver.Saver
	more func()
}

func (b *busyUser) DeleteThread(ctx context.Context, id string) error {
	b.more()
	return b.Saver.DeleteThread(ctx, id)
}

// TestEraseUserWhoGoesOn: what comes meanwhile goes, too, if that ends; if it does not, the error says so.
func TestEraseUserWhoGoesOn(t *testing.T) {
	ann, _, _ := operated(t, nil)
	for _, times := range []int{2, 1000} {
		ann.thread()
		o := server.EraseOptions{Store: ann.items, Queue: ann.queue, Identity: "ann", Logger: logTo(io.Discard)}
		n := 0
		o.Saver = &busyUser{ann.disk, func() {
			if n++; n <= times {
				ann.thread()
			}
		}}
		rep, err := server.EraseUser(t.Context(), o)
		if errors.Is(err, server.ErrUserActive) != (times == 1000) || err != nil && times == 2 || rep.Threads < 3 || rep.Erased {
			t.Errorf("%+v, %v", rep, err)
		}
		if left := ann.ok("POST", "/threads/search", object{}).json.([]any); (len(left) == 0) != (times == 2) {
			t.Errorf("left: %v", left)
		}
	}
}

// someCheckpoint is the id of a checkpoint.
const someCheckpoint = "1f0f0f0f-0000-6000-8000-000000000000"

// failing is a cache that cannot be cleared.
type failing struct{ cache.Cache }

func (failing) Clear(context.Context, ...string) error {
	return errors.New("the cache cannot be cleared")
}

// embedded are the options of an erasure of ann by a program that has the stores open beside the server.
func (h *house) embedded() server.EraseOptions {
	return server.EraseOptions{Saver: h.disk, Store: h.items, Queue: h.queue, Identity: "ann", Logger: logTo(io.Discard)}
}

// TestEraseUserOfAnIDMadeAnew: a thread of another user with the id of one that an unfinished erasure has deleted is
// no part of what is left to erase, whether the server has a record of it or not.
func TestEraseUserOfAnIDMadeAnew(t *testing.T) {
	ann, bob, _ := operated(t, nil)
	ctx := t.Context()
	run := object{"assistant_id": "simple", "input": object{"text": "x"}, "if_not_exists": "create"}
	ids := []string{ann.thread(), ann.thread(), ann.thread()}
	for _, id := range ids {
		ann.ok("POST", "/threads/"+id+"/runs/wait", run)
	}
	o := ann.embedded()
	o.Caches = []cache.Cache{failing{}}
	if _, err := server.EraseUser(ctx, o); err == nil {
		t.Fatal("no error")
	}
	bob.ok("POST", "/threads/"+ids[0]+"/runs/wait", run)
	bob.program(ids[1], someCheckpoint)
	o.Caches = nil
	if rep, err := server.EraseUser(ctx, o); err != nil || !rep.Erased {
		t.Fatalf("%+v, %v", rep, err)
	}
	if a := bob.ok("GET", "/threads/"+ids[0]+"/state", nil); a.object()["values"].(object)["text"] != "x" {
		t.Errorf("%s", a.text)
	}
	for i, id := range ids {
		if _, there, err := saver.ThreadOf(ctx, ann.disk, id); there != (i < 2) || err != nil {
			t.Errorf("thread %d is there: %v, %v", i, there, err)
		}
	}
}

// meanwhile does something when the first thread is deleted.
type meanwhile struct {
	saver.Saver
	once sync.Once
	do   func()
}

func (m *meanwhile) DeleteThread(ctx context.Context, id string) error {
	m.once.Do(m.do)
	return m.Saver.DeleteThread(ctx, id)
}

// scheduled does something when a schedule is deleted.
type scheduled struct {
	runs.Queue
	do func()
}

func (s *scheduled) DeleteSchedule(ctx context.Context, id string) error {
	s.do()
	return s.Queue.DeleteSchedule(ctx, id)
}

// TestEraseUserLooksAgain: a thread that becomes another's after it was found stays, with what is on it: one that is
// given away, before or while its crons go, and a copy that gets its record then.
func TestEraseUserLooksAgain(t *testing.T) {
	ann, bob, root := operated(t, nil)
	ctx := t.Context()
	const first, given, copied, late = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333", "44444444-4444-4444-8444-444444444444"
	for _, id := range []string{first, given, late} {
		ann.ok("POST", "/threads", object{"thread_id": id, "ttl": 1000})
		ann.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
	}
	cron := root.ok("POST", "/threads/"+given+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}).text1("cron_id")
	ann.none(ann.disk.CopyThread(ctx, first, copied))
	must(ann.queue.PutSchedule(ctx, runs.Schedule{ID: "s", Cron: "@yearly", Spec: runs.Spec{Graph: "simple", ThreadID: late}}))
	give := func(id string) { root.ok("PATCH", "/threads/"+id, object{"metadata": object{"owner": "bob.b"}}) }
	o := ann.embedded()
	o.Queue = &scheduled{ann.queue, func() { give(late) }}
	o.Saver = &meanwhile{Saver: ann.disk, do: func() {
		give(given)
		ann.none(ann.items.Put(ctx, store.Namespace{"__stele_server__", "threads"}, copied, object{"json": `{"id":"` + copied + `","metadata":{"owner":"bob.b","graph_id":"simple"}}`}))
	}}
	if rep, err := server.EraseUser(ctx, o); err != nil || rep.Threads != 4 {
		t.Fatalf("%+v, %v", rep, err)
	}
	ann.refused(404, "GET", "/threads/"+first, nil)
	for _, id := range []string{given, copied, late} {
		if a := bob.ok("GET", "/threads/"+id+"/state", nil); a.object()["values"].(object)["text"] != "x" {
			t.Errorf("%s: %s", id, a.text)
		}
	}
	root.ok("GET", "/runs/crons/"+cron, nil)
	left := must(root.items.Search(ctx, pending))
	if !slices.ContainsFunc(left, func(f store.Found) bool { return f.Key == "ttl/"+given+"/" }) {
		t.Errorf("what is due on it is gone: %v", left)
	}
}

// TestEraseUserWithoutRecords: of threads that a program made without the server, those go of which checkpoints or runs
// say that they are the user's, and none that they are another's.
func TestEraseUserWithoutRecords(t *testing.T) {
	ann, _, root := operated(t, nil)
	ctx := t.Context()
	type by = saver.Metadata
	hers, his, whoIsAnn, whoIsBob := by{"owner": "ann"}, by{"owner": "bob.b"}, by{"langgraph_auth_user_id": "ann"}, by{"langgraph_auth_user_id": "bob.b"}
	const goes, shared, stays = "goes", "shared", "stays"
	for i, tt := range []struct {
		checkpoints []saver.Metadata
		runs        []saver.Metadata
		want        string
	}{
		{[]by{hers}, nil, goes},
		{[]by{hers, {}}, nil, goes},
		{[]by{whoIsAnn}, nil, goes},
		{[]by{{}, whoIsAnn, {}}, nil, goes},
		{[]by{{"owner": "ann", "langgraph_auth_user_id": "root"}}, nil, goes},
		{nil, []by{hers}, goes},
		{nil, []by{whoIsAnn}, goes},
		{[]by{{}}, []by{hers}, goes},
		{[]by{hers, his}, nil, shared},
		{[]by{his, hers}, nil, shared},
		{[]by{whoIsAnn, whoIsBob}, nil, shared},
		{[]by{{"owner": "bob.b", "langgraph_auth_user_id": "ann"}}, nil, shared},
		{[]by{hers}, []by{his}, shared},
		{[]by{hers}, []by{whoIsBob}, shared},
		{[]by{his}, []by{hers}, shared},
		{nil, []by{hers, his}, shared},
		{[]by{his}, nil, stays},
		{[]by{whoIsBob}, nil, stays},
		{[]by{{}}, []by{{}}, stays},
		{[]by{{"owner": []any{"ann", "bob.b"}}}, nil, stays},
	} {
		id, others := fmt.Sprint("thread-", i, "."), []string{}
		for n, m := range tt.checkpoints {
			cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("1f0f0f0f-0000-6000-8000-%012d", n), TS: "2026-01-02T03:04:05Z", Versions: map[string]saver.Version{}, Values: map[string]saver.Value{}}
			must(ann.disk.Put(ctx, saver.Config{ThreadID: id}, cp, m, nil))
		}
		for _, m := range tt.runs {
			spec := runs.Spec{ThreadID: id, Graph: "simple", Metadata: object{}, Configurable: object{"thread_id": id}}
			for key, v := range m {
				map[string]object{"owner": spec.Metadata, "langgraph_auth_user_id": spec.Configurable}[key][key] = v
			}
			r := must(ann.queue.Submit(ctx, runs.Request{Spec: spec, Input: object{"text": "x"}, After: time.Now().Add(time.Hour)}))
			if m["owner"] != "ann" && m["langgraph_auth_user_id"] != "ann" {
				others = append(others, r.ID)
			}
		}
		for _, dry := range []bool{true, false} {
			a := root.erase(dry)
			if (a.whole("threads") == 1) != (tt.want == goes) || strings.Contains(fmt.Sprint(a.object()["shared"]), id) != (tt.want == shared) {
				t.Errorf("%v, dry %v: %s", tt, dry, a.text)
			}
		}
		if _, there, err := saver.ThreadOf(ctx, ann.disk, id); there != (tt.want != goes && tt.checkpoints != nil) || err != nil {
			t.Errorf("%v: there is a state: %v, %v", tt, there, err)
		}
		left := []string{}
		for _, r := range must(collected(ann.queue.List(ctx, runs.Query{ThreadID: id}))) {
			left = append(left, r.ID)
		}
		if tt.want == goes {
			others = []string{}
		}
		slices.Sort(left)
		slices.Sort(others)
		if !slices.Equal(left, others) {
			t.Errorf("%v: left are %v, others' were %v", tt, left, others)
		}
	}
}

// TestEraseUserElsewhere: a graph that a node runs on a thread of its own knows the user, and its thread goes with the
// user's.
func TestEraseUserElsewhere(t *testing.T) {
	seen := make(chan string, 10)
	ann, bob, root := operated(t, func(c *server.Config) {
		who := func(ctx context.Context, _ any) (any, error) {
			u, _ := server.UserOf(ctx)
			seen <- u.Identity
			return object{"text": u.Identity}, nil
		}
		apart := must(builder().Node("who", who).Edge(graph.Start, "who").Compile(graph.Options{Name: "apart", Saver: c.Saver}))
		c.Graphs["around"] = must(builder().Node("n", func(ctx context.Context, s any) (any, error) {
			_, err := apart.Invoke(ctx, pregel.Thread(fmt.Sprint("research of ", s.(object)["text"])), object{"text": "x"})
			return nil, err
		}).Edge(graph.Start, "n").Compile(graph.Options{Name: "around", Saver: c.Saver}))
	})
	for text, h := range map[string]*house{"ann": ann, "bob.b": bob} {
		h.ok("POST", "/threads/"+h.thread()+"/runs/wait", object{"assistant_id": "around", "input": object{"text": text}})
		if who := <-seen; who != text {
			t.Errorf("a run of %s is of %q", text, who)
		}
	}
	root.erase(false)
	for text, want := range map[string]bool{"ann": false, "bob.b": true} {
		if _, there, err := saver.ThreadOf(t.Context(), ann.disk, "research of "+text); there != want || err != nil {
			t.Errorf("research of %s is there: %v, %v", text, there, err)
		}
	}
}

// damaged is a saver that cannot read the metadata of some threads.
type damaged struct {
	saver.Saver
	ids []string
}

func (d *damaged) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	if q.Metadata != nil && (q.ThreadID == "" || slices.Contains(d.ids, q.ThreadID)) {
		return func(yield func(saver.ThreadInfo, error) bool) { yield(saver.ThreadInfo{}, saver.ErrCorrupt) }
	}
	return d.Saver.Threads(ctx, q)
}

// TestEraseUserBesideDamage: a thread that cannot be read hinders nobody's erasure. It is counted if no record says
// whose it is.
func TestEraseUserBesideDamage(t *testing.T) {
	ann, bob, _ := operated(t, nil)
	run := object{"assistant_id": "simple", "input": object{"text": "x"}}
	his, hers := bob.thread(), ann.thread()
	bob.ok("POST", "/threads/"+his+"/runs/wait", run)
	ann.ok("POST", "/threads/"+hers+"/runs/wait", run)
	bob.program("a program's", someCheckpoint)
	o := ann.embedded()
	o.Saver = &damaged{ann.disk, []string{his, hers, "a program's"}}
	if rep, err := server.EraseUser(t.Context(), o); err != nil || rep.Threads != 1 || rep.Unreadable != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	ann.refused(404, "GET", "/threads/"+hers, nil)
	bob.ok("GET", "/threads/"+his+"/state", nil)
}

// TestEraseUserWhileAWebhookIsCalled: an address that is being called in vain does not come back.
func TestEraseUserWhileAWebhookIsCalled(t *testing.T) {
	called, answer := make(chan struct{}, 10), make(chan struct{})
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		called <- struct{}{}
		<-answer
		w.WriteHeader(500)
	}))
	defer hook.Close()
	ann, _, root := operated(t, nil)
	ann.ok("POST", "/threads/"+ann.thread()+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}, "webhook": hook.URL})
	<-called
	root.erase(false)
	close(answer)
	root.until("the webhook was called", func() bool { return !server.CallsHooks(root.api) })
	if left := must(root.items.Search(t.Context(), pending)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestEraseUserLeavesNoConfig: with the user's last run on a thread of another goes its config; that of another's run stays.
func TestEraseUserLeavesNoConfig(t *testing.T) {
	ann, bob, root := operated(t, func(c *server.Config) {
		own := c.Auth.Authorize
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if u.Identity == "ann" && a.Action == "create_run" {
				return server.Grant{}, nil
			}
			return own(ctx, u, a)
		}
	})
	for _, by := range [][]*house{{bob, ann}, {ann, bob}} {
		thread := bob.thread()
		for _, h := range by {
			h.ok("POST", "/threads/"+thread+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}, "config": object{"configurable": object{"by": "WORD-OF-" + h.key}}})
		}
		if a := root.erase(false); a.whole("runs") != 1 {
			t.Errorf("%s", a.text)
		}
		a := bob.ok("GET", "/threads/"+thread, nil)
		if strings.Contains(a.text, "WORD-OF-ann") || strings.Contains(a.text, "WORD-OF-bob") != (by[1] == bob) {
			t.Errorf("the last run was by %s: %s", by[1].key, a.text)
		}
	}
}

// TestEraseUserOfAClientThatIsGone: files are rewritten to the end, though nobody waits for the answer.
func TestEraseUserOfAClientThatIsGone(t *testing.T) {
	kept := &clearing{Cache: must(cache.NewMemory(cache.Options{}))}
	ann, _, root := operated(t, kept.graph)
	ann.thread()
	ctx, leave := context.WithCancel(t.Context())
	kept.then = leave
	r := httptest.NewRequestWithContext(ctx, "POST", "/stele/erase-user", strings.NewReader(`{"identity":"ann","filter":{"owner":"ann"},"dry_run":false}`))
	r.Header.Set("X-Api-Key", "root")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	root.api.ServeHTTP(w, r)
	if kept.cleared != 1 || w.Code != 200 || !strings.Contains(w.Body.String(), `"erased":true`) {
		t.Errorf("cleared %d times, %d %s", kept.cleared, w.Code, w.Body)
	}
}

// TestEraseUserInAnotherQueue: whoever gives the wrong queue deletes no webhook of others. One whose run and thread are
// gone was left by a call that was cut off, and goes.
func TestEraseUserInAnotherQueue(t *testing.T) {
	ann, bob, root := operated(t, nil)
	thread := bob.thread()
	later := bob.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "after_seconds": 10_000, "webhook": "http://127.0.0.1:1/"}).text1("run_id")
	ann.none(ann.items.Put(t.Context(), store.Namespace{"__stele_server__", "after"}, "webhook/t/r", object{"json": `{"kind":"webhook","thread":"t","run":"r","due":"2126-01-01T00:00:00Z"}`}))
	o := ann.embedded()
	other := must(disk.Open(t.TempDir(), disk.Options{}))
	items := must(store.On(other, store.Options{}))
	o.Queue = must(runs.NewLocal(t.Context(), items, runs.LocalOptions{}))
	if rep, err := server.EraseUser(t.Context(), o); err != nil || rep.Actions != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
	ann.none(errors.Join(items.Close(), other.Close()))
	left := must(root.items.Search(t.Context(), pending))
	if len(left) != 1 || left[0].Key != "webhook/"+thread+"/"+later {
		t.Errorf("left: %v", left)
	}
}

// TestEraseUserWhoseCronIsFired: a cron that a server is firing while another process erases its user does not come back.
func TestEraseUserWhoseCronIsFired(t *testing.T) {
	var ann, root *house
	ann, _, root = operated(t, func(c *server.Config) {
		own := c.Auth.Authorize
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if a.Value["cron_id"] != nil && a.Resource == "assistants" {
				if rep, err := server.EraseUser(ctx, ann.embedded()); err != nil || rep.Crons != 1 {
					t.Errorf("%+v, %v", rep, err)
				}
			}
			return own(ctx, u, a)
		}
	})
	cron := ann.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *", "input": object{"text": "x"}}).text1("cron_id")
	ann.rewrite("crons", cron, func(r object) { r["next"] = "2026-01-01T00:00:00Z" })
	ann.none(server.LookAtCron(t.Context(), root.api, cron))
	root.equal(root.ok("POST", "/runs/crons/count", object{}), "0")
}

// marked are the files that have a text, or what says the same in base64.
func marked(read map[string][]byte, text string) (names []string) {
	for name, content := range read {
		for shift := range 3 {
			b64 := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + text))
			if bytes.Contains(content, []byte(text)) || bytes.Contains(content, []byte(b64[4:len(b64)-4])) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestEraseUserCrashStates: whatever a crash leaves, the same call ends: no file has a word of the user then, nor the
// id of a thread, and another's are there.
func TestEraseUserCrashStates(t *testing.T) {
	fs := crashfs.New()
	sim := disk.Options{ManualWork: true, Simulation: disk.Simulation{FS: fs, Inline: true}}
	h := openOn(t, "store", sim, func(c *server.Config) {
		c.Auth = server.APIKeys(map[string]*server.User{"ann": {Identity: "ann"}, "bob": {Identity: "bob.b"}})
		c.Rate = -1
	})
	var ids []string
	const secret, other = "SECRET-OF-ANN-Q7Z", "SECRET-OF-BOB-Q7Z"
	for key, word := range map[string]string{"ann": secret, "bob": other} {
		h.key = key
		for range 2 {
			id := h.ok("POST", "/threads", object{"metadata": object{"m": word}}).text1("thread_id")
			if key == "ann" {
				ids = append(ids, id)
			}
			h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": word}})
			h.ok("POST", "/threads/"+id+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *", "input": object{"text": word}})
		}
		h.ok("POST", "/assistants", object{"graph_id": "simple", "name": word})
		h.ok("PUT", "/store/items", object{"namespace": []string{"facts"}, "key": "k", "value": object{"text": word}})
	}
	h.shut()
	erase := func(at vfs.FS) {
		t.Helper()
		d := must(disk.Open("store", sim.In(disk.Simulation{FS: at, Inline: true})))
		items := must(store.On(d, store.Options{}))
		rep, err := server.EraseUser(t.Context(), server.EraseOptions{Saver: d, Store: items, Queue: must(runs.NewLocal(t.Context(), items, runs.LocalOptions{})), Identity: "ann", Logger: logTo(io.Discard)})
		if n, e := d.PendingErasures(); err != nil || e != nil || n != 0 || !rep.Erased {
			t.Fatalf("%+v, %d erasures pending, %v, %v", rep, n, err, e)
		}
		if err := errors.Join(items.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
	clean := func(at vfs.FS) {
		t.Helper()
		read := enginetest.Scan(t, at, "store", nil)
		for _, text := range append(slices.Clone(ids), secret) {
			if where := marked(read, text); len(where) > 0 {
				t.Fatalf("%s is in %v", text, where)
			}
		}
		if len(marked(read, other)) == 0 {
			t.Fatal("another's words are gone")
		}
	}
	from := fs.Len()
	if len(marked(enginetest.Scan(t, fs, "store", nil), secret)) == 0 {
		t.Fatal("a scan finds nothing before: it proves nothing")
	}
	erase(fs)
	to := fs.Len()
	clean(fs)
	states := 0
	for cut := from; cut <= to; cut += 6 {
		for st := range fs.States(cut, crashfs.Options{Seed: uint64(cut), Random: 1, MaxTorn: -1, MaxSingle: 1}) {
			states++
			at := st.FS()
			erase(at)
			clean(at)
		}
	}
	t.Logf("%d operations, %d crash states", to-from, states)
}
