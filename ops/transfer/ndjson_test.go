package transfer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// tuples reads a file in memory with lines of at most max bytes.
func tuples(data []byte, max int) (good []*Tuple, rejected []*Rejected, err error) {
	src := &NDJSON{func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, max}
	for tup, err := range src.Tuples(context.Background(), Selection{}) {
		var r *Rejected
		switch {
		case errors.As(err, &r):
			rejected = append(rejected, r)
		case err != nil:
			return good, rejected, err
		default:
			good = append(good, tup)
		}
	}
	return good, rejected, nil
}

// example is the file that docs/format/ndjson.md shows.
func example(t testing.TB) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/format/ndjson.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```json\n(\\{\"kind\":\"stele\".*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("the page shows no file")
	}
	return string(m[1])
}

// The file that the page of the format shows is what a store with these checkpoints gives, and
// gives these checkpoints.
func TestPageShowsAFile(t *testing.T) {
	shown := example(t)
	s := memory.New(memory.Options{})
	src := FromNDJSON(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(shown)), nil })
	rep, err := Copy(t.Context(), src, s, Options{})
	if err != nil || rep.Verified != 2 || rep.Writes != 1 {
		t.Fatalf("%+v, %v", rep, err)
	}
	tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := tup.Checkpoint.Values["topic"].Any(); err != nil || v != "tea" {
		t.Errorf("a shared value: %v, %v", v, err)
	}
	var again bytes.Buffer
	if _, err := Write(t.Context(), FromSaver(s), &again, Options{}); err != nil || again.String() != shown {
		t.Errorf("%v: it is written as\n%s", err, &again)
	}
}

// A file that is cut anywhere is ErrTruncated or ErrFormat, or a line of it is rejected.
func TestCutFile(t *testing.T) {
	whole := []byte(example(t))
	for n := range len(whole) - 1 {
		_, rejected, err := tuples(whole[:n], MaxLine)
		if err == nil || !errors.Is(err, ErrTruncated) && !errors.Is(err, ErrFormat) {
			t.Errorf("cut at %d: %v, %d lines rejected", n, err, len(rejected))
		}
	}
	lines := bytes.SplitAfter(whole, []byte("\n"))
	if _, _, err := tuples(bytes.Join(append(lines[:1:1], lines[2:]...), nil), MaxLine); !errors.Is(err, ErrTruncated) {
		t.Errorf("without a line: %v", err)
	}
	if _, _, err := tuples(append(whole, "{}\n"...), MaxLine); !errors.Is(err, ErrFormat) {
		t.Errorf("with a line behind the last: %v", err)
	}
	if _, _, err := tuples([]byte(`{"kind":"stele","format":2}`+"\n"), MaxLine); !errors.Is(err, ErrFormat) {
		t.Errorf("of a newer format: %v", err)
	}
}

// Lines that are wrong are rejected, one by one, with their bytes.
func TestWrongLines(t *testing.T) {
	for _, line := range []string{
		``, `{`, `{}`, `null`, `{"kind":"checkpoint"}`, `{"kind":"unknown","thread":"t","id":"1"}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{}} x`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"new":1}`,
		`{"kind":"checkpoint","thread":"t","id":"1"}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":[]}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{"n":99999999999999999999}}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"metadata_value":{"type":"msgpack","data":"gA=="}}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata_value":{"type":"msgpack","data":"/w=="}}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"channels":[{"name":"a","version":1},{"name":"a","version":1}]}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"channels":[{"name":"a","version":true}]}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"ttl_us":-2}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"ttl_us":9223372036854776}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"channels":[{"name":"a","version":1,"same":true,"value":{"type":"null","data":""}}]}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"channels":[{"name":"a","version":1,"value":{"data":""}}]}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"channels":[{"name":"a","version":1,"value":{"type":"x","data":"!"}}]}`,
		`{"kind":"checkpoint","thread":{"base64":"!"},"id":"1","metadata":{}}`,
		`{"kind":"checkpoint","thread":{},"id":"1","metadata":{}}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"seen":[{"node":"n"},{"node":"n"}]}`,
		`{"kind":"checkpoint","thread":"t","id":"1","metadata":{},"ts":"` + strings.Repeat("x", 2000) + `"}`,
	} {
		data := `{"kind":"stele","format":1}` + "\n" + line + "\n" + `{"kind":"checkpoint","thread":"t","id":"2","metadata":{}}` + "\n" + `{"kind":"end","checkpoints":2}`
		good, rejected, err := tuples([]byte(data), 1000)
		if err != nil || len(good) != 1 || len(rejected) != 1 || rejected[0].Name != "2" || !errors.Is(rejected[0], ErrLine) || !strings.HasPrefix(line, string(rejected[0].Raw)) {
			t.Errorf("%s: %d tuples, rejected %v, %v", line, len(good), rejected, err)
		}
	}
	if err := checkParts(bytes.Repeat([]byte(`["\",",`), maxParts)); err == nil {
		t.Error("a line of too many parts is not refused")
	}
	if err := checkParts(bytes.Repeat([]byte(`",\\",`), maxParts)); err != nil {
		t.Error("what is in strings counts:", err)
	}
}

