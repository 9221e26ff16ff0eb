package prometheus_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// dashboard is what Grafana needs of dashboard.json.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct{ Name, Type, Query string }
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               source
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Options                  map[string]any
	Targets                  []target
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                source
}

type source struct{ Type, UID string }

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	b, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Every panel of the dashboard asks for what is collected, and every metric is on it.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	have, used, ids := names(t), map[string]bool{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			known(t, p.Title, target.Expr, have, used)
		}
	}
	for name := range have {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
		onIt := func(m string) bool { return strings.HasPrefix(m, base) }
		if strings.HasPrefix(name, "stele_") && !anyKey(used, onIt) && !unshown[name] {
			t.Errorf("%s is on no panel", name)
		}
	}
}

// unshown are metrics that are for a closer look.
var unshown = map[string]bool{
	"stele_disk_reserve_bytes": true, "stele_disk_low_bytes": true, "stele_log_rotations_total": true, "stele_lag_records": true, "stele_run_versions_total": true,
	"stele_replica_lag_records": true, "stele_replica_lag_age_seconds": true, "stele_replica_epoch": true, "stele_replica_seeded": true,
	"stele_replica_trouble": true, "stele_replica_mode": true,
	"stele_follower_lsn": true, "stele_follower_behind_seconds": true, "stele_follower_beat_age_seconds": true, "stele_follower_away_seconds": true,
	"stele_patched_values_total": true, "stele_compaction_read_bytes_total": true, "stele_segment_raw_bytes": true,
}

func anyKey(m map[string]bool, ok func(string) bool) bool {
	for k := range m {
		if ok(k) {
			return true
		}
	}
	return false
}

// TestDashboardSchema: Grafana draws every panel: each has its place, a source that
// can be chosen, a unit, and asks with variables that are there.
func TestDashboardSchema(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 36 {
		t.Errorf("title %q, uid %q, schema %d", d.Title, d.UID, d.SchemaVersion)
	}
	vars := map[string]bool{"__rate_interval": true}
	for _, v := range d.Templating.List {
		vars[v.Name] = true
		if v.Type != "query" && v.Type != "datasource" || v.Query == "" {
			t.Errorf("variable %+v", v)
		}
	}
	variable := regexp.MustCompile(`\$\{?(\w+)`)
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.Y < 0 || g.X+g.W > 24 {
			t.Errorf("%q is at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%q lies upon %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if (p.Type != "stat" && p.Type != "timeseries") || p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Options) == 0 {
			t.Errorf("panel %d %q of type %q lacks a title, description, unit or options", p.ID, p.Title, p.Type)
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if refs[q.RefID] || q.RefID == "" || q.LegendFormat == "" {
				t.Errorf("%q: query %+v", p.Title, q)
			}
			refs[q.RefID] = true
			for _, s := range []source{p.Datasource, q.Datasource} {
				if s.Type != "prometheus" || s.UID != "${datasource}" {
					t.Errorf("%q asks %+v", p.Title, s)
				}
			}
			for _, m := range variable.FindAllStringSubmatch(q.Expr+p.Datasource.UID, -1) {
				if !vars[m[1]] {
					t.Errorf("%q uses $%s", p.Title, m[1])
				}
			}
		}
	}
}

// dashboardRules writes the queries of the dashboard as rules, with the variables
// as Grafana fills them in, for promtool to parse.
func dashboardRules(t *testing.T) string {
	t.Helper()
	fill := strings.NewReplacer("$job", ".+", "$instance", ".+", "$__rate_interval", "5m")
	var b strings.Builder
	b.WriteString("groups:\n- name: dashboard\n  rules:\n")
	n := 0
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			n++
			fmt.Fprintf(&b, "  - record: panel:%d:query%d\n    expr: %q\n", p.ID, n, fill.Replace(q.Expr))
		}
	}
	if n == 0 {
		t.Fatal("no queries")
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
