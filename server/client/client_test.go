package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func serve(t *testing.T, h http.HandlerFunc, opts ...Option) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	c, err := New(s.URL, opts...)
	if err != nil {
		t.Fatal(err)
	}
	c.pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	return c
}

// abort breaks the connection off.
func abort() { panic(http.ErrAbortHandler) }

func TestNew(t *testing.T) {
	for _, address := range []string{"", "localhost:2024", "ftp://x", "http://", "http://x?a=b", "http://x#f", ":"} {
		if _, err := New(address); err == nil {
			t.Errorf("%q is an address", address)
		}
	}
}

func TestHeaders(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"version": strings.Join([]string{r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), r.Header.Get("X-Mine")}, " ")})
	}, WithAPIKey("key"), WithBearer("token"), WithHeader("x-mine", "1"))
	info, err := c.Info(t.Context())
	if err != nil || info.Version != "key Bearer token 1" {
		t.Errorf("%+v, %v", info, err)
	}
}

// A key does not go to another host, wherever a server sends its clients.
func TestRedirects(t *testing.T) {
	asked := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer other.Close()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}, WithAPIKey("key"), WithRetries(0))
	if err := c.OK(t.Context()); err == nil || asked {
		t.Errorf("%v, asked %v", err, asked)
	}
	// Nor does a stream go on at another server.
	c = serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", other.URL+"/threads/t/runs/r/stream")
		fmt.Fprint(w, "data: 1\nid: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		abort()
	}, WithAPIKey("key"))
	n := 0
	for ev, err := range c.Runs.Stream(t.Context(), "t", RunRequest{StreamResumable: true}) {
		if n++; n == 2 && (err == nil || ev.ID != "") {
			t.Errorf("%+v, %v", ev, err)
		}
	}
	if n != 2 || asked {
		t.Errorf("%d, asked %v", n, asked)
	}
}

func TestErrors(t *testing.T) {
	for status, want := range map[int]error{400: ErrInvalid, 401: ErrUnauthorized, 403: ErrUnauthorized, 404: ErrNotFound, 409: ErrConflict, 422: ErrInvalid} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"detail":"because"}`)
		})
		_, err := c.Threads.Get(t.Context(), "t")
		var e *Error
		if !errors.Is(err, want) || !errors.As(err, &e) || e.Status != status || e.Detail != "because" || e.Path != "/threads/t" {
			t.Errorf("%d: %v", status, err)
		}
		for _, other := range []error{ErrInvalid, ErrUnauthorized, ErrNotFound, ErrConflict} {
			if other != want && errors.Is(err, other) {
				t.Errorf("%d is %v", status, other)
			}
		}
	}
	for text, want := range map[string]string{`{"detail":[1]}`: "[1]", `{"error":"a","message":"b"}`: "b", `{"error":"a"}`: "a", "plain\n": "plain", "": "", `{}`: "{}", `[]`: "[]"} {
		if got := detailOf([]byte(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// An id cannot lead a request to another operation.
func TestIDs(t *testing.T) {
	var path string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) { path = r.URL.EscapedPath() })
	for _, id := range []string{"", ".", ".."} {
		if _, err := c.Threads.Get(t.Context(), id); err == nil || path != "" {
			t.Errorf("%q: %v, %s", id, err, path)
		}
	}
	if err := c.Threads.Delete(t.Context(), "a/b?c"); err != nil || path != "/threads/a%2Fb%3Fc" {
		t.Errorf("%v, %s", err, path)
	}
}

// A signal with a key is sent again, since it counts once. One without is not.
func TestSignalsAgain(t *testing.T) {
	var mu sync.Mutex
	var got []string
	requests := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got = append(got, r.URL.EscapedPath()+" "+string(body))
		lost := len(got) < 3 // the answers to the first two
		mu.Unlock()
		if lost {
			abort()
		}
		w.WriteHeader(204)
	})
	if err := c.Threads.Signal(t.Context(), "t", "a/b", 1, SignalOptions{}); err == nil || len(requests()) != 1 {
		t.Errorf("%v, %q", err, requests())
	}
	sent := `/stele/threads/t/signals/a%2Fb {"instead":"r","key":"k","value":1}`
	if err := c.Threads.Signal(t.Context(), "t", "a/b", 1, SignalOptions{Key: "k", Instead: "r"}); err != nil || !slices.Equal(requests()[1:], []string{sent, sent}) {
		t.Errorf("%v, %q", err, requests())
	}
}

// What only reads is sent again. What may change something is not.
func TestRetries(t *testing.T) {
	var n atomic.Int32
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) {
		case 1:
			w.WriteHeader(503)
		case 2:
			abort()
		case 3: // an answer that breaks off
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "[")
			abort()
		default:
			fmt.Fprint(w, "[]")
		}
	})
	if _, err := c.Threads.Search(t.Context(), ThreadQuery{}); err != nil || n.Load() != 4 {
		t.Errorf("%v after %d", err, n.Load())
	}
	n.Store(0)
	if _, err := c.Threads.Create(t.Context(), ThreadCreate{}); err == nil || n.Load() != 1 {
		t.Errorf("%v after %d", err, n.Load())
	}
	n.Store(1)
	if err := c.Threads.Delete(t.Context(), "t"); err == nil || n.Load() != 2 {
		t.Errorf("%v after %d", err, n.Load())
	}
	c = serve(t, func(w http.ResponseWriter, _ *http.Request) { n.Add(1); w.WriteHeader(500) })
	n.Store(0)
	if _, err := c.Info(t.Context()); err == nil || n.Load() != 1 {
		t.Errorf("%v after %d", err, n.Load())
	}
}

func TestAnswerLimit(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"version":%q}`, strings.Repeat("x", 1000))
	}, WithLimit(500))
	if _, err := c.Info(t.Context()); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	n := 0
	c = serve(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		w.Header().Set("Location", "/threads/t/runs/r/stream")
		fmt.Fprintf(w, "data: 1\nid: 1\n\ndata: %s\n\n", strings.Repeat("x", 1000))
	}, WithLimit(500))
	for _, err := range c.Runs.Stream(t.Context(), "t", RunRequest{StreamResumable: true}) {
		if err != nil && !errors.Is(err, ErrLimit) {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("asked %d times for what is too large", n)
	}
}

