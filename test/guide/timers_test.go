package guide

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

type Invitation struct {
	Name string `json:"name"`
	Mail string `json:"mail"`
}

type Reply struct {
	Comes bool `json:"comes"`
}

var replies = pregel.NewSignal[Reply]("reply")

type Post func(ctx context.Context, key, to, text string) error

func invitations(mail Post, s saver.Saver, items store.Store) (*pregel.Graph, error) {
	send := pregel.NewTask("send", func(ctx context.Context, m [2]string) (string, error) {
		key, err := pregel.IdempotencyKey(ctx, "mail")
		if err != nil {
			return "", err
		}
		return "", mail(ctx, key, m[0], m[1])
	})
	body := func(ctx context.Context, i Invitation) (string, error) {
		for _, text := range []string{"Will you come?", "A reminder: will you come?"} {
			if _, err := send.Call(ctx, [2]string{i.Mail, text}); err != nil {
				return "", err
			}
			reply, answered, err := replies.ReceiveFor(ctx, 72*time.Hour)
			if err != nil {
				return "", err // it waits: return what you get
			}
			if answered {
				return fmt.Sprintf("%s comes: %t", i.Name, reply.Comes), nil
			}
		}
		return i.Name + " does not answer", nil
	}
	return pregel.Entrypoint("invitation", body, pregel.EntrypointOptions{Options: pregel.Options{Saver: s, Store: items}})
}

func reply(ctx context.Context, g *pregel.Graph, queue runs.Queue, name string, comes bool, message string) error {
	return replies.Send(ctx, g, "invitation-"+name, Reply{comes}, pregel.SignalOptions{Key: message, Queue: queue})
}

func wake(ctx context.Context, g *pregel.Graph) (next time.Time, err error) {
	report, err := g.Recover(ctx, pregel.RecoverOptions{}) // continues what is due
	for _, r := range report.Threads {
		for _, w := range r.Waits {
			if !w.Until.IsZero() && (next.IsZero() || w.Until.Before(next)) {
				next = w.Until
			}
		}
	}
	return next, err
}

func pending(ctx context.Context, g *pregel.Graph, name string) ([]pregel.Wait, error) {
	state, err := g.GetState(ctx, pregel.Thread("invitation-"+name))
	if err != nil {
		return nil, err
	}
	return state.Waits, nil // the earliest first; state.Interrupts are questions alone
}

var invite = pregel.NewChild[Invitation, string]("invitation")

func party(ctx context.Context, guests []Invitation) ([]string, error) {
	var invited []pregel.StartedChild[string]
	for _, g := range guests {
		started, err := invite.Start(ctx, g) // all wait side by side
		if err != nil {
			return nil, err
		}
		invited = append(invited, started)
	}
	var said []string
	for _, s := range invited {
		text, err := s.Get(ctx)
		var failed *pregel.ChildError
		switch {
		case errors.As(err, &failed):
			text = "nobody knows: " + failed.Error()
		case err != nil:
			return nil, err // it waits: return what you get
		}
		said = append(said, text)
	}
	return said, nil
}

