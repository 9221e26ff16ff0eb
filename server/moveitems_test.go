package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// former is a house whose users, ann, bob.b and one called users, have items where earlier versions of the
// server kept them, beside a program's, and those of a user who has nothing else. It was begun again since.
// all is an operator's.
func former(t *testing.T) (ann, bob, users, all *house) {
	dir := t.TempDir()
	var cfg server.Config
	begin := func() *house {
		return open(t, dir, func(c *server.Config) {
			c.Rate = -1
			c.Auth = server.APIKeys(map[string]*server.User{"ann": {Identity: "ann"}, "bob": {Identity: "bob.b"}, "users": {Identity: "users"}, "server": {Identity: "__stele_server__"}})
			cfg = *c
		})
	}
	h := begin()
	h.key = "ann"
	h.ok("POST", "/threads", object{})
	h.key = "bob"
	h.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *", "input": object{}})
	h.key = "users"
	h.ok("POST", "/assistants", object{"graph_id": "simple"})
	h.key = "server"
	h.ok("POST", "/threads", object{})
	<-server.Looked(h.api)
	for _, it := range formerItems {
		if err := h.items.Put(t.Context(), it.ns, it.key, object{"at": fmt.Sprint(it.ns)}, store.TTL(it.ttl)); err != nil {
			t.Fatal(err)
		}
	}
	h.shut()
	h = begin()
	as := func(key string) *house {
		one := *h
		one.key = key
		return &one
	}
	all = as("")
	cfg.Auth = server.NoAuth()
	all.api = all.beside(cfg)
	return as("ann"), as("bob"), as("users"), all
}

// beside begins another server on the stores of a house, asks it from now on, and waits until it has looked
// for items at former places.
func (h *house) beside(cfg server.Config) *server.Server {
	cfg.Workers = -1
	api := must(server.New(cfg))
	at := httptest.NewServer(api)
	h.base = at.URL
	h.Cleanup(func() {
		at.Close()
		if err := api.Close(); err != nil {
			h.Error(err)
		}
	})
	<-server.Looked(api)
	return api
}

var formerItems = []struct {
	ns  store.Namespace
	key string
	ttl time.Duration
}{
	{store.Namespace{"ann", "facts"}, "1", -1}, {store.Namespace{"ann", "facts", "old"}, "2", time.Hour}, {store.Namespace{"bob%2Eb", "facts"}, "3", -1},
	{store.Namespace{"users", "own"}, "4", -1}, {store.Namespace{"users", "ann", "facts"}, "5", -1}, // the one is a user's, and the other a program's
	{store.Namespace{"ann"}, "6", -1}, {store.Namespace{"prices"}, "7", -1}, {store.Namespace{"carol%2E%252A", "facts"}, "8", -1},
}

func (h *house) health() string {
	h.Helper()
	return h.ok("GET", "/stele/health", nil).sub("health").text
}

// all is what the store has below a namespace, with the times of each item, but for the record that says that
// all is moved.
func (h *house) all(prefix ...string) map[string]store.Item {
	out := map[string]store.Item{}
	for _, f := range must(h.items.Search(h.Context(), store.Query{Prefix: prefix, Limit: store.NoLimit, NoRefresh: true})) {
		out[f.Key] = f.Item
	}
	delete(out, "places")
	return out
}