// flaky serves the frames of one run, and breaks each connection off after some bytes. Ids are
// as each server gives them: to the last of several frames, or the same to several.
type flaky struct {
	t      *testing.T
	frames []string // name, id or ""
	cuts   []int    // how many bytes a connection has; behind these all
	clean  bool     // a cut is an end in good order
	posts  int
	joins  []string // Last-Event-IDs
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && !strings.HasSuffix(r.URL.Path, "/stream") {
		status := Success
		if len(f.cuts) > 0 {
			status = Running
		}
		fmt.Fprintf(w, `{"run_id":"r","thread_id":"t","status":%q}`, status)
		return
	}
	begin := 0
	if r.Method == http.MethodPost {
		f.posts++
	} else {
		after := r.Header.Get("Last-Event-ID")
		f.joins = append(f.joins, after)
		for i, fr := range f.frames {
			if _, id, _ := strings.Cut(fr, " "); after != FromStart && id == after {
				begin = i + 1
			}
		}
	}
	var b strings.Builder
	for _, fr := range f.frames[begin:] {
		name, id, _ := strings.Cut(fr, " ")
		fmt.Fprintf(&b, "event: %s\r\ndata: {}\r\n", name)
		if id != "" {
			fmt.Fprintf(&b, "id: %s\r\n", id)
		}
		b.WriteString("\r\n")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Location", "/threads/t/runs/r/stream")
	w.Header().Set("Content-Location", "/threads/t/runs/r")
	text := b.String()
	if len(f.cuts) > 0 {
		cut := min(f.cuts[0], len(text))
		f.cuts = f.cuts[1:]
		_, _ = io.WriteString(w, text[:cut])
		_ = http.NewResponseController(w).Flush()
		if !f.clean {
			abort()
		}
		return
	}
	_, _ = io.WriteString(w, text)
}

// Wherever a stream breaks off, each event comes once, in order, and the run is made once.
func TestResume(t *testing.T) {
	for name, frames := range map[string][]string{
		"an id each":                {"metadata 1", "a 2", "b 3", "c 4", "d 5", "e 6"},
		"one for several":           {"metadata 1", "a", "b", "c 2", "d", "e 3"},
		"the same for several":      {"metadata 1", "a 2", "b 2", "c 2", "d 3", "e 3"},
		"equal events with one id":  {"metadata 1", "a 2", "a 2", "a 2", "b 3", "b 3"},
		"the first ids are one":     {"metadata 1", "a 1", "b 1", "c 2", "d 3", "e 4"},
		"nothing but the first one": {"metadata 1"},
	} {
		whole := 0
		for _, fr := range frames {
			n, id, _ := strings.Cut(fr, " ")
			whole += len("event: \r\ndata: {}\r\n\r\n") + len(n)
			if id != "" {
				whole += len("id: \r\n") + len(id)
			}
		}
		var want []string
		for _, fr := range frames {
			n, _, _ := strings.Cut(fr, " ")
			want = append(want, n)
		}
		for _, clean := range []bool{false, true} {
			for cut := 0; cut < whole; cut += 5 {
				f := &flaky{t: t, frames: frames, cuts: []int{cut, 40, 70}, clean: clean}
				c := serve(t, f.ServeHTTP, WithRetries(10))
				var got []string
				for ev, err := range c.Runs.Stream(t.Context(), "t", RunRequest{AssistantID: "g", StreamResumable: true}) {
					if err != nil {
						t.Fatalf("%s, cut at %d, clean %v: %v", name, cut, clean, err)
					}
					if ev.RunID != "r" || ev.ThreadID != "t" {
						t.Errorf("%+v", ev)
					}
					if got = append(got, ev.Mode); len(got) > len(want) {
						break
					}
				}
				if !slices.Equal(got, want) || f.posts != 1 {
					t.Fatalf("%s, cut at %d, clean %v: %d runs; got %v, want %v (joined behind %q)", name, cut, clean, f.posts, got, want, f.joins)
				}
			}
		}
	}
}

// A run that is not resumable is not resumed: what is missing would not come.
func TestNotResumable(t *testing.T) {
	f := &flaky{t: t, frames: []string{"a", "b"}, cuts: []int{30}}
	c := serve(t, f.ServeHTTP)
	var last error
	for _, err := range c.Runs.Stream(t.Context(), "t", RunRequest{AssistantID: "g"}) {
		last = err
	}
	if !errors.Is(last, io.ErrUnexpectedEOF) || len(f.joins) != 0 {
		t.Errorf("%v, joined behind %q", last, f.joins)
	}
}

// A server that stays away ends a stream; the events that came count.
func TestGivenUp(t *testing.T) {
	var n atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 1 {
			abort()
		}
		w.Header().Set("Location", "/threads/t/runs/r/stream")
		fmt.Fprint(w, "data: 1\nid: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		abort()
	}, WithRetries(2))
	var events, errs int
	for _, err := range c.Runs.Stream(t.Context(), "t", RunRequest{StreamResumable: true}) {
		if err != nil {
			errs++
		} else {
			events++
		}
	}
	if events != 1 || errs != 1 || n.Load() != 3 {
		t.Errorf("%d events, %d errors, %d requests", events, errs, n.Load())
	}
}

