package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// startStudio runs stele studio until the test ends, and returns the address that it says.
func startStudio(t *testing.T, args ...string) (at string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	var errs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		c := run(ctx, append([]string{"studio", "--listen", "127.0.0.1:0"}, args...), in, &errs)
		code <- c
		_ = in.CloseWithError(io.ErrUnexpectedEOF)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if c := <-code; c != exitDone {
			t.Errorf("stele studio %v ended with code %d: %s", args, c, errs.String())
		}
	})
	t.Cleanup(stop)
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "studio at ")), stop
}

// ask is a request of the page.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// threadIDs are those that the page lists.
func threadIDs(t *testing.T, at string) map[string]string {
	t.Helper()
	code, text := ask(t, "POST", at+"/api/threads/search", `{"limit":100}`)
	var list []struct {
		ID     string `json:"thread_id"`
		Status string
	}
	if err := json.Unmarshal([]byte(text), &list); code != http.StatusOK || err != nil {
		t.Fatalf("status %d, %v: %s", code, err, text)
	}
	ids := map[string]string{}
	for _, th := range list {
		ids[th.ID] = th.Status
	}
	return ids
}

func TestStudioRemote(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path+" "+r.Header.Get("X-Api-Key")+" "+r.Header.Get("Authorization"))
	}))
	defer api.Close()
	prices := func(text string) string {
		file := filepath.Join(t.TempDir(), "prices.json")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	at, _ := startStudio(t, api.URL, "--api-key", "k", "--token", "t", "--prices", prices(`{"currency": "EUR", "models": {"m": {"input": 3, "output": 15.5}}}`))
	for path, want := range map[string]string{"/": "<title>stele studio</title>", "/api/info": "/info k Bearer t", "/prices.json": `{"currency":"EUR","models":{"m":{"input":3,"output":15.5}}}`} {
		if _, text := ask(t, "GET", at+path, ""); !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
	for _, args := range [][]string{{"studio"}, {"studio", "ftp://x"}, {"studio", "--demo", "x"}, {"studio", t.TempDir() + "/none"}, {"studio", "--write", t.TempDir() + "/none"}, {"studio", "--backup", "x", t.TempDir()},
		{"studio", "--prices", t.TempDir() + "/none", api.URL}, {"studio", "--prices", prices(`{}`), api.URL}, {"studio", "--prices", prices(`{"currency": "EUR", "models": {"m": {"inputs": 3}}}`), api.URL}} {
		if c := run(context.Background(), args, io.Discard, io.Discard); c != exitFailed {
			t.Errorf("stele %v: code %d", args, c)
		}
	}
}

// A store is shown beside its writer, follows it, and is not changed.
func TestStudioBesideWriter(t *testing.T) {
	dir := t.TempDir()
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(thread string) {
		t.Helper()
		one := map[string]saver.Version{"a": saver.IntVersion(1)}
		_, err := d.Put(context.Background(), saver.Config{ThreadID: thread}, saver.Checkpoint{V: 4, ID: "1f0a0000-0000-6000-8000-000000000000", TS: "2026-01-01T00:00:00+00:00",
			Values: map[string]saver.Value{"a": saver.ValueOf("hello " + thread)}, Versions: one}, saver.Metadata{"step": 0, "source": "loop"}, one)
		if err != nil {
			t.Fatal(err)
		}
	}
	put("first")
	at, stop := startStudio(t, dir)
	if ids := threadIDs(t, at); len(ids) != 1 {
		t.Fatalf("the threads are %v", ids)
	}
	if _, text := ask(t, "GET", at+"/api/threads/first/state", ""); !strings.Contains(text, "hello first") {
		t.Errorf("the state is %s", text)
	}
	put("second")
	for i := 0; len(threadIDs(t, at)) != 2; i++ {
		if i == 1200 { // a busy machine takes its time
			t.Fatal("what the writer stored since is not shown")
		}
		time.Sleep(100 * time.Millisecond)
	}
	if code, text := ask(t, "DELETE", at+"/api/threads/first", ""); code != http.StatusForbidden {
		t.Errorf("a deletion: status %d, %s", code, text)
	}
	if c := run(context.Background(), []string{"studio", "--write", dir}, io.Discard, io.Discard); c != exitLocked {
		t.Errorf("for writing, beside a writer: code %d", c)
	}
	stop()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	backup := filepath.Join(t.TempDir(), "backup")
	at, _ = startStudio(t, "--write", "--backup", backup, dir)
	if code, text := ask(t, "POST", at+"/api/stele/backup", ""); code != http.StatusOK {
		t.Errorf("a backup: status %d, %s", code, text)
	}
	if out, errs, code := stele(t, "verify", backup); code != exitDone {
		t.Errorf("verify of the backup: code %d, %s%s", code, out, errs)
	}
	if code, text := ask(t, "DELETE", at+"/api/threads/first", ""); code >= 300 {
		t.Errorf("a deletion: status %d, %s", code, text)
	}
	if ids := threadIDs(t, at); len(ids) != 1 {
		t.Errorf("the threads are %v", ids)
	}
}

func TestStudioDemo(t *testing.T) {
	at, _ := startStudio(t, "--demo")
	ids := threadIDs(t, at)
	if len(ids) != 3 || ids["waits for approval"] != "interrupted" || ids["a fork"] != "idle" {
		t.Fatalf("the threads are %v", ids)
	}
	code, text := ask(t, "POST", at+"/api/threads/waits%20for%20approval/runs/wait", `{"assistant_id":"agent","command":{"resume":{"decisions":[{"type":"approve"}]}}}`)
	if code != http.StatusOK || !strings.Contains(text, "Here is the plan") {
		t.Errorf("the answer: status %d, %s", code, text)
	}
	code, text = ask(t, "POST", at+"/api/threads/a%20process%20that%20died/runs/wait", `{"assistant_id":"agent","input":null}`)
	if code != http.StatusOK || !strings.Contains(text, "Rain until noon") {
		t.Errorf("going on after the crash: status %d, %s", code, text)
	}
}

// TestStudioOfADeadAddress: it says that nothing answers there, and serves the page all the same.
func TestStudioOfADeadAddress(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs shared
	code := make(chan int, 1)
	go func() { code <- run(ctx, []string{"studio", "--listen", "127.0.0.1:0", gone.URL}, &out, &errs) }()
	for !strings.Contains(out.String(), "studio at ") {
		select {
		case c := <-code:
			t.Fatalf("it ended with code %d: %s", c, errs.String())
		case <-time.After(time.Millisecond):
		}
	}
	if said := errs.String(); !strings.Contains(said, "nothing answers at "+gone.URL) {
		t.Errorf("it says %q", said)
	}
	cancel()
	if c := <-code; c != exitDone {
		t.Errorf("it ended with code %d: %s", c, errs.String())
	}
}
