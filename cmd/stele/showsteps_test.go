package main

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// TestShowSteps: show tells the steps of a workflow, its children with how far they are, what it exposes; and of a child
// its parent.
func TestShowSteps(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := disk.Open(dir, disk.Options{})
	must(err)
	items, err := store.On(d, store.Options{})
	must(err)
	queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	must(err)
	o := pregel.EntrypointOptions{Options: pregel.Options{Saver: d, Store: items}}
	nap, err := pregel.Entrypoint("nap", func(ctx context.Context, _ string) (string, error) {
		return "", pregel.SleepUntil(ctx, time.Date(2200, 1, 2, 3, 4, 5, 0, time.UTC))
	}, o)
	must(err)
	send := pregel.NewTask("send", func(_ context.Context, to string) (string, error) { return "to " + to, nil })
	naps := pregel.NewChild[string, string]("nap")
	order, err := pregel.Entrypoint("order", func(ctx context.Context, who string) (string, error) {
		if _, err := send.Call(ctx, who); err != nil {
			return "", err
		}
		if err := pregel.Expose(ctx, "days left", 3); err != nil {
			return "", err
		}
		return naps.Call(ctx, who)
	}, o)
	must(err)
	r, err := queue.Submit(t.Context(), runs.Request{Input: "ada", Spec: runs.Spec{ThreadID: "order 7", Graph: "order"}})
	must(err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := runs.Worker{Queue: queue, Saver: d, Graphs: map[string]*pregel.Graph{"nap": nap, "order": order}}
	go func() { ended <- w.Run(ctx) }()
	var child string
	for asleep := 0; asleep < 2; time.Sleep(time.Millisecond) {
		asleep = 0
		for x, err := range queue.List(t.Context(), runs.Query{}) {
			must(err)
			if x.Asleep() {
				asleep++
			}
			if x.Status.Ended() {
				t.Fatalf("run %s of thread %s has ended: %s %s", x.ID, x.ThreadID, x.Status, x.Error)
			}
			if x.ID != r.ID {
				child = x.ThreadID
			}
		}
	}
	stop()
	<-ended
	must(items.Close())
	must(d.Close())

	out, _, code := stele(t, "show", dir, "order 7")
	times := regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}|\d[\d.]*(ns|µs|ms|s)\b`)
	_, list, _ := strings.Cut(out, "\nsteps\n")
	list, _, _ = strings.Cut(list, "\n\n")
	got := regexp.MustCompile(` +`).ReplaceAllString(times.ReplaceAllString(strings.ReplaceAll(list, child, "CHILD"), "T"), " ")
	want := " step state began took result\n" +
		" call send done T T \"to ada\"\n" +
		" exposed days left done T - 3\n" +
		" child nap waiting T - thread CHILD, sleeping"
	if code != 0 || got != want || strings.Contains(out, "child of") {
		t.Errorf("exit code %d, steps\n%s\nwant\n%s\nof\n%s", code, got, want, out)
	}
	out, _, code = stele(t, "show", dir, child)
	if code != 0 || !strings.Contains(out, "\nchild of    thread order 7\n") || !strings.Contains(out, "waiting until 2200-01-02 03:04:05.000000") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	out, _, code = stele(t, "show", dir, "order 7", "--json")
	var told struct {
		Thread string
		Steps  []struct {
			Kind, Name, State, Status string
			ThreadID                  string `json:"thread_id"`
			Result                    any
		}
	}
	must(json.Unmarshal([]byte(out), &told))
	if last := told.Steps[len(told.Steps)-1]; code != 0 || told.Thread != "order 7" || len(told.Steps) != 3 || last.ThreadID != child || last.Status != "sleeping" || told.Steps[0].Result != "to ada" {
		t.Errorf("exit code %d, %+v", code, told)
	}
}