// TestParty runs the part of the page about children: two guests are invited by one parent.
func TestParty(t *testing.T) {
	s := memory.New(memory.Options{})
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	invitation, err := invitations(func(context.Context, string, string, string) error { return nil }, s, items)
	if err != nil {
		t.Fatal(err)
	}
	g, err := pregel.Entrypoint("party", party, pregel.EntrypointOptions{Options: pregel.Options{Saver: s, Store: items}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	w := &runs.Worker{Queue: queue, Saver: s, Graphs: map[string]*pregel.Graph{"party": g, "invitation": invitation}}
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	r, err := queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "party", Graph: "party"},
		Input: []Invitation{{"ada", "ada@example.org"}, {"bob", "bob@example.org"}}})
	if err != nil {
		t.Fatal(err)
	}
	changed, unwatch := queue.Watch("")
	defer unwatch()
	sent := map[string]bool{}
	for len(sent) < 2 {
		for child, err := range queue.List(t.Context(), runs.Query{Graph: "invitation"}) {
			if err != nil {
				t.Fatal(err)
			}
			if child.Asleep() && !sent[child.ThreadID] {
				sent[child.ThreadID] = true
				if err := replies.Send(t.Context(), invitation, child.ThreadID, Reply{len(sent) == 2}, pregel.SignalOptions{Queue: queue, Key: "reply"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-changed
	}
	if r, err = runs.Wait(t.Context(), queue, r.ID); err != nil || r.Status != runs.Success {
		t.Fatalf("%+v, %v", r, err)
	}
	said, err := g.Output(t.Context(), "party")
	if err != nil || fmt.Sprint(said) != "[ada comes: false bob comes: true]" && fmt.Sprint(said) != "[ada comes: true bob comes: false]" {
		t.Errorf("%v, %v", said, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func mend(ctx context.Context, g *pregel.Graph, queue runs.Queue, thread string) error {
	refused, err := g.RefusedSignals(ctx, thread)
	for _, r := range refused {
		if comes, ok := r.Value.(bool); ok && err == nil { // an older form of a Reply
			err = replies.Send(ctx, g, thread, Reply{comes}, pregel.SignalOptions{Instead: r.ID, Queue: queue})
		}
	}
	return err
}

func countDays(ctx context.Context, days int) error {
	for day := range days {
		if err := pregel.Expose(ctx, "days left", days-day); err != nil {
			return err
		}
		if err := pregel.Sleep(ctx, 24*time.Hour); err != nil {
			return err
		}
	}
	return nil
}

// TestExposed: what a body exposes is seen while it sleeps.
func TestExposed(t *testing.T) {
	body := func(ctx context.Context, days int) (string, error) { return "", countDays(ctx, days) }
	g, err := pregel.Entrypoint("days", body, pregel.EntrypointOptions{Options: pregel.Options{Saver: memory.New(memory.Options{})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), 3); err != nil {
		t.Fatal(err)
	}
	if state, err := g.GetState(t.Context(), pregel.Thread("t")); err != nil || fmt.Sprint(state.Exposed) != "map[days left:3]" {
		t.Errorf("%+v, %v", state.Exposed, err)
	}
}

// TestTimers runs the page about timers and signals: a guest is reminded unless they answer, over restarts and
// without a queue, and by a worker.
func TestTimers(t *testing.T) {
	dir, mails := t.TempDir(), map[string]int{}
	mail := func(_ context.Context, key, to, text string) error {
		mails[to+": "+text]++
		return nil
	}
	// The page's options have the clock of the process.
	day := func(use func(g *pregel.Graph, queue *runs.Local, s *disk.Saver)) {
		t.Helper()
		s, err := disk.Open(dir, disk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		items, err := store.On(s, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer items.Close()
		queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := invitations(mail, s, items)
		if err != nil {
			t.Fatal(err)
		}
		use(g, queue, s)
	}
	result := func(g *pregel.Graph, name string) string {
		state, err := g.GetState(t.Context(), pregel.Thread("invitation-"+name))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(state.Values)
	}
	day(func(g *pregel.Graph, _ *runs.Local, _ *disk.Saver) {
		for _, name := range []string{"ada", "bob"} {
			res, err := g.Invoke(t.Context(), pregel.Thread("invitation-"+name), Invitation{name, name + "@example.org"})
			if err != nil || len(res.Waits) != 1 {
				t.Fatalf("%+v, %v", res, err)
			}
		}
		next, err := wake(t.Context(), g)
		if days := time.Until(next).Hours() / 24; err != nil || days < 2 || days > 3 {
			t.Errorf("the next is due at %v, %v", next, err)
		}
		waits, err := pending(t.Context(), g, "bob")
		if err != nil || len(waits) != 1 || waits[0].Signal != "reply" || !waits[0].Until.After(next) {
			t.Errorf("%+v, %v; the next is due at %v", waits, err, next)
		}
	})
	day(func(g *pregel.Graph, queue *runs.Local, s *disk.Saver) {
		if err := g.Signal(t.Context(), "invitation-ada", "reply", true); err != nil {
			t.Fatal(err)
		}
		var wrong *pregel.SignalTypeError
		if _, err := g.Invoke(t.Context(), pregel.Thread("invitation-ada"), nil); !errors.As(err, &wrong) {
			t.Fatal(err)
		}
		if err := mend(t.Context(), g, queue, "invitation-ada"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := reply(t.Context(), g, queue, "ada", false, "message 1"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := g.Invoke(t.Context(), pregel.Thread("invitation-ada"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := wake(t.Context(), g); err != nil || result(g, "ada") != "ada comes: true" || result(g, "bob") != "<nil>" {
			t.Fatalf("%v: %s, %s", err, result(g, "ada"), result(g, "bob"))
		}
		ctx, stop := context.WithCancel(t.Context())
		w := &runs.Worker{Queue: queue, Saver: s, Graphs: map[string]*pregel.Graph{"invitation": g}}
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		r, err := queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "invitation-eve", Graph: "invitation"}, Input: Invitation{"eve", "eve@example.org"}})
		if err != nil {
			t.Fatal(err)
		}
		changed, unwatch := queue.Watch(r.ID)
		defer unwatch()
		for !r.Asleep() {
			<-changed
			if r, err = queue.Get(t.Context(), r.ID); err != nil {
				t.Fatal(err)
			}
		}
		if err := reply(t.Context(), g, queue, "eve", false, "message 2"); err != nil {
			t.Fatal(err)
		}
		if r, err = runs.Wait(t.Context(), queue, r.ID); err != nil || r.Status != runs.Success || result(g, "eve") != "eve comes: false" {
			t.Errorf("%+v, %v: %s", r, err, result(g, "eve"))
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if len(mails) != 3 || mails["ada@example.org: Will you come?"] != 1 {
		t.Errorf("mails: %v", mails)
	}
}
