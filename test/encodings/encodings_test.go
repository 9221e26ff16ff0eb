//go:build unix

package encodings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/wire/client"
	"github.com/stele-go/stele/wire/server"
)

// notStored are the fields of a tuple that are no part of what is stored.
var notStored = map[string]string{
	"Config.ExpectHead":    "a condition of one call",
	"Config.Epoch":         "of the caller's lease",
	"Config.Metadata":      "becomes part of Metadata",
	"Config.Configurable":  "becomes part of Metadata",
	"Checkpoint.Immutable": "a promise of one call",
}

// elsewhere are the encodings in other languages, or of others' files, with where their fields
// are compared.
var elsewhere = map[string]string{
	"Python":     "wire/python/tests/test_handover.py",
	"JavaScript": "wire/js/test/suite/python.test.ts",
	"SQLite":     "ops/transfer/sqlite/source_test.go",
}

// sample has a value in every field that is stored.
func sample() (saver.PutRequest, []saver.Write) {
	version := saver.StringVersion
	return saver.PutRequest{
		Config: saver.Config{ThreadID: "thread-1", Namespace: "inner:task-9", CheckpointID: "checkpoint-1"},
		Checkpoint: saver.Checkpoint{
			V: 4, ID: "checkpoint-2", TS: "2026-11-27T12:00:00+00:00",
			Values:   map[string]saver.Value{"messages": saver.ValueOf([]any{"message-1"})},
			Versions: map[string]saver.Version{"messages": version("00000000000000000000000000000002.5")},
			Seen:     map[string]map[string]saver.Version{"node-1": {"messages": version("00000000000000000000000000000001.5")}},
			Updated:  []string{"messages"},
		},
		Metadata:    saver.Metadata{"source": "loop", "step": 7, "tenant": "tenant-1"},
		NewVersions: map[string]saver.Version{"messages": version("00000000000000000000000000000002.5")},
		Note:        &saver.Note{Graph: "graph-1", Next: []string{"node-2"}, Stop: saver.StopBreakpoint, Deltas: []string{"deltas-1"}, Version: "version-1"},
	}, []saver.Write{{Channel: "first", Value: saver.ValueOf("write-1")}, {Channel: "second", Value: saver.ValueOf("write-2")}}
}

// store puts the sample, and returns what comes back.
func store(t *testing.T, s saver.Saver) *saver.Tuple {
	t.Helper()
	req, writes := sample()
	first := req
	first.Config.CheckpointID, first.Checkpoint, first.Note = "", saver.Checkpoint{V: 4, ID: "checkpoint-1", TS: req.Checkpoint.TS}, nil
	first.NewVersions = nil
	if _, err := s.PutRequest(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	at, err := s.PutRequest(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutWrites(t.Context(), at, writes, "task-1", "path-1"); err != nil {
		t.Fatal(err)
	}
	return load(t, s)
}

func load(t *testing.T, s saver.Saver) *saver.Tuple {
	t.Helper()
	tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "thread-1", Namespace: "inner:task-9", CheckpointID: "checkpoint-2"})
	if err != nil {
		t.Fatal(err)
	}
	return tup
}

// plain is a value as JSON has it, with the fields of structs by their names: what two tuples
// are compared by. Fields that are not stored are left out.
func plain(t *testing.T, v reflect.Value, path string) any {
	t.Helper()
	switch x := v.Interface().(type) {
	case saver.Value:
		decoded, err := x.Any()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(decoded)
	case saver.Version:
		return fmt.Sprintf("%#v", x)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(t, v.Elem(), path)
	case reflect.Struct:
		out := map[string]any{}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := strings.TrimPrefix(path+"."+f.Name, ".")
			if strings.HasPrefix(name, "Parent.") {
				name = "Config." + f.Name
			}
			if notStored[name] == "" {
				out[f.Name] = plain(t, v.Field(i), name)
			}
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[k.String()] = plain(t, v.MapIndex(k), path)
		}
		return out
	case reflect.Slice:
		out := []any{}
		for i := range v.Len() {
			out = append(out, plain(t, v.Index(i), path))
		}
		return out
	}
	return fmt.Sprint(v.Interface())
}

