package server

import "net/http"

// Undoing reports whether a server knows of runs that it has to take back.
func Undoing(s *Server) bool {
	undoing := false
	s.pending.Range(func(_, v any) bool {
		undoing = v.(after).Kind == afterUndo
		return !undoing
	})
	return undoing
}

// SetHooks makes webhooks go through a transport.
func SetHooks(s *Server, t http.RoundTripper) { s.hooks.Transport = t }

// SetListingMost bounds lists.
func SetListingMost(s *Server, bytes int) { s.listingMost = bytes }
