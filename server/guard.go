package server

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// The guard stands before every handler. It keeps pages of other origins, and names that an
// attacker's DNS makes point here, from using a server that trusts who can reach it.

// guard refuses requests that no handler should see, and answers preflights. It reports
// whether the request may go on.
func (s *Server) guard(w http.ResponseWriter, r *http.Request) bool {
	if s.cfg.Auth.open && !toLoopback(r) {
		writeFailure(w, &failure{http.StatusForbidden, "This server has no authentication, and answers on loopback addresses only."})
		return false
	}
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		s.preflight(w, r)
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	switch {
	case origin == "" || origin == "http://"+r.Host || origin == "https://"+r.Host: // no browser, or a page of this server
	case s.allowsOrigin(origin):
		s.allow(h, origin)
		h.Set("Access-Control-Expose-Headers", "x-pagination-total, x-pagination-next, content-location, location")
	default:
		writeFailure(w, &failure{http.StatusForbidden, "Requests of this origin are not allowed."})
		return false
	}
	// A form of another page can send POST, but not as JSON.
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions && hasBody(r) && !isJSON(r) {
		writeFailure(w, &failure{http.StatusUnsupportedMediaType, "Content-Type must be application/json"})
		return false
	}
	if encoding := r.Header.Get("Content-Encoding"); hasBody(r) && encoding != "" && !strings.EqualFold(encoding, "identity") {
		writeFailure(w, &failure{http.StatusUnsupportedMediaType, "Content-Encoding is not supported: send the body as it is"})
		return false
	}
	return true
}

// hasBody reports whether a request has a body, or may have one.
func hasBody(r *http.Request) bool { return r.ContentLength != 0 }

func isJSON(r *http.Request) bool {
	t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}

// preflight answers a browser that asks whether a page may send a request.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Add("Vary", "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, Access-Control-Request-Private-Network")
	origin := r.Header.Get("Origin")
	if !s.allowsOrigin(origin) {
		writeFailure(w, &failure{http.StatusForbidden, "Requests of this origin are not allowed."})
		return
	}
	s.allow(h, origin)
	h.Set("Access-Control-Allow-Methods", "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT")
	h.Set("Access-Control-Max-Age", "600")
	if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
		h.Set("Access-Control-Allow-Headers", asked)
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
}

// allow lets a page of an origin read the answer, and send its credentials if there are any.
func (s *Server) allow(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	if !s.cfg.Auth.open {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

func (s *Server) allowsOrigin(origin string) bool {
	return origin != "" && origin != "null" && slices.Contains(s.cfg.Origins, origin)
}

// toLoopback reports whether a request came to a loopback address, under the name of one. A
// name that an attacker's DNS points here is another name.
func toLoopback(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip, err := netip.ParseAddr(host); !strings.EqualFold(host, "localhost") && (err != nil || !ip.IsLoopback()) {
		return false
	}
	// The address that the connection was made to. Without one, as in a test, the name counts.
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return true
	}
	if local.Network() == "unix" {
		return true
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}