// TestMoveItems: items of users that an earlier version has kept are seen by nobody, and operators are told
// of them, until they are moved. They are moved as they are, and programs' are not.
func TestMoveItems(t *testing.T) {
	ann, bob, named, operator := former(t)
	ctx := t.Context()
	const trouble, metric = "items_unmoved", "stele_server_items_unmoved "
	for _, h := range []*house{ann, bob, named} {
		if found := h.searched(object{}); len(found) > 0 {
			t.Errorf("a client sees %v", found)
		}
	}
	if !strings.Contains(operator.health(), trouble) || !strings.Contains(operator.health(), "degraded") || !strings.Contains(operator.ok("GET", "/metrics", nil).text, metric+"1") {
		t.Errorf("health %s", operator.health())
	}
	before := ann.all()
	o := server.MoveOptions{Store: ann.items, Queue: ann.queue, DryRun: true}
	rep := must(server.MoveItems(ctx, o))
	lines := func(rep server.MoveReport) (out []string) {
		for _, u := range rep.Users {
			out = append(out, fmt.Sprintf("%s %v %v: %d, %d, %v, %v", u.Identity, u.From, u.To, u.Namespaces, u.Items, u.Except, u.Left))
		}
		return out
	}
	want := []string{"ann [ann] [__stele_users__ ann]: 2, 2, false, []", "bob.b [bob%2Eb] [__stele_users__ bob%2Eb]: 1, 1, false, []", "users [users] [__stele_users__ users]: 2, 2, false, []"}
	if got := lines(rep); !slices.Equal(got, want) || !rep.Settled || !slices.Equal(rep.Unknown, []string{"carol.%2A"}) {
		t.Errorf("dry run: %q, %q", got, rep.Unknown)
	}
	if got := fmt.Sprint(rep.Users[2].Below); got != "[[users ann facts] [users own]]" {
		t.Errorf("below users: %s", got)
	}
	if after := ann.all(); !reflect.DeepEqual(before, after) {
		t.Errorf("a dry run has changed something: %v", after)
	}
	o.DryRun = false
	if _, err := server.MoveItems(ctx, o); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("nobody is named: %v", err)
	}
	o.Identities = []string{"bob.b", "nobody"}
	rep = must(server.MoveItems(ctx, o))
	if got := lines(rep); !slices.Equal(got, []string{want[1], "nobody [nobody] [__stele_users__ nobody]: 0, 0, false, []"}) || rep.Settled || !strings.Contains(operator.health(), trouble) {
		t.Errorf("bob's: %q, %s", got, operator.health())
	}
	o.Identities, o.Except = []string{"ann", "users"}, []string{"users"} // who is in both is not moved
	rep = must(server.MoveItems(ctx, o))
	if got := lines(rep); !slices.Equal(got, []string{want[0], "users [users] [__stele_users__ users]: 2, 0, true, []"}) || !rep.Settled {
		t.Errorf("all but that of users: %q", got)
	}
	if strings.Contains(operator.health(), trouble) || !strings.Contains(operator.ok("GET", "/metrics", nil).text, metric+"0") {
		t.Errorf("health %s", operator.health())
	}
	places := map[string]store.Namespace{"1": {"__stele_users__", "ann", "facts"}, "2": {"__stele_users__", "ann", "facts", "old"}, "3": {"__stele_users__", "bob%2Eb", "facts"}}
	for key, it := range before {
		if ns, ok := places[key]; ok {
			it.Namespace = ns
		}
		if got := ann.all(it.Namespace...)[key]; !reflect.DeepEqual(got, it) {
			t.Errorf("moved: %+v, want %+v", got, it)
		}
	}
	if n := len(ann.all()); n != len(before) {
		t.Errorf("%d items, want %d", n, len(before))
	}
	if a, b, c := len(ann.searched(object{})), len(bob.searched(object{})), len(named.searched(object{})); a != 2 || b != 1 || c != 0 {
		t.Errorf("users see %d, %d and %d items", a, b, c)
	}
	for _, id := range []string{"__stele_server__", "__stele_users__", ""} {
		if _, err := server.MoveItems(ctx, server.MoveOptions{Store: ann.items, Identities: []string{id}}); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestMoveItemsInTheWay: what a user has put since at the new place is not replaced, and is told.
func TestMoveItemsInTheWay(t *testing.T) {
	ann, _, _, _ := former(t)
	ann.ok("PUT", "/store/items", object{"namespace": []string{"facts"}, "key": "1", "value": object{"at": "new"}})
	o := server.MoveOptions{Store: ann.items, Identities: []string{"ann"}, Except: []string{"users", "bob.b"}}
	for range 2 {
		rep := must(server.MoveItems(t.Context(), o))
		if left := rep.Users[0].Left; rep.Settled || len(left) != 1 || left[0].Key != "1" || fmt.Sprint(left[0].Namespace) != "[ann facts]" {
			t.Errorf("%+v", rep)
		}
		ann.equal(ann.ok("GET", "/store/items?namespace=facts&key=1", nil).sub("value"), `{"at":"new"}`)
		ann.equal(ann.ok("GET", "/store/items?namespace=facts.old&key=2", nil).sub("value"), `{"at":"[ann facts old]"}`)
	}
}

// cutMover fails at its n-th move, before or behind it.
type cutMover struct {
	*store.Local
	n      int
	behind bool
}

func (c *cutMover) Move(ctx context.Context, from, to store.Namespace, dry bool) (rep store.MoveReport, err error) {
	c.n--
	if c.n != 0 || c.behind {
		rep, err = c.Local.Move(ctx, from, to, dry)
	}
	if c.n == 0 {
		err = errors.New("cut off")
	}
	return rep, err
}

// TestMoveItemsCutOff: wherever a move ends, another goes on, and nothing is twice or lost.
func TestMoveItemsCutOff(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for _, behind := range []bool{false, true} {
			ann, bob, users, operator := former(t)
			all := len(ann.all())
			o := server.MoveOptions{Store: &cutMover{ann.items, n, behind}, Identities: []string{"ann", "bob.b", "users"}}
			rep, err := server.MoveItems(t.Context(), o)
			if err == nil {
				t.Fatal("it was not cut off")
			}
			told := 0
			for _, u := range rep.Users {
				told += u.Items
			}
			want := n - 1
			if behind {
				want = n
			}
			if told != want || rep.Settled {
				t.Errorf("cut off at %d: %d items are told, want %d", n, told, want)
			}
			if !strings.Contains(operator.health(), "items_unmoved") || len(ann.all()) != all {
				t.Errorf("cut off at %d: %d items, %s", n, len(ann.all()), operator.health())
			}
			o.Store = ann.items
			if rep := must(server.MoveItems(t.Context(), o)); !rep.Settled {
				t.Errorf("%+v", rep)
			}
			if a, b, c := len(ann.searched(object{})), len(bob.searched(object{})), len(users.searched(object{})); a != 2 || b != 1 || c != 2 || len(ann.all()) != all {
				t.Errorf("cut off at %d: users see %d, %d and %d items, of %d", n, a, b, c, len(ann.all()))
			}
		}
	}
}

