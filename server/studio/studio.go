// Package studio is a web page on which people see, compare, fork and answer the threads of
// agents. It speaks LangGraph's server API, to a server in this process or elsewhere, and
// needs nothing but this package: all that the page loads is compiled in. Threads are run, and
// questions answered, where the server has graphs; one over a store alone has none.
//
//	api, err := server.New(server.Config{…})
//	http.ListenAndServe("localhost:2025", studio.New(api, studio.Options{}))
//
// The page is then at http://localhost:2025, and the API, for clients, at http://localhost:2025/api.
//
// # What a page of somebody else can do
//
// Nothing. The handler answers only requests whose Host is one of Options.Hosts, so that a
// name that an attacker points at this machine reaches nothing. A request of another site's
// page is refused, whatever its method: browsers say in Sec-Fetch-Site where a request comes
// from, and those that do not say it still name an Origin with whatever could change something.
// The page runs its own script alone, and loads nothing from elsewhere: its
// Content-Security-Policy says so. What models, tools and people wrote is shown as text.
package studio

import (
	"embed"
	"encoding/json"
	"io/fs"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
)

// dist is what `npm run build` makes of web. CONTRIBUTING.md has more.
//
//go:embed dist
var dist embed.FS

// policy allows what the page is made of. Styles of elements are set where lists are scrolled.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self'; font-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Options configures New. The zero value serves this machine alone.
type Options struct {
	// Hosts are the names, without ports, under which the page may be asked for. Those of the
	// loopback address (localhost, 127.0.0.1, ::1) are always allowed.
	Hosts []string
	// Prices are what tokens of models cost. The page then shows money beside tokens; nil shows none. Whoever
	// may see the page sees them.
	Prices *Prices
}

// Prices are what models cost.
type Prices struct {
	Currency string `json:"currency"`
	// Models has the price of each by its name, as messages give it in response_metadata. A name also stands
	// for those that continue it after a hyphen, as names with a date do.
	Models map[string]Price `json:"models"`
}

// Price is what a million tokens cost.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// New serves the page at /, and api, a server of LangGraph's API, at /api/. Mount it at the
// root of a host. It keeps no state and is safe for concurrent use.
func New(api http.Handler, opts Options) http.Handler {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the folder is compiled in
	}
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", api))
	mux.Handle("GET /prices.json", page(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(opts.Prices) // null if there are none: browsers report a 404
	})))
	served := http.FileServerFS(files)
	mux.Handle("/", page(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := strings.TrimPrefix(r.URL.Path, "/"); name != "" {
			if _, err := fs.Stat(files, name); err != nil {
				http.Error(w, "nothing is here: the page is at /, and the API at /api/", http.StatusNotFound)
				return
			}
		}
		served.ServeHTTP(w, r)
	})))
	return guard{hosts: opts.Hosts, next: mux}
}

// page adds to the files of the page what a browser needs to know of them. They have names
// that stay, so a browser asks each time whether they have changed.
func page(files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		files.ServeHTTP(w, r)
	})
}

// guard refuses requests that come neither from the page itself nor from a program.
type guard struct {
	hosts []string
	next  http.Handler
}

// ServeHTTP implements http.Handler.
func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.knows(r.Host) {
		refuse(w, "this name is not one of the studio's hosts")
		return
	}
	if !ownPage(r) {
		refuse(w, "a page of another site asked for this")
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g guard) knows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.Trim(name, "[]"), ".")
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() || strings.EqualFold(name, "localhost") {
		return true
	}
	for _, h := range g.hosts {
		if strings.EqualFold(name, h) {
			return true
		}
	}
	return false
}

// ownPage reports whether r may have come from the page, from a person who opens the page, or
// from a program that is no browser.
func ownPage(r *http.Request) bool {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "same-origin", "none":
		return true
	case "":
	default:
		// A link on another site may open the page. It may not ask for anything else.
		return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
			!strings.HasPrefix(r.URL.Path, "/api/")
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

func refuse(w http.ResponseWriter, why string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(`{"detail":"` + why + `"}`))
}

// Remote is the API of a server elsewhere, such as the one that `langgraph dev` starts, for
// New. Header is added to each request: a key that the server asks for.
func Remote(to *url.URL, header http.Header) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = to.Host
			// The server sees a program: the guard has checked the page.
			for _, name := range []string{"Origin", "Referer", "Cookie", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest"} {
				r.Out.Header.Del(name)
			}
			for name, values := range header {
				r.Out.Header[name] = values
			}
		},
		FlushInterval: -1, // sends events of a stream immediately
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte(`{"detail":"the server does not answer"}`))
		},
	}
}
