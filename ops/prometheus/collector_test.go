package prometheus_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stele-go/stele/base/metrics"
	steleprom "github.com/stele-go/stele/ops/prometheus"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

var ctx = context.Background()

func open(t *testing.T, opts disk.Options) *disk.Saver {
	t.Helper()
	d, err := disk.Open(t.TempDir(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func put(t *testing.T, d *disk.Saver, thread, id string, v any) {
	t.Helper()
	cp := saver.Checkpoint{V: 4, ID: id, Versions: map[string]saver.Version{"m": saver.IntVersion(1)},
		Values: map[string]saver.Value{"m": saver.ValueOf(v)}}
	if _, err := d.Put(ctx, saver.Config{ThreadID: thread}, cp, nil, cp.Versions); err != nil {
		t.Fatal(err)
	}
}

func registry(t *testing.T, src steleprom.Source) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(steleprom.NewCollector(src)); err != nil {
		t.Fatal(err)
	}
	return reg
}

// The numbers of a scrape are those of the store.
func TestCollector(t *testing.T) {
	d := open(t, disk.Options{LowSpace: -1})
	const threads = 10
	for i := range threads {
		put(t, d, fmt.Sprintf("thread %d", i), "c1", strings.Repeat("value ", 100))
	}
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := d.GetTuple(ctx, saver.Config{ThreadID: "thread 1"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Put(ctx, saver.Config{}, saver.Checkpoint{}, nil, nil); !errors.Is(err, saver.ErrInvalid) {
		t.Fatal(err)
	}
	got := scrape(t, registry(t, d))
	for name, want := range map[string]float64{
		"stele_threads": threads, "stele_threads_resident": threads, "stele_save_duration_seconds_count": threads,
		`stele_save_duration_seconds_bucket{le="+Inf"}`: threads,
		"stele_load_duration_seconds_count":             3, "stele_commit_duration_seconds_count": threads,
		`stele_save_errors_total{reason="refused"}`: 1, `stele_save_errors_total{reason="failed"}`: 0,
		"stele_flushes_total": 1, "stele_segments": 1, "stele_log_records_total": threads, "stele_log_batch_records_sum": threads,
		`stele_health{status="ok"}`: 1, `stele_health{status="failed"}`: 0, `stele_trouble{kind="poisoned"}`: 0,
		"stele_poisoned": 0, "stele_disk_low_bytes": 0, "stele_disk_reserve_bytes": 8 << 20, "stele_lag_records": 0,
		"stele_corruptions_found_total": 0, "stele_log_queue_records": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	for _, name := range []string{"stele_value_bytes_total", "stele_log_bytes_total", "stele_flush_value_bytes_total", "stele_flush_stored_bytes_total",
		"stele_segment_bytes", "stele_disk_free_bytes", "stele_disk_size_bytes", "stele_save_duration_seconds_sum",
		`stele_serialization_duration_seconds_count{op="encode"}`, "stele_log_sync_duration_seconds_count"} {
		if !(got[name] > 0) {
			t.Errorf("%s is %v", name, got[name])
		}
	}
	if got["stele_disk_free_bytes"] > got["stele_disk_size_bytes"] {
		t.Error("more of the device is free than there is")
	}
}

// A poisoned, then closed, store is collected too.
func TestCollectorOfAFailedStore(t *testing.T) {
	h := metrics.Health{Status: metrics.StatusFailed, Problems: []metrics.Problem{{Kind: metrics.TroublePoisoned, Err: syscall.EIO}}}
	d := open(t, disk.Options{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		src  steleprom.Source
		want string
	}{{d, "closed"}, {judged{d, h}, "poisoned"}} {
		got := scrape(t, registry(t, c.src))
		for _, kind := range metrics.Troubles() {
			if _, ok := got[`stele_trouble{kind="`+string(kind)+`"}`]; !ok {
				t.Errorf("%s: no metric of the kind %s", c.want, kind)
			}
		}
		if got[`stele_health{status="failed"}`] != 1 || got[`stele_health{status="ok"}`] != 0 || got[`stele_trouble{kind="`+c.want+`"}`] != 1 {
			t.Errorf("%s: %v", c.want, got)
		}
	}
}

// judged is a store with a health of its own.
type judged struct {
	*disk.Saver
	h metrics.Health
}

func (j judged) Health() metrics.Health { return j.h }

// Two stores live in one registry under a label of the user's.
func TestTwoStores(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	for _, name := range []string{"a", "b"} {
		prometheus.WrapRegistererWith(prometheus.Labels{"store": name}, reg).MustRegister(steleprom.NewCollector(open(t, disk.Options{})))
	}
	if n, err := testutil.GatherAndCount(reg, "stele_threads"); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// Names and types follow Prometheus's conventions, and nothing that grows with the
// data is a label.
func TestConventions(t *testing.T) {
	d := open(t, disk.Options{})
	put(t, d, "a thread of its own", "c1", "v")
	reg := registry(t, d)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	before := scrape(t, reg)
	for i := range 20 {
		put(t, d, fmt.Sprintf("t%d", i), "c1", "v")
	}
	after := scrape(t, reg)
	if len(after) != len(before) {
		t.Errorf("%d series became %d with more threads", len(before), len(after))
	}
	for name := range after {
		if strings.Contains(name, "thread of its own") {
			t.Errorf("%s names a thread", name)
		}
	}
}

// scrape reads the registry as Prometheus does.
func scrape(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	out := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := cutLast(strings.TrimSpace(line))
		var v float64
		if _, err := fmt.Sscan(value, &v); err != nil || !ok {
			t.Fatalf("%q: %v", line, err)
		}
		out[name] = v
	}
	return out
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, ' ')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// Example registers a store with the process's own metrics.
func Example() {
	reg := prometheus.NewRegistry()
	register := func(d *disk.Saver) {
		reg.MustRegister(steleprom.NewCollector(d), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	_ = register
	http.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
}
