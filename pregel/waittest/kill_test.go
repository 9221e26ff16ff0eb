package waittest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/killtest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

func TestMain(m *testing.M) {
	killtest.Main(life)
	os.Exit(m.Run())
}

// mortalStore is a store beside whose writes the process may be killed.
type mortalStore struct{ *store.Local }

func (s mortalStore) Batch(ctx context.Context, ops ...store.Op) ([]store.Result, error) {
	killtest.Point()
	defer killtest.Point()
	return s.Local.Batch(ctx, ops...)
}

func (s mortalStore) Put(ctx context.Context, ns store.Namespace, key string, value map[string]any, opts ...store.PutOption) error {
	killtest.Point()
	defer killtest.Point()
	return s.Local.Put(ctx, ns, key, value, opts...)
}

var letters = pregel.NewSignal[int]("letter")

// sent is how many letters the thread gets.
const sent = 3

// quick is a clock on which a minute takes a millisecond, in all processes.
func quick() time.Time {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return begin.Add(time.Duration(time.Now().UnixMicro()%1e11) * time.Minute / 1000)
}

// life runs a thread that sleeps, and receives letters, with an effect behind each. It discards what it has
// once, so that letters are put back.
func life(ctx context.Context, dir string) error {
	d, err := disk.Open(filepath.Join(dir, "state"), disk.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	items, err := store.On(d, store.Options{})
	if err != nil {
		return err
	}
	defer items.Close()
	effect := func(ctx context.Context, what string) error {
		key, err := pregel.IdempotencyKey(ctx, what)
		if err != nil {
			return err
		}
		killtest.Point()
		return os.WriteFile(filepath.Join(dir, what+"."+key), nil, 0o600)
	}
	durability := []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit}[filepath.Base(dir)[len(filepath.Base(dir))-1]%3]
	g, err := pregel.Entrypoint("flow", func(ctx context.Context, in string) (string, error) {
		if in == "begin" {
			return "", nil
		}
		out := ""
		for i := range sent {
			n, err := letters.Receive(ctx)
			if err != nil {
				return "", err
			}
			out += fmt.Sprint(n)
			if in == "discarded" {
				if i == 1 {
					_, err := pregel.Ask(ctx, "never answered")
					return "", err
				}
				continue
			}
			if err := effect(ctx, fmt.Sprint("letter-", n)); err != nil {
				return "", err
			}
			if err := pregel.Sleep(ctx, time.Minute); err != nil {
				return "", err
			}
			if err := effect(ctx, fmt.Sprint("slept-", i)); err != nil {
				return "", err
			}
		}
		if _, late, err := letters.ReceiveFor(ctx, time.Minute); err != nil || late {
			return "", errors.Join(err, fmt.Errorf("a letter too many: %t", late))
		}
		return out, nil
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: d, Store: mortalStore{items}, Hooks: killtest.Hooks(pregel.Hooks{}), Env: pregel.Environment{Now: quick}}})
	if err != nil {
		return err
	}
	at, o := pregel.Thread("t"), pregel.RunOptions{Durability: durability, Unfinished: pregel.DiscardUnfinished}
	run := func(input any) error {
		_, err := g.Invoke(ctx, at, input, o)
		return err
	}
	for {
		st, err := g.GetState(ctx, at)
		if err != nil {
			return err
		}
		stage, err := os.ReadFile(filepath.Join(dir, "stage"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		next := func(stage string) error { return os.WriteFile(filepath.Join(dir, "stage"), []byte(stage), 0o600) }
		resumes := st.Status == saver.StatusUnfinished || len(st.Waits) > 0
		switch {
		case len(stage) == 0:
			if err = run("begin"); err == nil {
				err = next("send")
			}
		case string(stage) == "send":
			for i := range sent {
				if err := letters.Send(ctx, g, "t", i, pregel.SignalOptions{Key: fmt.Sprint(i)}); err != nil {
					return err
				}
			}
			err = next("discarded")
		case string(stage) == "discarded" && len(st.Interrupts) > 0:
			err = next("kept")
		case string(stage) == "discarded" && st.Status == saver.StatusDone:
			err = run("discarded")
		case string(stage) == "kept" && len(st.Interrupts) > 0:
			err = run("kept")
		case resumes:
			if err = run(nil); err != nil || len(stage) < len("kept") || string(stage) == "send" {
				break
			}
			if st, err = g.GetState(ctx, at); err == nil && len(st.Waits) > 0 && st.Waits[0].Until.IsZero() {
				err = errors.New("it waits for a letter that was sent")
			}
		case st.Status == saver.StatusDone && string(stage) == "kept":
			if st.Values != "012" {
				return fmt.Errorf("it received %v", st.Values)
			}
			return nil
		default:
			return fmt.Errorf("stage %q: %+v", stage, st)
		}
		if err != nil {
			return fmt.Errorf("stage %q: %w", stage, err)
		}
	}
}

// A thread sleeps, and takes each signal once and in order, however often its process is killed; and each effect
// has one key.
func TestWaitsSurviveKills(t *testing.T) {
	report, err := killtest.Run(t.Context(), killtest.Options{Kills: 40, Dir: t.TempDir(), Check: func(dir string) error {
		files, err := filepath.Glob(filepath.Join(dir, "*-*.*"))
		if err != nil {
			return err
		}
		var effects []string
		for _, f := range files {
			effect, _, _ := strings.Cut(filepath.Base(f), ".")
			effects = append(effects, effect)
		}
		slices.Sort(effects)
		if got := strings.Join(effects, " "); got != "letter-0 letter-1 letter-2 slept-0 slept-1 slept-2" {
			return fmt.Errorf("effects: %s", got)
		}
		return nil
	}})
	t.Logf("%+v", report)
	if err != nil {
		t.Fatal(err)
	}
}
