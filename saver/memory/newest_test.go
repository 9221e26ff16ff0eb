package memory_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

// The newest checkpoint is the greatest id, in whatever order they come and go.
func TestNewest(t *testing.T) {
	s := memory.New(memory.Options{})
	newest := func(thread, want string) {
		t.Helper()
		tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: thread})
		switch {
		case want == "" && errors.Is(err, saver.ErrNotFound):
		case err != nil || tup.Checkpoint.ID != want:
			t.Fatalf("newest of %s is %v, %v; want %q", thread, tup, err, want)
		}
	}
	newest("t", "")
	for i, id := range []string{"c2", "c5", "c1", "c4"} {
		md := saver.Metadata{"run_id": fmt.Sprint("run of ", id)}
		if _, err := s.Put(t.Context(), saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: id}, md, nil); err != nil {
			t.Fatal(err)
		}
		newest("t", []string{"c2", "c5", "c5", "c5"}[i])
	}
	if err := s.CopyThread(t.Context(), "t", "copy"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ gone, left string }{{"c1", "c5"}, {"c5", "c4"}, {"c4", "c2"}} {
		if _, err := s.DeleteForRuns(t.Context(), []string{"run of " + c.gone}, nil); err != nil {
			t.Fatal(err)
		}
		newest("t", c.left)
		newest("copy", c.left)
	}
	mustPut(t, s, "c3", "c2")
	newest("t", "c3")
	newest("copy", "c2")
	if _, err := s.Prune(t.Context(), []string{"t"}, saver.KeepLatest); err != nil {
		t.Fatal(err)
	}
	newest("t", "c3")
	if _, err := s.DeleteForRuns(t.Context(), []string{"run of c2"}, nil); err != nil {
		t.Fatal(err)
	}
	newest("copy", "")
}

// What a caller does with what he read changes nothing in the store.
func TestReadersOwnWhatTheyGet(t *testing.T) {
	s := memory.New(memory.Options{})
	cp := saver.Checkpoint{V: 4, ID: "c1", Values: map[string]saver.Value{"bytes": saver.ValueOf([]byte("good")), "list": saver.ValueOf([]string{"good"})}}
	versions := map[string]saver.Version{"bytes": saver.IntVersion(1), "list": saver.IntVersion(1)}
	cp.Versions = versions
	if _, err := s.Put(t.Context(), saver.Config{ThreadID: "t"}, cp, nil, versions); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time shows what the first left
		tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t"})
		if err != nil {
			t.Fatal(err)
		}
		v := tup.Checkpoint.Values["bytes"]
		loaded, err := v.Load()
		if err != nil {
			t.Fatal(err)
		}
		var into []byte
		if err := loaded.Decode(&into); err != nil || string(into) != "good" {
			t.Fatalf("%q, %v", into, err)
		}
		read, err := v.Any()
		if err != nil || string(read.([]byte)) != "good" {
			t.Fatalf("%q, %v", read, err)
		}
		typed, err := loaded.Typed()
		if err != nil || !bytes.Equal(typed.Data, []byte("good")) || typed.Kind != serde.KindBytes {
			t.Fatalf("%v, %v", typed, err)
		}
		var list []string
		if err := tup.Checkpoint.Values["list"].Decode(&list); err != nil || list[0] != "good" {
			t.Fatalf("%v, %v", list, err)
		}
		copy(into, "evil")
		copy(read.([]byte), "evil")
		copy(typed.Data, "evil")
		list[0] = "evil"
	}
}