func TestStreamEnds(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "event: values|a:1|b:2\ndata: 1\n\nevent: error\ndata: {\"error\":\"ValueError\",\"message\":\"boom\"}\n\nevent: values\ndata: 2\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	n := 0
	for ev, err := range c.Runs.Stream(t.Context(), "", RunRequest{}) {
		var failed *RunError
		switch n++; n {
		case 1:
			if err != nil || ev.Mode != ModeValues || !slices.Equal(ev.Namespace, []string{"a:1", "b:2"}) || string(ev.Data) != "1" {
				t.Errorf("%+v, %v", ev, err)
			}
		case 2:
			if !errors.Is(err, ErrRunFailed) || !errors.As(err, &failed) || failed.Kind != "ValueError" || failed.Message != "boom" {
				t.Error(err)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d events", n)
	}
	for range c.Runs.Stream(t.Context(), "", RunRequest{}) {
		break // it returns
	}
	ctx, cancel := context.WithCancel(t.Context())
	var last error
	for _, err := range c.Runs.JoinStream(ctx, "t", "r", JoinOptions{}) {
		cancel()
		last = err
	}
	cancel()
	if !errors.Is(last, context.Canceled) && !errors.Is(last, ErrRunFailed) {
		t.Error(last)
	}
}

// A wait goes on by another request when its answer breaks off, or ends without a word.
func TestWait(t *testing.T) {
	for _, clean := range []bool{true, false} {
		posts, joins := 0, 0
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/threads/t/runs/r/join")
			if r.Method == http.MethodPost {
				posts++
			} else if joins++; joins == 3 {
				fmt.Fprint(w, "\n\n{\"n\":1}")
				return
			}
			fmt.Fprint(w, "\n")
			_ = http.NewResponseController(w).Flush()
			if !clean {
				abort()
			}
		})
		got, err := c.Runs.Wait(t.Context(), "t", RunRequest{})
		if err != nil || string(got) != `{"n":1}` || posts != 1 || joins != 3 {
			t.Errorf("%s, %v: %d posts, %d joins", got, err, posts, joins)
		}
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"__error__":{"error":"ValueError","message":"boom"}}`)
	})
	if _, err := c.Runs.Join(t.Context(), "t", "r"); !errors.Is(err, ErrRunFailed) {
		t.Error(err)
	}
}

// A stream of a thread goes on behind the last event when it breaks off.
func TestLasting(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in EventsRequest
		_ = json.NewDecoder(r.Body).Decode(&in)
		asked = append(asked, fmt.Sprint(r.Header.Get("Last-Event-ID"), in.Since))
		for i := range 2 {
			n := 2*len(asked) - 2 + i
			fmt.Fprintf(w, "event: values\ndata: {\"seq\":%d}\nid: %d\n\n", n, n)
		}
		if len(asked)%2 == 0 {
			_ = http.NewResponseController(w).Flush()
			abort()
		}
	})
	var got []int64
	for ev, err := range c.Threads.Events(t.Context(), "t", EventsRequest{Channels: []string{"values"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, ev.Seq); len(got) == 6 {
			break
		}
	}
	if want := []string{"0", "1", "3"}; !slices.Equal(asked, want) || !slices.Equal(got, []int64{0, 1, 2, 3, 4, 5}) {
		t.Errorf("asked %q, got %d", asked, got)
	}
	asked = nil
	var ids []string
	for ev, err := range c.Threads.Stream(t.Context(), "t", ThreadStreamOptions{LastEventID: "x"}) {
		if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, ev.ID); len(ids) == 4 {
			break
		}
	}
	if want := []string{"x0", "10"}; !slices.Equal(asked, want) || !slices.Equal(ids, []string{"0", "1", "2", "3"}) {
		t.Errorf("asked %q, got %q", asked, ids)
	}
}

func TestPages(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Limit, Offset int }
		_ = json.NewDecoder(r.Body).Decode(&in)
		asked = append(asked, fmt.Sprint(in.Offset))
		list := []Thread{}
		for i := in.Offset; i < min(in.Offset+in.Limit, 5); i++ {
			list = append(list, Thread{ThreadID: fmt.Sprint(i)})
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	var got []string
	for th, err := range c.Threads.All(t.Context(), ThreadQuery{Limit: 2, Offset: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, th.ThreadID)
	}
	if !slices.Equal(got, []string{"1", "2", "3", "4"}) || !slices.Equal(asked, []string{"1", "3", "5"}) {
		t.Errorf("%q by %q", got, asked)
	}
}

func TestHistoryPages(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Limit  int
			Before struct {
				CheckpointID string `json:"checkpoint_id"`
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		asked = append(asked, fmt.Sprint(in.Limit, in.Before.CheckpointID))
		top := 120
		if id := in.Before.CheckpointID; id != "" {
			_, _ = fmt.Sscanf(id, "c%d", &top)
		}
		list := []State{}
		for i := top - 1; i >= 0 && len(list) < in.Limit; i-- {
			list = append(list, State{Checkpoint: &Checkpoint{CheckpointID: fmt.Sprintf("c%d", i)}})
		}
		_ = json.NewEncoder(w).Encode(list)
	})
	for limit, want := range map[int][]string{0: {"50", "50c70", "50c20"}, 60: {"50", "10c70"}, 50: {"50"}} {
		asked = nil
		n := 0
		for s, err := range c.Threads.History(t.Context(), "t", HistoryQuery{Limit: limit}) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; s.Checkpoint.CheckpointID != fmt.Sprintf("c%d", 120-n) {
				t.Errorf("%d: %+v", n, s.Checkpoint)
			}
		}
		if most := map[int]int{0: 120}[limit]; n != max(most, limit) || !slices.Equal(asked, want) {
			t.Errorf("limit %d: %d states by %q", limit, n, asked)
		}
	}
}

func TestTime(t *testing.T) {
	for text, want := range map[string]string{`null`: "0001-01-01T00:00:00Z", `""`: "0001-01-01T00:00:00Z",
		`"2026-11-23T23:30:46.990384+00:00"`: "2026-11-23T23:30:46.990384Z", `"2026-11-23T23:30:46"`: "2026-11-23T23:30:46Z"} {
		var at Time
		if err := json.Unmarshal([]byte(text), &at); err != nil || at.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %v, %v", text, at, err)
		}
	}
	for _, text := range []string{`1`, `"soon"`} {
		if err := json.Unmarshal([]byte(text), new(Time)); err == nil {
			t.Errorf("%s is a time", text)
		}
	}
	if text, err := json.Marshal([]Time{{}, {time.Unix(0, 0).UTC()}}); err != nil || string(text) != `[null,"1970-01-01T00:00:00Z"]` {
		t.Errorf("%s, %v", text, err)
	}
}

func TestNodes(t *testing.T) {
	text, err := json.Marshal(RunRequest{InterruptBefore: Nodes{"*"}, InterruptAfter: Nodes{"a"}})
	if err != nil || string(text) != `{"interrupt_before":"*","interrupt_after":["a"]}` {
		t.Errorf("%s, %v", text, err)
	}
}