// TestLookForUnmoved: whatever the store does when a server looks for items at former places, the server
// begins, and ends; under an Authorize of one's own, which may grant these places, it does not look.
func TestLookForUnmoved(t *testing.T) {
	ann, _, _, operator := former(t)
	var log bytes.Buffer
	cfg := server.Config{Graphs: ann.graphs(ann.disk), Saver: ann.disk, Store: ann.items, Queue: ann.queue, Logger: logTo(&log)}
	cfg.Auth = &server.Auth{Authenticate: func(*http.Request) (*server.User, error) { return &server.User{Identity: "ann"}, nil },
		Authorize: func(_ context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if a.Resource == "system" {
				return server.Grant{}, nil
			}
			return server.Grant{Namespace: store.Namespace{u.Identity}}, nil
		}}
	operator.beside(cfg)
	if h := operator.health(); strings.Contains(h, "items_unmoved") {
		t.Errorf("under an Authorize of one's own: %s", h)
	}
	cfg.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
		if a.Resource == "system" {
			return server.Grant{}, nil
		}
		return server.OwnThings(ctx, u, a)
	}
	operator.beside(cfg)
	if h := operator.health(); !strings.Contains(h, "items_unmoved") {
		t.Errorf("under an Authorize that asks OwnThings: %s", h)
	}
	cfg.Auth.Authorize = func(_ context.Context, u *server.User, a server.Access) (server.Grant, error) {
		if a.Resource == "system" {
			return server.Grant{}, nil
		}
		return server.Grant{Namespace: store.Namespace{u.Claims["tenant"].(string)}}, nil
	}
	operator.beside(cfg)
	if h := operator.health(); strings.Contains(h, "items_unmoved") {
		t.Errorf("under an Authorize that does not know the user: %s", h)
	}
	log.Reset()
	cfg.Auth, cfg.Store = server.NoAuth(), struct{ store.Store }{ann.items} // which is read in pages
	operator.beside(cfg)
	if h := operator.health(); !strings.Contains(h, "items_unmoved") || !strings.Contains(log.String(), "stele move-items") {
		t.Errorf("in pages: %s, %s", h, &log)
	}
	log.Reset()
	cfg.Store = &listsNothing{Local: ann.items}
	operator.beside(cfg)
	if h := operator.health(); strings.Contains(h, "items_unmoved") || !strings.Contains(log.String(), "lists nothing") {
		t.Errorf("from a store that lists nothing: %s, %s", h, &log)
	}
	log.Reset()
	waits := &listsNothing{ann.items, make(chan struct{})}
	cfg.Store, cfg.Workers = waits, -1
	api := must(server.New(cfg))
	<-waits.asked
	if err := api.Close(); err != nil || log.Len() > 0 {
		t.Errorf("%v, %s", err, &log)
	}
	<-server.Looked(api)
}

// listsNothing is a store that cannot list namespaces, or, if it has asked, waits for the end of the context.
type listsNothing struct {
	*store.Local
	asked chan struct{} // closed when it is asked
}

// ListNamespaces fails.
func (l *listsNothing) ListNamespaces(ctx context.Context, _ store.NamespaceQuery) ([]store.Namespace, error) {
	if l.asked != nil {
		close(l.asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errors.New("lists nothing")
}
