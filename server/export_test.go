package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/stele-go/stele/store"
)

// Undoing reports whether a server knows of runs that it has to take back.
func Undoing(s *Server) bool {
	undoing := false
	s.deferred.pending.Range(func(_, v any) bool {
		undoing = v.(deferredAction).Kind == deferredUndo
		return !undoing
	})
	return undoing
}

// BusyHooks is how many webhooks a server has taken up.
func BusyHooks(s *Server) (n int) {
	s.deferred.pending.Range(func(_, v any) bool {
		if a := v.(deferredAction); a.Kind == deferredWebhook && a.busy {
			n++
		}
		return true
	})
	return n
}

// CallsHooks reports whether a server is calling a webhook, whatever is left of it.
func CallsHooks(s *Server) bool { return len(s.deferred.calling) > 0 }

// RemoveHalf removes what is left of a thread that did not become whole.
func RemoveHalf(ctx context.Context, s *Server, id string) error {
	return s.threads.removeUnfinished(ctx, id)
}

// RemovesHalves reports whether a server has halves of threads to remove.
func RemovesHalves(s *Server) bool {
	removes := false
	s.deferred.pending.Range(func(_, v any) bool {
		removes = v.(deferredAction).Kind == deferredUnfinished
		return !removes
	})
	return removes
}

// LookAtCron does what a server does that finds what is due of a cron.
func LookAtCron(ctx context.Context, s *Server, id string) error {
	_, err := s.do(ctx, deferredAction{Kind: deferredCron, Run: id})
	return err
}

// HookTimeout bounds one call of a webhook.
const HookTimeout = hookTimeout

// SetHooks makes webhooks go through a transport.
func SetHooks(s *Server, t http.RoundTripper) { s.runs.hooks.Transport = t }

// SetListingMost bounds lists.
func SetListingMost(s *Server, bytes int) { s.listingMost = bytes }

// FoundBytes is how long the JSON is of what searches hold before their pages are cut.
func FoundBytes(s *Server) map[string]int {
	c := &call{ctx: context.Background(), body: body{"status": idle}}
	size := func(found any, err error) int {
		text, _ := json.Marshal(found)
		if err != nil {
			panic(err)
		}
		return len(text)
	}
	threads, err := s.threads.find(c)
	n := size(threads, err)
	for _, f := range threads {
		if f.at.state != nil {
			n += size(f.at.state.Values, nil)
		}
	}
	c.body = body{}
	assistants, err := s.assistants.find(c)
	m := size(assistants, err)
	crons, err := s.crons.find(c)
	return map[string]int{"threads": n, "assistants": m, "crons": size(crons, err)}
}

// Looked is closed when a server has looked for items at the former places of users.
func Looked(s *Server) <-chan struct{} { return s.unmoved.looked }

// HasIndex reports whether searches of threads go by the index.
func HasIndex(s *Server) bool { return s.threads.index != nil && s.threads.index.ready.Load() }

// SetIndex makes them go by it, if it was made, or by the records.
func SetIndex(s *Server, on bool) { s.threads.index.ready.Store(on) }

// OnUnfinished calls do before the threads are listed that are being made.
func OnUnfinished(s *Server, do func()) {
	s.threads.unfinished.items = &listed{s.threads.unfinished.items, do}
}

// listed is a store that cannot iterate, and calls do before each search.
type listed struct {
	store.Store
	do func()
}

func (l *listed) Search(ctx context.Context, q store.Query) ([]store.Found, error) {
	l.do()
	return l.Store.Search(ctx, q)
}

// DecodedThreads is how many records of threads the server has decoded.
func DecodedThreads(s *Server) int64 { return s.threads.records.kept.made.Load() }

// FailIndex lets the next n reads of records for the index of threads fail.
func FailIndex(s *Server, n int64) {
	x := s.threads.index
	x.mu.Lock()
	defer x.mu.Unlock()
	f := &failing{Store: x.records.items}
	f.left.Store(n)
	x.records.items = f
}

// failing is a store whose next reads fail.
type failing struct {
	store.Store
	left atomic.Int64
}

func (f *failing) Get(ctx context.Context, ns store.Namespace, key string, o ...store.GetOption) (*store.Item, error) {
	if f.left.Add(-1) >= 0 {
		return nil, errors.New("the device does not answer")
	}
	return f.Store.Get(ctx, ns, key, o...)
}

// IndexedTerms is how many values in metadata the index of threads has.
func IndexedTerms(s *Server) int {
	x := s.threads.index
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.have)
}

// WrongWord is a request with a word that its operation does not know.
type WrongWord struct {
	Method, Path string
	Body         any
}

// WrongWords are requests with an unknown word in each place that takes one of some.
func WrongWords(s *Server) (all []WrongWord) {
	for _, rt := range s.routes {
		if rt.in != nil {
			rt.in.wrongWords(func(v any) { all = append(all, WrongWord{rt.method, rt.path, v}) })
		}
	}
	return all
}

func (s *shape) wrongWords(found func(any)) {
	if len(s.enum) > 0 {
		found("nobody")
	}
	for _, alternative := range s.anyOf {
		alternative.wrongWords(found)
	}
	if s.items != nil {
		s.items.wrongWords(func(v any) { found([]any{v}) })
	}
	for _, f := range s.fields {
		f.shape.wrongWords(func(v any) {
			object := map[string]any{f.name: v}
			for _, other := range s.fields {
				if other.required && other.name != f.name {
					object[other.name] = other.shape.example()
				}
			}
			found(object)
		})
	}
}

// example is a value of a shape.
func (s *shape) example() any {
	for _, v := range []any{"00000000-0000-4000-8000-000000000001", int64(1), map[string]any{}, []any{}} {
		if s.check(v) == nil {
			return v
		}
	}
	return map[string]any{"updates": []any{}, "node": "x", "input": nil}
}

// CommandParams are the params that commands of protocol v2 name.
func CommandParams() map[string][]string {
	all := map[string][]string{}
	for _, k := range protocolCommands {
		all[k.method] = nil
		for _, f := range k.in {
			all[k.method] = append(all[k.method], f.name)
		}
	}
	return all
}

// ReadUndeclared reads a parameter of an address as a handler of a route that does not declare it.
func ReadUndeclared(r *http.Request, name string) string {
	return (&call{r: r, route: &route{}}).query(name)
}
