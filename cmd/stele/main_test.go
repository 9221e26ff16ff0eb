package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// stele runs the command and returns what it wrote and its exit code.
func stele(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(context.Background(), args, &out, &err)
	return out.String(), err.String(), code
}

// unstable is what differs from run to run: places, times taken, sizes of the device.
var unstable = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`"(took_ns)": ?\d+`), `"$1": 0`},
	{regexp.MustCompile(`"free_bytes": ?\d+`), `"free_bytes": 0`},
	{regexp.MustCompile(`\([0-9.]+(ns|µs|ms|s)\)`), `(took)`},
	{regexp.MustCompile(`pid \d+ (of \S+ )?on \S+ since`), `pid 1 on host since`},
	{regexp.MustCompile(`\d\d  text `), `40  text `}, // the lock file holds a pid
	{regexp.MustCompile(`"size":\d\d,"kind":"text"`), `"size":40,"kind":"text"`},
	{regexp.MustCompile(`, \S+ \S+ free on the device`), `, some free on the device`},
}

// salvagedID is the id of a store that salvage made, which is random.
var salvagedID = regexp.MustCompile(`("dir": "\S+/new",\s+"backup": false,\s+"manifest": "MANIFEST-000002",\s+"store_id": ")[0-9a-f]{16}`)

func stable(text, dir string) string {
	text = strings.ReplaceAll(text, dir, "DIR")
	for _, u := range unstable {
		text = u.re.ReplaceAllString(text, u.with)
	}
	return text
}

// golden compares text with a file of testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs; run go test ./cmd/stele -update and look at the difference:\n%s", path, text)
	}
}