// empty names the fields of a plain tuple that have no value.
func empty(v any, path string) (names []string) {
	switch x := v.(type) {
	case map[string]any:
		if len(x) == 0 {
			names = append(names, path)
		}
		for _, k := range slices.Sorted(maps.Keys(x)) {
			names = append(names, empty(x[k], path+"."+k)...)
		}
	case []any:
		if len(x) == 0 {
			return []string{path}
		}
		return empty(x[len(x)-1], path)
	case nil:
		return []string{path}
	case string:
		if x == "" || x == "0" || x == "false" {
			return []string{path}
		}
	}
	return names
}

// encodings store the sample in one encoding each, and read it back.
var encodings = map[string]func(t *testing.T) *saver.Tuple{
	"engine": func(t *testing.T) *saver.Tuple {
		dir := filepath.Join(t.TempDir(), "store")
		s := open(t, dir)
		store(t, s)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return load(t, open(t, dir))
	},
	"PostgreSQL": func(t *testing.T) *saver.Tuple {
		cluster, err := pgtest.New()
		if err != nil {
			pgtest.Need(t, err)
		}
		t.Cleanup(cluster.Close)
		url := cluster.Database(t)
		if err := postgres.Setup(t.Context(), url, postgres.Options{}); err != nil {
			t.Fatal(err)
		}
		s, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return store(t, s)
	},
	"wire": func(t *testing.T) *saver.Tuple {
		dir := t.TempDir()
		at, err := server.ListenDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		s, ended := server.New(server.Options{Saver: memory.New(memory.Options{}), Store: "memory"}), make(chan error, 1)
		go func() { ended <- s.Serve(t.Context(), at.Listener) }()
		c := client.Dir(dir, client.Options{})
		tup := store(t, c)
		for _, v := range tup.Checkpoint.Values { // before the client is closed
			if _, err := v.Any(); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			at.Close()
			<-ended
		})
		return tup
	},
	"NDJSON": func(t *testing.T) *saver.Tuple {
		from, to := memory.New(memory.Options{}), memory.New(memory.Options{})
		store(t, from)
		var file bytes.Buffer
		if _, err := transfer.Write(t.Context(), transfer.FromSaver(from), &file, transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		source := transfer.FromNDJSON(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Bytes())), nil })
		if _, err := transfer.Copy(t.Context(), source, to, transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		return load(t, to)
	},
}

