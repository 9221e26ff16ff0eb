package pregel_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// machines are a machine that leads a bucket in mode async, and another one that takes over from it.
type machines struct {
	*testing.T
	sim    *buckettest.Sim
	root   string
	opts   disk.Options
	leader *disk.Saver
}

func newMachines(t *testing.T, local bool) *machines {
	t.Helper()
	m := &machines{T: t, sim: buckettest.NewSim(nil), root: t.TempDir()}
	// Whoever takes over waits for a TTL.
	m.opts.Replica = disk.Replica{Interval: time.Hour, TTL: 20 * time.Millisecond, Deadline: time.Hour, AcceptLoss: true, LocalKeys: local}
	m.leader = m.open("first")
	if err := m.leader.SyncReplica(t.Context()); err != nil { // the bucket is seeded
		t.Fatal(err)
	}
	o := m.opts
	o.Replica.Bucket = m.sim.Client("second")
	f, err := disk.OpenFollower(filepath.Join(m.root, "second"), o)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machines) open(name string) *disk.Saver {
	m.Helper()
	m.opts.Replica.Bucket = m.sim.Client(name)
	s, err := disk.Open(filepath.Join(m.root, name), m.opts)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		m.sim.Connect(name)
		_ = s.Close() // one was fenced
	})
	return s
}

// impatient opens the leader again, as one that waits for no answer of the bucket.
func (m *machines) impatient() {
	m.Helper()
	if err := m.leader.Close(); err != nil {
		m.Fatal(err)
	}
	patient := m.opts
	m.opts.Replica.Deadline = time.Nanosecond
	m.leader = m.open("first")
	m.opts = patient
}

// lose loses the machine that leads: the bucket gets nothing of it any more.
func (m *machines) lose() { m.sim.Disconnect("first") }

// mailer is a graph of one node with an effect. lost, unless it is nil, is called behind the first effect, and its error is the node's.
func (m *machines) mailer(s saver.Saver, w *world, lost func() error) *pregel.Graph {
	m.Helper()
	g, err := graph.New(graph.Key("n", channel.LastValue[int]())).Node("mail", func(ctx context.Context, _ any) (any, error) {
		if err := w.do(ctx, "node", "mail"); err != nil || lost == nil {
			return nil, err
		}
		return nil, lost()
	}).Sequence(graph.Start, "mail", graph.End).Compile(graph.Options{Saver: s})
	if err != nil {
		m.Fatal(err)
	}
	return g
}

// TestKeysOutliveTheMachine: in mode async an effect has one key though the machine is lost, at any moment, and another one takes over:
// what the bucket does not have yet is waited for, and without the bucket there is no key. With LocalKeys it may have two.
func TestKeysOutliveTheMachine(t *testing.T) {
	errLost := errors.New("the machine is lost")
	for _, d := range allDurabilities {
		cfg := pregel.RunOptions{Durability: d}
		for name, wrap := range map[string]func(saver.Saver) saver.Saver{
			"bare": func(s saver.Saver) saver.Saver { return s },
			"intercepted": func(s saver.Saver) saver.Saver {
				return saver.Intercept(s, func(ctx context.Context, _ saver.Call, next func(context.Context) error) error { return next(ctx) })
			},
		} {
			t.Run(string(d)+" "+name, func(t *testing.T) {
				t.Run("lost before the effect", func(t *testing.T) {
					m, w := newMachines(t, false), newWorld()
					m.impatient()
					m.lose()
					if _, err := m.mailer(wrap(m.leader), w, nil).Invoke(ctx, pregel.Thread("t"), map[string]any{"n": 1}, cfg); !errors.Is(err, saver.ErrOutcomeUnknown) {
						t.Errorf("without the bucket: %v", err)
					}
					w.check(t, 0)
					if _, err := m.mailer(wrap(m.open("second")), w, nil).Invoke(ctx, pregel.Thread("t"), map[string]any{"n": 1}, cfg); err != nil {
						t.Fatal(err)
					}
					w.check(t, 1)
				})
				t.Run("lost behind it", func(t *testing.T) {
					m, w := newMachines(t, false), newWorld()
					lost := func() error { m.lose(); return errLost }
					if _, err := m.mailer(wrap(m.leader), w, lost).Invoke(ctx, pregel.Thread("t"), map[string]any{"n": 1}, cfg); !errors.Is(err, errLost) {
						t.Fatal(err)
					}
					if _, err := m.mailer(wrap(m.open("second")), w, nil).Invoke(ctx, pregel.Thread("t"), nil, cfg); err != nil {
						t.Fatal(err)
					}
					w.check(t, 1)
				})
			})
		}
	}
	t.Run("local", func(t *testing.T) {
		cfg := pregel.RunOptions{Durability: pregel.Sync}
		m, w := newMachines(t, true), newWorld()
		m.lose()
		for _, s := range []func() *disk.Saver{func() *disk.Saver { return m.leader }, func() *disk.Saver { return m.open("second") }} {
			if _, err := m.mailer(s(), w, nil).Invoke(ctx, pregel.Thread("t"), map[string]any{"n": 1}, cfg); err != nil {
				t.Fatal(err)
			}
		}
		if len(w.keys["node/mail"]) != 2 {
			t.Errorf("keys %v", w.keys)
		}
	})
}
