package studio

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

func answer(t *testing.T, h http.Handler, method, target string, header map[string]string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for k, v := range header {
		if k == "Host" {
			r.Host = v
			continue
		}
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// api counts the requests that reach it.
type api int

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) { *a++ }

func TestGuard(t *testing.T) {
	const own = "http://localhost:2025"
	for _, c := range []struct {
		name, method, path string
		header             map[string]string
		reached            bool
	}{
		{"a program", "POST", "/api/threads", nil, true},
		{"the page", "POST", "/api/threads", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": own}, true},
		{"the page, in an older browser", "POST", "/api/threads", map[string]string{"Origin": own}, true},
		{"another site", "POST", "/api/threads", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, false},
		{"another site, in an older browser", "POST", "/api/threads", map[string]string{"Origin": "https://evil.example"}, false},
		{"another port of this machine", "DELETE", "/api/threads/t", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:80"}, false},
		{"a sandboxed frame", "POST", "/api/threads", map[string]string{"Origin": "null"}, false},
		{"an image of another site", "GET", "/api/threads/t", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, false},
		{"a link of another site to the API", "GET", "/api/threads/t", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, false},
		{"a name that was pointed here", "POST", "/api/threads", map[string]string{"Host": "evil.example:2025"}, false},
		{"a name that begins like ours", "POST", "/api/threads", map[string]string{"Host": "localhost.evil.example"}, false},
		{"an address of loopback", "POST", "/api/threads", map[string]string{"Host": "[::1]:2025"}, true},
		{"a host that is allowed", "POST", "/api/threads", map[string]string{"Host": "studio.example"}, true},
	} {
		var a api
		h := New(&a, Options{Hosts: []string{"studio.example"}})
		got := answer(t, h, c.method, own+c.path, c.header)
		if (a == 1) != c.reached || (got.StatusCode == http.StatusForbidden) == c.reached {
			t.Errorf("%s: reached the API %d times, status %d", c.name, a, got.StatusCode)
		}
	}
}

func TestPage(t *testing.T) {
	h := New(new(api), Options{})
	got := answer(t, h, "GET", "http://localhost/", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})
	if got.StatusCode != http.StatusOK || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") {
		t.Errorf("a link to the page: status %d, %s", got.StatusCode, got.Header.Get("Content-Type"))
	}
	for _, want := range []string{"script-src 'self';", "default-src 'none'", "frame-ancestors 'none'", "connect-src 'self'"} {
		if !strings.Contains(got.Header.Get("Content-Security-Policy"), want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
}

// A client that was given the address of the page is told where the API is.
func TestNotTheAPI(t *testing.T) {
	var a api
	for _, c := range [][2]string{{"GET", "/ok"}, {"POST", "/threads/search"}, {"POST", "/threads/t/runs/wait"}, {"GET", "/assets/"}} {
		got := answer(t, New(&a, Options{}), c[0], "http://localhost"+c[1], nil)
		if text, err := io.ReadAll(got.Body); err != nil || got.StatusCode != http.StatusNotFound || !strings.Contains(string(text), "the API at /api/") || a > 0 {
			t.Errorf("%s %s: status %d, %q, %v", c[0], c[1], got.StatusCode, text, err)
		}
	}
}

// The page is small, runs no script of its own text, and names nothing that lies elsewhere.
func TestBundle(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	err := fs.WalkDir(dist, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := dist.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".html") {
			for _, bad := range []string{"<script>", "<style", "https://", "http://", "onload="} {
				if bytes.Contains(data, []byte(bad)) {
					t.Errorf("%s has %s", path, bad)
				}
			}
		}
		_, err = z.Write(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if packed.Len() > 300<<10 {
		t.Errorf("the page is %d bytes packed", packed.Len())
	}
}

func TestRemote(t *testing.T) {
	var got *http.Request
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r }))
	defer s.Close()
	to, err := url.Parse(s.URL + "/base")
	if err != nil {
		t.Fatal(err)
	}
	h := New(Remote(to, http.Header{"X-Api-Key": {"k"}}), Options{})
	answer(t, h, "GET", "http://localhost/api/threads/a%2Fb?x=1", map[string]string{"Cookie": "secret=1", "Origin": "http://localhost"})
	if got == nil || got.URL.EscapedPath() != "/base/threads/a%2Fb" || got.URL.RawQuery != "x=1" || got.Header.Get("X-Api-Key") != "k" {
		t.Fatalf("the server was asked for %v", got)
	}
	if got.Header.Get("Cookie") != "" || got.Header.Get("Origin") != "" || got.Host != to.Host {
		t.Errorf("the server got %v for host %s", got.Header, got.Host)
	}
	s.Close()
	if resp := answer(t, h, "GET", "http://localhost/api/ok", nil); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("a server that is gone: status %d", resp.StatusCode)
	}
}
