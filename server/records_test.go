package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stele-go/stele/store"
)

// TestOlderRecords: a server reads the records of before 0.1.0, whose fields were those of the
// item, and not one text.
func TestOlderRecords(t *testing.T) {
	h := newHouse(t)
	id := h.ok("POST", "/threads", object{"metadata": object{"user": "ann", "n": int64(1 << 60)}}).text1("thread_id")
	before := h.ok("GET", "/threads/"+id, nil).text
	ns := store.Namespace{"__stele_server__", "threads"}
	item := must(h.items.Get(t.Context(), ns, id))
	var fields object
	if err := json.Unmarshal([]byte(item.Value["json"].(string)), &fields); err != nil {
		t.Fatal(err)
	}
	fields["metadata"].(object)["n"] = int64(1 << 60) // as items have it
	if _, err := h.items.Batch(t.Context(), store.PutOp{Namespace: ns, Key: id, Value: fields}); err != nil {
		t.Fatal(err)
	}
	if after := h.ok("GET", "/threads/"+id, nil).text; string(after) != string(before) {
		t.Errorf("it was %s and is %s", before, after)
	}
}

// TestRecordsAreNotShared: what a program changes in the metadata of a run stays with the run.
func TestRecordsAreNotShared(t *testing.T) {
	h := newHouse(t)
	id := h.ok("POST", "/threads", object{"metadata": object{"deep": object{"a": "b"}}}).text1("thread_id")
	for range 3 {
		run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "after_seconds": 3600}).text1("run_id")
		must(h.queue.Get(t.Context(), run)).Metadata["deep"].(object)["a"] = "changed"
		if deep := h.ok("GET", "/threads/"+id, nil).object()["metadata"].(object)["deep"].(object); deep["a"] != "b" {
			t.Fatal(deep)
		}
	}
}
