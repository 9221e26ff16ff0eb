//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgstore"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// TestSignalCommand: a run that sleeps for a signal goes on with the one that the command sends, and one that is sent
// again counts once.
func TestSignalCommand(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sums := pregel.NewSignal[map[string]int64]("paid")
	work := func(in *stores, key string, until func(runs.Run) bool) runs.Run {
		body := func(ctx context.Context, who string) (string, error) {
			first, err := sums.Receive(ctx)
			if err != nil {
				return "", err
			}
			second, err := sums.Receive(ctx)
			return fmt.Sprint(who, " paid ", first["sum"], " and ", second["sum"]), err
		}
		g, err := pregel.Entrypoint("order", body, pregel.EntrypointOptions{Options: pregel.Options{Saver: in.saver, Store: in.items, Version: "seven"}})
		must(err)
		r, err := in.queue.Submit(t.Context(), runs.Request{Key: key, Input: "ada", Spec: runs.Spec{ThreadID: "order 7", Graph: "order"}})
		must(err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		w := runs.Worker{Queue: in.queue, Saver: in.saver, Graphs: map[string]*pregel.Graph{"order": g}}
		go func() { ended <- w.Run(ctx) }()
		for !until(r) {
			time.Sleep(time.Millisecond)
			r, err = in.queue.Get(t.Context(), r.ID)
			must(err)
		}
		if stop(); r.Status == runs.Success {
			state, err := g.GetState(t.Context(), pregel.Thread("order 7"))
			must(err)
			if got := fmt.Sprint(state.Values); !strings.Contains(got, "ada paid 9007199254740993 and 2") {
				t.Errorf("the state is %s", got)
			}
		}
		must(<-ended)
		return r
	}
	script := func(t *testing.T, open func() *stores, place ...string) {
		send := func(want int, words string, args ...string) {
			t.Helper()
			out, stderr, code := stele(t, append(append([]string{"signal"}, place...), args...)...)
			if code != want || !strings.Contains(out+stderr, words) {
				t.Errorf("%q: exit code %d, %s%s, want %d and %q", args, code, out, stderr, want, words)
			}
		}
		in := open()
		work(in, "one", runs.Run.Asleep)
		must(in.end())
		look := func(want int, words, command string, args ...string) {
			t.Helper()
			out, stderr, code := stele(t, append(append([]string{command}, place...), args...)...)
			if code != want || !regexp.MustCompile(words).MatchString(out+stderr) {
				t.Errorf("%s %q: exit code %d, %s%s, want %d and %q", command, args, code, out, stderr, want, words)
			}
		}
		where := `--postgres "\$URL"`
		if place[0] != "--postgres" {
			where = regexp.QuoteMeta(place[0])
			look(exitDone, "0 of them waiting, 1 sleeping", "stats")
		} else {
			look(exitFailed, "of a store in a directory", "threads", "--all")
			look(exitFailed, `name the directory of a store, or a database by --postgres; usage: stele threads \[DIR\]`, "threads", "store")
		}
		look(exitDone, "order 7 .* sleeping .* seven ", "threads")
		look(exitDone, `"version":"seven"`, "threads", "--json", "--status", "sleeping")
		look(exitDone, "no threads", "threads", "--status", "waiting")
		look(exitDone, "no threads", "threads", "--after", "order 7")
		look(exitDone, "order 7", "threads", "--after", "order", "--limit", "1")
		look(exitDone, "version     seven\nstatus      sleeping", "show", "order 7")
		look(exitDone, "signal paid +waiting", "show", "order 7")
		look(exitFailed, `no thread "order 8"; see stele threads `+where, "show", "order 8")
		look(exitFailed, "see stele show "+where+" 'order 7' --history 0", "show", "order 7", "--checkpoint", "none")
		look(exitDone, "input", "show", "order 7", "--history", "0")
		send(exitFailed, "thread \"order 8\"", "order 8", "paid")
		send(exitDone, "waits for paid; other is kept", "order 7", "other")
		look(exitDone, `signals that nobody has taken\n(.*\n)? +other +20`, "show", "order 7")
		look(exitDone, `"signals": *\[\s*{\s*"id": *"[^"]*",\s*"name": *"other",\s*"keyed": *false`, "show", "order 7", "--json")
		send(exitFailed, "it is no JSON", "order 7", "paid", "--value", "much")
		send(exitFailed, "has no name", "order 7", "")
		send(exitDone, "sent paid to thread order 7", "order 7", "paid", "--value", `{"sum": 9007199254740993}`, "--key", "a")
		send(exitDone, "sent", "order 7", "paid", "--value", `{"sum": 1}`, "--key", "a")
		send(exitDone, `"signal": "paid"`, "order 7", "paid", "--value", `{"sum": 2}`, "--json")
		in = open()
		work(in, "one", func(r runs.Run) bool { return r.Status == runs.Success })
		must(in.end())
		// What a program cannot read is set aside, and shown with why.
		in = open()
		work(in, "two", runs.Run.Asleep)
		must(in.end())
		send(exitDone, "sent", "order 7", "paid", "--value", `"much"`)
		in = open()
		work(in, "two", func(r runs.Run) bool { return r.Status == runs.Error })
		must(in.end())
		look(exitDone, `signals that were refused\n +paid +"much" +id`, "show", "order 7")
	}
	t.Run("disk", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "store")
		open := func() *stores {
			d, err := disk.Open(dir, disk.Options{})
			must(err)
			items, err := store.On(d, store.Options{})
			must(err)
			queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
			must(err)
			return &stores{d, items, queue, func() error { return errors.Join(items.Close(), d.Close()) }}
		}
		script(t, open, dir)
		in := open()
		_, stderr, code := stele(t, "signal", dir, "order 7", "paid")
		if code != exitLocked || !strings.Contains(stderr, "POST /stele/threads/order 7/signals/paid") {
			t.Errorf("the store is open elsewhere: exit code %d, %s", code, stderr)
		}
		must(in.end())
		for _, args := range [][]string{{"order 7", "paid"}, {dir, "order 7", "paid", "--postgres", "x"}, {dir + "-missing", "order 7", "paid"}} {
			if _, stderr, code := stele(t, append([]string{"signal"}, args...)...); code != exitFailed {
				t.Errorf("%q: exit code %d, %s", args, code, stderr)
			}
		}
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url, _ := postgresServer(t)
		must(errors.Join(postgres.Setup(t.Context(), url, postgres.Options{}), pgstore.Setup(t.Context(), url, postgres.Options{}, nil)))
		script(t, func() *stores {
			in, err := openDatabase(t.Context(), url, "")
			must(err)
			return in
		}, "--postgres", url)
	})
}
