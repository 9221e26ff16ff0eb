package server

import (
	"net/http"
	"sync/atomic"
)

// Front is one address for servers that take turns, as under disk.LeadOrFollow: it passes each request to the handler that was Set last.
// While there is none it answers 503 with Retry-After. The zero Front has none. It is safe for concurrent use.
type Front struct{ handler atomic.Pointer[http.Handler] }

// Set makes h answer the requests that come from now on; nil: nobody does. Requests under way stay where they are.
func (f *Front) Set(h http.Handler) {
	if h == nil {
		f.handler.Store(nil)
		return
	}
	f.handler.Store(&h)
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := f.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	writeFailure(w, &failure{http.StatusServiceUnavailable, "The store is being opened. Try again."})
}
