package pregel_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// In a store that was restored Recover leaves alone what was there, until it is released: what sleeps, and
// what was left unfinished. A thread
// with a newer checkpoint is not held.
func TestRestoredThreadsAreHeld(t *testing.T) {
	clock, root := waittest.NewClock(), t.TempDir()
	open := func(dir string) *disk.Saver {
		s, err := disk.Open(filepath.Join(root, dir), disk.Options{Clock: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	crash := false
	graph := func(s saver.Saver) *pregel.Graph {
		g, err := pregel.Entrypoint("g", func(ctx context.Context, how string) (string, error) {
			switch {
			case how == "sleep":
				return how, pregel.Sleep(ctx, time.Hour)
			case how == "ask":
				_, err := pregel.Ask(ctx, "?")
				return how, err
			case crash:
				<-ctx.Done()
				return "", ctx.Err()
			}
			return how, nil
		}, pregel.EntrypointOptions{Options: pregel.Options{Name: "g", Saver: s, Env: pregel.Environment{Now: clock.Now}}})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	s := open("store")
	for _, how := range []string{"sleep", "sleep 2", "ask"} {
		if _, err := graph(s).Invoke(t.Context(), pregel.Thread(how), how[:min(len(how), 5)]); err != nil {
			t.Fatal(err)
		}
	}
	crash = true
	for _, id := range []string{"cut off", "cut off 2"} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = graph(s).Invoke(ctx, pregel.Thread(id), "cut")
		}()
		for {
			info, ok, err := saver.ThreadOf(t.Context(), s, id)
			if err != nil {
				t.Fatal(err)
			}
			if ok && info.Status == saver.StatusUnfinished {
				break
			}
		}
		stop()
		<-ended
	}
	crash = false
	if _, err := admin.BackupOpen(t.Context(), s, filepath.Join(root, "backup"), admin.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Restore(t.Context(), filepath.Join(root, "backup"), filepath.Join(root, "restored"), admin.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	s = open("restored")
	defer func() { _ = s.Close() }()
	clock.Move(2 * time.Hour)
	wants := func(want map[string]pregel.Outcome) {
		t.Helper()
		asked := 0
		report, err := graph(s).Recover(t.Context(), pregel.RecoverOptions{Run: func(*pregel.StateSnapshot) (pregel.RunOptions, error) {
			asked++
			return pregel.RunOptions{}, nil
		}})
		if err != nil || len(report.Threads) != len(want) {
			t.Fatalf("%+v, %v; want %v", report, err, want)
		}
		for _, r := range report.Threads {
			if r.Outcome != want[r.ThreadID] {
				t.Errorf("%s: %+v, want %s", r.ThreadID, r, want[r.ThreadID])
			}
			if r.Outcome != pregel.Held {
				asked--
			}
		}
		if asked != 0 {
			t.Errorf("%d calls of Run for threads that are held", asked)
		}
	}
	held := map[string]pregel.Outcome{"sleep": pregel.Held, "sleep 2": pregel.Held, "cut off": pregel.Held, "cut off 2": pregel.Held}
	wants(held)
	for _, id := range []string{"sleep 2", "cut off 2"} { // somebody wants these here
		if _, err := graph(s).Invoke(t.Context(), pregel.Thread(id), nil); err != nil {
			t.Fatal(err)
		}
		delete(held, id)
	}
	wants(held)
	if _, err := graph(s).Invoke(t.Context(), pregel.Thread("new"), "sleep"); err != nil {
		t.Fatal(err)
	}
	held["new"] = pregel.Recovered
	clock.Move(2 * time.Hour)
	wants(held)
	if err := s.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	wants(map[string]pregel.Outcome{"sleep": pregel.Recovered, "cut off": pregel.Recovered})
}