func open(t *testing.T, dir string) *disk.Saver {
	t.Helper()
	s, err := disk.Open(dir, disk.Options{Serializer: serde.Default()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// want is the sample as a tuple, from a saver that encodes nothing.
func want(t *testing.T) map[string]any {
	t.Helper()
	tup := store(t, memory.New(memory.Options{}))
	return plain(t, reflect.ValueOf(*tup), "").(map[string]any)
}

// TestSampleIsWhole: every field of a tuple has a value in the sample, or is named as one that
// is not stored. A field that is added fails here until the sample has it.
func TestSampleIsWhole(t *testing.T) {
	for _, name := range empty(want(t), "") {
		t.Errorf("the sample has no %s", name)
	}
	if got := empty(map[string]any{"A": "", "B": map[string]any{"C": []any{}}, "D": "x"}, ""); !slices.Equal(got, []string{".A", ".B.C"}) {
		t.Errorf("what is empty is %q", got)
	}
}

// TestEncodingsDropNothing: what is stored comes back, in each encoding.
func TestEncodingsDropNothing(t *testing.T) {
	want := want(t)
	for name, roundTrip := range encodings {
		t.Run(name, func(t *testing.T) {
			got := plain(t, reflect.ValueOf(*roundTrip(t)), "")
			if !reflect.DeepEqual(got, want) {
				a, _ := json.MarshalIndent(want, "", " ")
				b, _ := json.MarshalIndent(got, "", " ")
				t.Errorf("stored\n%s\nand back came\n%s", a, b)
			}
		})
	}
}

// TestDumpNamesEverything: the listing of a log names each part of what is stored, and where its
// bytes lie. What is in them it leaves to who reads the checkpoint.
func TestDumpNamesEverything(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	store(t, open(t, dir))
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	var listing strings.Builder
	for e, err := range admin.Dump(t.Context(), logs[0], admin.Access{}) {
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		listing.Write(text)
	}
	for _, text := range []string{
		"thread-1", "inner:task-9", "checkpoint-1", "checkpoint-2", "messages", "00000000000000000000000000000002.5", "task-1", "path-1", "first", "second",
	} {
		if !strings.Contains(listing.String(), text) {
			t.Errorf("the listing lacks %q", text)
		}
	}
	if t.Failed() {
		t.Log(listing.String())
	}
}

// TestPageListsEncodings: docs/format/README.md has a row for each encoding, and for no other.
func TestPageListsEncodings(t *testing.T) {
	const root = "../../"
	text, err := os.ReadFile(root + "docs/format/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Encodings of a checkpoint\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^\| \*\*([^*]+)\*\* `).FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	have := append(slices.Collect(maps.Keys(encodings)), "dump")
	for name, path := range elsewhere {
		have = append(have, name)
		if _, err := os.Stat(root + path); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(listed)
	slices.Sort(have)
	if !slices.Equal(listed, have) {
		t.Errorf("the page lists %q, and there are %q", listed, have)
	}
}

// TestComparisonSeesEverything: a copy finds each field of a checkpoint and a note that differs in the target.
func TestComparisonSeesEverything(t *testing.T) {
	full, _ := sample()
	changes := map[string]func(*saver.PutRequest){
		"Metadata":    func(r *saver.PutRequest) { r.Metadata = saver.Metadata{"source": "loop", "step": 7, "tenant": "other"} },
		"NewVersions": func(r *saver.PutRequest) { r.NewVersions, r.Checkpoint.Values = nil, nil },
		"Checkpoint.Versions": func(r *saver.PutRequest) {
			r.NewVersions = map[string]saver.Version{"messages": saver.StringVersion("00000000000000000000000000000003.5")}
			r.Checkpoint.Versions = r.NewVersions
		},
	}
	// Each field without its value.
	for i := range reflect.TypeFor[saver.Checkpoint]().NumField() {
		name := reflect.TypeFor[saver.Checkpoint]().Field(i).Name
		if notStored["Checkpoint."+name] == "" && !slices.Contains([]string{"ID", "V", "Values", "Versions"}, name) { // the identity; what is written; the others above
			changes["Checkpoint."+name] = func(r *saver.PutRequest) { reflect.ValueOf(&r.Checkpoint).Elem().Field(i).SetZero() }
		}
	}
	for i := range reflect.TypeFor[saver.Note]().NumField() {
		changes["Note."+reflect.TypeFor[saver.Note]().Field(i).Name] = func(r *saver.PutRequest) {
			r.Note = r.Note.Clone()
			reflect.ValueOf(r.Note).Elem().Field(i).SetZero()
		}
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			from, to := memory.New(memory.Options{}), memory.New(memory.Options{})
			for s, req := range map[saver.Saver]saver.PutRequest{from: full, to: full} {
				req.Config.CheckpointID = ""
				if s == saver.Saver(to) {
					change(&req)
				}
				if _, err := s.PutRequest(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := transfer.Copy(t.Context(), transfer.FromSaver(from), to, transfer.Options{}); !errors.Is(err, transfer.ErrDiffers) {
				t.Errorf("the copy ends with %v", err)
			}
		})
	}
}
