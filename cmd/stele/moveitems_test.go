package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// firstLetter is an embedder that needs no model.
func firstLetter(_ context.Context, texts []string) ([][]float32, error) {
	out := make([][]float32, len(texts))
	for i, text := range texts {
		out[i] = []float32{float32(text[0]), 1}
	}
	return out, nil
}

var byLetter = store.Options{Index: &store.Index{Dims: 2, Embed: firstLetter, Fields: []string{"text"}}}

// serveUsers makes threads for ada and for one called users by a server on a saver, and puts items where an
// earlier version kept them, beside a program's.
func serveUsers(t *testing.T, s saver.Saver, items store.Store, queue runs.Queue) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{}, Saver: s, Store: items, Queue: queue,
		Auth: server.APIKeys(map[string]*server.User{"ada": {Identity: "ada@x.org"}, "users": {Identity: "users"}})})
	must(err)
	for _, key := range []string{"ada", "users"} {
		r := httptest.NewRequest("POST", "/threads", strings.NewReader("{}"))
		r.Header.Set("X-Api-Key", key)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		if api.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatal(w.Body)
		}
	}
	must(api.Close())
	ctx := context.Background()
	for i, ns := range []store.Namespace{{"ada@x%2Eorg", "facts"}, {"ada@x%2Eorg", "facts", "old"}, {"users", "ada", "facts"}, {"prices"}, {"gone", "facts"}} {
		must(items.Put(ctx, ns, fmt.Sprint("k", i), map[string]any{"text": fmt.Sprint("abcde"[i:])}, store.TTL(time.Hour)))
	}
	must(items.Put(ctx, append(server.ItemsOf("ada@x.org"), "facts", "old"), "k1", map[string]any{"text": "new"}))
}

// moveItemsScript pins what move-items says, and checks what it leaves.
func moveItemsScript(t *testing.T, place []string, open func() (items store.Store, end func())) string {
	t.Helper()
	said := ""
	run := func(want int, args ...string) {
		t.Helper()
		args = append(append([]string{"move-items"}, place...), args...)
		out, stderr, code := stele(t, args...)
		if code != want {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
		said += fmt.Sprintf("$ stele %s\n%s%sexit code %d\n", strings.Join(args, " "), out, stderr, code)
	}
	for _, form := range []string{"--json=false", "--json"} {
		run(1, form)
		run(1, form, "--except", "users")
		run(0, form, "--identity", "users")
		run(2, form, "--identity", "__stele_server__")
	}
	run(2, "--yes")
	run(0, "--yes", "--except", "users")
	run(1, "--identity", "ada@x.org", "--except", "users", "--yes")
	run(1, "--yes", "--identity", "ada@x.org", "--except", "users")
	items, end := open()
	if err := items.Delete(t.Context(), append(server.ItemsOf("ada@x.org"), "facts", "old"), "k1"); err != nil {
		t.Fatal(err)
	}
	end()
	run(0, "--yes", "--identity", "ada@x.org", "--except", "users", "--json")
	items, end = open()
	defer end()
	found, err := items.Search(t.Context(), store.Query{Prefix: server.ItemsOf("ada@x.org"), Text: "b"})
	if err != nil || len(found) != 2 || found[0].Key != "k1" || !found[0].Scored || !found[1].Scored || found[0].TTL != time.Hour {
		t.Errorf("found %+v, %v", found, err)
	}
	for _, ns := range []store.Namespace{{"users", "ada", "facts"}, {"prices"}} {
		if found, err := items.Search(t.Context(), store.Query{Prefix: ns}); err != nil || len(found) != 1 {
			t.Errorf("a program's at %v: %v, %v", ns, found, err)
		}
	}
	if found, err := items.Search(t.Context(), store.Query{Prefix: store.Namespace{"ada@x%2Eorg"}}); err != nil || len(found) != 0 {
		t.Errorf("left: %v, %v", found, err)
	}
	return said
}

// TestMoveItems pins what move-items says, and that items keep what they are found by.
func TestMoveItems(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	open := func() (*disk.Saver, *store.Local, func()) {
		d, err := disk.Open(dir, disk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		items, err := store.On(d, byLetter)
		if err != nil {
			t.Fatal(err)
		}
		return d, items, func() {
			if err := items.Close(); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	d, items, end := open()
	queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	serveUsers(t, d, items, queue)
	out, stderr, code := stele(t, "move-items", dir, "--identity", "ada@x.org", "--yes")
	if code != exitLocked {
		t.Errorf("beside a writer: %s%s, exit code %d", out, stderr, code)
	}
	if out, stderr, code := stele(t, "move-items", dir); code != exitFound || !strings.Contains(out, "nothing was moved") {
		t.Errorf("beside a writer: %s%s, exit code %d", out, stderr, code)
	}
	end()
	said := moveItemsScript(t, []string{dir}, func() (store.Store, func()) {
		_, items, end := open()
		return items, end
	})
	for _, args := range [][]string{{}, {dir, "--postgres", "x"}, {filepath.Join(dir, "missing")}} {
		if _, stderr, code := stele(t, append([]string{"move-items"}, args...)...); code != exitFailed {
			t.Errorf("%q: %s, exit code %d", args, stderr, code)
		}
	}
	golden(t, "move-items", stable(said, filepath.Dir(dir)))
}

// TestTellMoved: what a move that failed half-way has moved is printed, and the error is not lost.
func TestTellMoved(t *testing.T) {
	for _, isJSON := range []bool{false, true} {
		var out bytes.Buffer
		a := &app{out: &out, flags: flags{json: isJSON}}
		cut := errors.New("cut off")
		rep := &server.MoveReport{Users: []server.MovedItems{{Identity: "ada", Items: 7}}}
		if err := a.tellMoved(rep, "", cut); !errors.Is(err, cut) || !strings.Contains(out.String(), "7") || !strings.Contains(out.String(), "ada") {
			t.Errorf("JSON %v: %v, %s", isJSON, err, &out)
		}
	}
}

// TestShellWord: a shell reads each word as it is, and a terminal obeys none.
func TestShellWord(t *testing.T) {
	words := []string{"ada@x.org", "o'hara", "$(id)", "a b", "", "-x", "über", "e\x1b[2J", "r\u202el'\\", "\xff", "a\nb"}
	line := "printf '%s\\0'"
	for _, w := range words {
		q := shellWord(w)
		if strings.ContainsAny(q, "\x1b\n\u202e") {
			t.Errorf("%q", q)
		}
		line += " " + q
	}
	out, err := exec.Command("bash", "-c", line).Output()
	if want := strings.Join(words, "\x00") + "\x00"; err != nil || string(out) != want {
		t.Errorf("%s: %q, %v", line, out, err)
	}
}
