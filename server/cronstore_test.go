package server_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// watchedStore calls before with each item that is about to be put or deleted, and searched with the
// prefix of each search.
type watchedStore struct {
	store.Store
	before   func(ns store.Namespace, key string)
	searched func(prefix store.Namespace)
	failing  func(ns store.Namespace) error // of each item that is read; may be nil
}

func (s *watchedStore) Get(ctx context.Context, ns store.Namespace, key string, opts ...store.GetOption) (*store.Item, error) {
	if s.failing != nil {
		if err := s.failing(ns); err != nil {
			return nil, err
		}
	}
	return s.Store.Get(ctx, ns, key, opts...)
}

func (s *watchedStore) Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	for _, op := range ops {
		if put, ok := op.(store.PutOp); ok {
			s.before(put.Namespace, put.Key)
		}
	}
	return s.Store.Batch(ctx, ops...)
}

func (s *watchedStore) Delete(ctx context.Context, ns store.Namespace, key string) error {
	s.before(ns, key)
	return s.Store.Delete(ctx, ns, key)
}

func (s *watchedStore) Search(ctx context.Context, q store.Query) ([]store.Found, error) {
	s.searched(q.Prefix)
	return s.Store.Search(ctx, q)
}

// TestCronMadeAsItsThreadGoes: a cron that is made while its thread is removed goes too, whether the thread
// was still there when it was stored or not, and no other crons are looked at.
func TestCronMadeAsItsThreadGoes(t *testing.T) {
	var before func(ns store.Namespace, key string)
	var searched []store.Namespace
	var items *watchedStore
	h := open(t, t.TempDir(), func(c *server.Config) {
		items = &watchedStore{Store: c.Store, before: func(ns store.Namespace, key string) {
			if before != nil {
				before(ns, key)
			}
		}, searched: func(prefix store.Namespace) { searched = append(searched, prefix) }}
		c.Store = items
	})
	once := func(kind string, do func()) {
		before = func(ns store.Namespace, _ string) {
			if slices.Equal(ns, store.Namespace{"__stele_server__", kind}) {
				before = nil
				do()
			}
		}
	}
	body := object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}
	crons := func() string { return h.ok("POST", "/runs/crons/count", object{}).text }

	id := h.thread()
	once("crons", func() { h.ok("DELETE", "/threads/"+id, nil) })
	h.refused(404, "POST", "/threads/"+id+"/runs/crons", body)
	if n := crons(); n != "0" {
		t.Errorf("%s crons are left of a thread that was removed before they were stored", n)
	}

	id = h.thread()
	once("threads", func() { h.ok("POST", "/threads/"+id+"/runs/crons", body) })
	searched = nil
	h.ok("DELETE", "/threads/"+id, nil)
	if slices.ContainsFunc(searched, func(p store.Namespace) bool { return len(p) < 2 || p[1] == "crons" }) {
		t.Errorf("all crons are looked at: %v", searched)
	}
	if n := crons(); n != "0" {
		t.Errorf("%s crons are left that were made while their thread was removed", n)
	}
}

// TestCronThatIsRefused: a cron whose thread cannot be looked for behind it is not left, as no client knows it.
func TestCronThatIsRefused(t *testing.T) {
	stored := false
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Store = &watchedStore{Store: c.Store, before: func(ns store.Namespace, _ string) {
			stored = stored || slices.Equal(ns, store.Namespace{"__stele_server__", "crons"})
		}, searched: func(store.Namespace) {}, failing: func(ns store.Namespace) error {
			if stored && slices.Equal(ns, store.Namespace{"__stele_server__", "threads"}) {
				return errors.New("away")
			}
			return nil
		}}
	})
	id := h.thread()
	h.refused(500, "POST", "/threads/"+id+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"})
	if !stored {
		t.Error("the cron was never stored")
	}
	if n := h.ok("POST", "/runs/crons/count", object{}).text; n != "0" {
		t.Errorf("%s crons are left", n)
	}
}

// TestCronsOfBefore: a thread takes along the crons too that a server made before there was an index of them.
func TestCronsOfBefore(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	cron := h.ok("POST", "/threads/"+id+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}).text1("cron_id")
	found := must(h.items.Search(t.Context(), store.Query{Prefix: store.Namespace{"__stele_server__", "thread_crons"}, Limit: 10}))
	if len(found) != 2 {
		t.Fatalf("the index has %d items", len(found))
	}
	for _, f := range found {
		if err := h.items.Delete(t.Context(), f.Namespace, f.Key); err != nil {
			t.Fatal(err)
		}
	}
	h.shut()
	h = open(t, h.dir, nil)
	h.ok("DELETE", "/threads/"+id, nil)
	h.refused(404, "GET", "/runs/crons/"+cron, nil)
}

// TestCronOfAnOlderServer: a thread takes along a cron too that a server of an earlier version, which knows no
// index, has made beside this one.
func TestCronOfAnOlderServer(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	cron := h.ok("POST", "/threads/"+id+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"}).text1("cron_id")
	var index store.Namespace
	for _, f := range must(h.items.Search(t.Context(), store.Query{Prefix: store.Namespace{"__stele_server__", "thread_crons"}, Limit: 10})) {
		if f.Key == cron {
			index = f.Namespace
		}
	}
	if err := h.items.Delete(t.Context(), index, cron); err != nil {
		t.Fatal(err)
	}
	if err := server.LookAtCron(t.Context(), h.api, cron); err != nil {
		t.Fatal(err)
	}
	h.ok("DELETE", "/threads/"+id, nil)
	h.refused(404, "GET", "/runs/crons/"+cron, nil)
}