// Values of a checkpoint that was not read are not those of its children.
func TestLostParent(t *testing.T) {
	lines := strings.SplitAfter(example(t), "\n")
	lines[1] = "damaged\n"
	var rejected []*Rejected
	src := FromNDJSON(func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(strings.Join(lines, ""))), nil })
	rep, err := Copy(t.Context(), src, memory.New(memory.Options{}), Options{Reject: func(r *Rejected) error { rejected = append(rejected, r); return nil }})
	if err != nil || rep.Checkpoints != 0 || len(rejected) != 2 || !errors.Is(rejected[1], errNoBase) || rejected[1].Tuple == nil {
		t.Errorf("%+v, %v, %v", rep, rejected, err)
	}
}

// FuzzNDJSON: no input makes the reader panic or read lines that are too long. What it reads,
// it writes so that it reads the same.
func FuzzNDJSON(f *testing.F) {
	f.Add([]byte(example(f)))
	f.Add([]byte(`{"kind":"stele","format":1}` + "\n" + `{"kind":"checkpoint","thread":{"base64":"/w=="},"id":"1","metadata_value":{"type":"msgpack","data":"gA=="},"channels":[{"name":"","version":1.5}],"note":{"graph":"g","next":null,"stop":"","deltas":[]}}` + "\n"))
	f.Add([]byte(`{"kind":"stele","format":1}` + "\n" + `{"kind":"item","namespace":["a"],"key":"k","value":{"n":1.5},"created":"2026-01-02T03:04:05Z","updated":"2026-01-02T03:04:05Z","expires":"2099-01-01T00:00:00Z","ttl_us":90}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for it, err := range (&NDJSON{func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }, 4096}).Items(t.Context(), nil) {
			if err != nil {
				break
			}
			l, err := newItemLine(it)
			if err != nil {
				t.Fatal(err)
			}
			line, err := plainJSON(l)
			if err != nil {
				continue // a time beyond the year 9999 in its own zone
			}
			again, err := decodeLine(line)
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			l2, err := newItemLine(again.item)
			if err != nil {
				t.Fatal(err)
			}
			if second, err := plainJSON(l2); err != nil || !bytes.Equal(line, second) {
				t.Fatalf("%v\n%s\n%s", err, line, second)
			}
		}
		good, rejected, _ := tuples(data, 4096)
		for _, r := range rejected {
			if len(r.Raw) > 4096 {
				t.Fatalf("a line of %d bytes", len(r.Raw))
			}
		}
		for _, tup := range good {
			l, err := newCheckpointLine(tup)
			if err != nil {
				t.Fatal(err)
			}
			line, err := plainJSON(l)
			if err != nil {
				t.Fatal(err)
			}
			again, err := decodeLine(line)
			if err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			l2, err := newCheckpointLine(again.tuple)
			if err != nil {
				t.Fatal(err)
			}
			if second, err := plainJSON(l2); err != nil || !bytes.Equal(line, second) {
				t.Fatalf("%v\n%s\n%s", err, line, second)
			}
		}
	})
}
