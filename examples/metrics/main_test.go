package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	steleprom "github.com/stele-go/stele/ops/prometheus"
	"github.com/stele-go/stele/saver/disk"
)

// TestServes starts the example, waits until it saved something, and scrapes it.
func TestServes(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, "localhost:0", "", time.Millisecond, w)
		_ = w.CloseWithError(io.EOF)
		ended <- err
	}()
	url := ""
	lines := bufio.NewScanner(r)
	for url == "" && lines.Scan() {
		if m := regexp.MustCompile(`serving (http://[^/]+)/metrics`).FindStringSubmatch(lines.Text()); m != nil {
			url = m[1]
		}
	}
	if url == "" {
		t.Fatalf("it does not serve: %v", <-ended)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	saved := regexp.MustCompile(`(?m)^stele_runs_total\{graph="chat",outcome="ok"\} [1-9]`)
	for ctx.Err() == nil && !saved.MatchString(get(ctx, t, url+"/metrics", http.StatusOK)) {
		time.Sleep(time.Millisecond)
	}
	text := get(ctx, t, url+"/metrics", http.StatusOK)
	for _, want := range []string{"stele_threads ", "stele_log_records_total ", "process_resident_memory_bytes ", "go_goroutines ", `stele_health{status="failed"} 0`,
		"stele_save_duration_seconds_count ", `stele_node_runs_total{graph="chat",node="model",outcome="ok"} `, `stele_model_tokens_total{kind="output",model="scripted"} `} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	var h struct {
		Status string
		Lag    struct {
			Age *int64 `json:"age_ns"`
		}
	}
	if err := json.Unmarshal([]byte(get(ctx, t, url+"/healthz", http.StatusOK)), &h); err != nil || h.Status != "ok" && h.Status != "degraded" || h.Lag.Age == nil {
		t.Errorf("health %+v, %v", h, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func get(ctx context.Context, t *testing.T, url string, want int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s: %s, %v\n%s", url, resp.Status, err, b)
	}
	return string(b)
}

// A store that refuses writes is unhealthy to whoever routes requests.
func TestUnhealthy(t *testing.T) {
	d, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	handler(d, steleprom.NewGraphCollector()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"closed"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestBadArguments(t *testing.T) {
	if err := run(t.Context(), "localhost:0", t.TempDir(), 0, io.Discard); err == nil {
		t.Error("no time between runs was accepted")
	}
	if err := run(t.Context(), "nowhere:port", t.TempDir(), time.Second, io.Discard); err == nil {
		t.Error("a bad address was accepted")
	}
	dir := t.TempDir()
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), "localhost:0", dir, time.Second, io.Discard); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("a store in use: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
