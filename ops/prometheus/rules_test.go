package prometheus_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.yaml.in/yaml/v3"

	"github.com/stele-go/stele/base/metrics"
	steleprom "github.com/stele-go/stele/ops/prometheus"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
)

const (
	operations = "../../docs/operations.md"
	metricsDoc = "../../docs/metrics.md"
)

// names are the metrics of a registry such as users have, as queries name them.
func names(t *testing.T) map[string]bool {
	t.Helper()
	reg := prometheus.NewRegistry()
	d := open(t, disk.Options{Replica: disk.Replica{Bucket: buckettest.NewSim(nil)}})
	h := d.Health()
	h.Replica.Follower = &metrics.Follower{} // a store leads or follows
	c := steleprom.NewQueueCollector(queue(t, d))
	_, end := c.Begin(nil)(ctx, runs.Run{Spec: runs.Spec{Graph: "g"}})
	end(runs.ErrFenced)
	reg.MustRegister(c, steleprom.NewDatabaseCollector(pool{}), steleprom.NewCollector(judged{d, h}), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), worked(t))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, f := range families {
		if f.GetType().String() != "HISTOGRAM" {
			out[f.GetName()] = true
			continue
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			out[f.GetName()+part] = true
		}
	}
	return out
}

var metric = regexp.MustCompile(`\b(?:stele|process)_[a-z_]+\b`)

// known reports the metrics a query names that are not collected, and notes those
// that are.
func known(t *testing.T, where, query string, have map[string]bool, used map[string]bool) {
	t.Helper()
	found := metric.FindAllString(query, -1)
	if len(found) == 0 {
		t.Errorf("%s: %q names no metric", where, query)
	}
	for _, m := range found {
		if !have[m] {
			t.Errorf("%s: %s is not collected", where, m)
		}
		used[m] = true
	}
}

type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

func readRules(t *testing.T) rules {
	t.Helper()
	b, err := os.ReadFile("alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	var r rules
	if err := dec.Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Every alert asks for what is collected, says what to do, is documented, and is
// shown to fire by a unit test for promtool.
func TestAlerts(t *testing.T) {
	have, used := names(t), map[string]bool{}
	docs, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	units, err := os.ReadFile("alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, g := range readRules(t).Groups {
		for _, r := range g.Rules {
			n++
			known(t, r.Alert, r.Expr, have, used)
			if r.Annotations["summary"] == "" || r.Annotations["runbook"] == "" || r.Labels["severity"] == "" {
				t.Errorf("%s has no summary, runbook or severity", r.Alert)
			}
			if !bytes.Contains(docs, []byte("`"+r.Alert+"`")) {
				t.Errorf("%s does not speak of %s", operations, r.Alert)
			}
			if !bytes.Contains(units, []byte(`alertname="`+r.Alert+`"`)) {
				t.Errorf("nothing shows that %s fires", r.Alert)
			}
		}
	}
	if n == 0 {
		t.Error("no alerts")
	}
}

// Every metric is documented, and no other is.
func TestMetricsAreDocumented(t *testing.T) {
	docs, err := os.ReadFile(metricsDoc)
	if err != nil {
		t.Fatal(err)
	}
	have, documented := map[string]bool{}, map[string]bool{}
	for name := range names(t) {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(name, "stele_") {
			have[base] = true
		}
	}
	for _, m := range regexp.MustCompile("`(stele_[a-z_]+)`").FindAllSubmatch(docs, -1) {
		documented[string(m[1])] = true
	}
	for name := range have {
		if !documented[name] {
			t.Errorf("%s does not speak of %s", metricsDoc, name)
		}
	}
	for name := range documented {
		if !have[name] {
			t.Errorf("%s speaks of %s, which is not collected", metricsDoc, name)
		}
	}
}

// Prometheus's own tool accepts the rules, and finds that each fires beyond its limit
// and not within. CI names the tool in STELE_PROMTOOL, and it must be there then;
// without it, and without one in the path, the other tests of this file remain.
func TestPromtool(t *testing.T) {
	tool := os.Getenv("STELE_PROMTOOL")
	if tool == "" {
		found, err := exec.LookPath("promtool")
		if err != nil {
			t.Log("no promtool; the rules were not run")
			return
		}
		tool = found
	}
	dashboard := dashboardRules(t)
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}, {"check", "rules", dashboard}} {
		if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		} else if !bytes.Contains(out, []byte("SUCCESS")) {
			t.Errorf("promtool %s says %s", strings.Join(args, " "), out)
		}
	}
}
