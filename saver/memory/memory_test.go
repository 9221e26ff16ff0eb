package memory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/savertest"
	"github.com/stele-go/stele/saver/serde"
)

func TestConformance(t *testing.T) {
	savertest.Run(t, func(*testing.T) saver.Saver { return memory.New(memory.Options{}) })
}

// clock is a clock that moves when told.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func put(t *testing.T, s *memory.Saver, id, parent string) error {
	t.Helper()
	_, err := s.Put(t.Context(), saver.Config{ThreadID: "t", CheckpointID: parent}, saver.Checkpoint{V: 4, ID: id}, nil, nil)
	return err
}

func mustPut(t *testing.T, s *memory.Saver, id, parent string) {
	t.Helper()
	if err := put(t, s, id, parent); err != nil {
		t.Fatal(err)
	}
}

func TestDeletionIsForgottenInTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		memory time.Duration
		wait   time.Duration
		want   error
	}{
		{"default, in time", 0, rules.DefaultDeletedMemory, saver.ErrThreadDeleted},
		{"default, later", 0, rules.DefaultDeletedMemory + time.Microsecond, nil},
		{"an hour, in time", time.Hour, time.Hour, saver.ErrThreadDeleted},
		{"an hour, later", time.Hour, time.Hour + time.Microsecond, nil},
		{"none", -1, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := &clock{time.Unix(1_700_000_000, 0)}
			s := memory.New(memory.Options{Clock: clk.read, DeletedMemory: c.memory})
			mustPut(t, s, "c1", "")
			if err := s.DeleteThread(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
			clk.now = clk.now.Add(c.wait)
			if err := put(t, s, "c2", "c1"); !errors.Is(err, c.want) {
				t.Errorf("put: %v, want %v", err, c.want)
			}
			err := s.PutWrites(t.Context(), saver.Config{ThreadID: "t", CheckpointID: "c1"}, []saver.Write{{Channel: "c", Value: saver.ValueOf(1)}}, "task", "")
			if !errors.Is(err, c.want) {
				t.Errorf("put writes: %v, want %v", err, c.want)
			}
			if _, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t", CheckpointID: "c1"}); !errors.Is(err, saver.ErrNotFound) {
				t.Errorf("forgetting brought the checkpoint back: %v", err)
			}
		})
	}
}

// A deletion that is forgotten does not lend its ids to a later one.
func TestForgottenDeletionIsNotMerged(t *testing.T) {
	clk := &clock{time.Unix(1_700_000_000, 0)}
	s := memory.New(memory.Options{Clock: clk.read, DeletedMemory: time.Hour})
	for _, id := range []string{"c9", "c1"} {
		mustPut(t, s, id, "")
		if err := s.DeleteThread(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		clk.now = clk.now.Add(2 * time.Hour)
	}
	clk.now = clk.now.Add(-2 * time.Hour) // the second is remembered, the first is not
	mustPut(t, s, "c2", "")
	if err := s.PutWrites(t.Context(), saver.Config{ThreadID: "t", CheckpointID: "c9"}, nil, "task", ""); err != nil {
		t.Error(err)
	}
	if err := s.PutWrites(t.Context(), saver.Config{ThreadID: "t", CheckpointID: "c1"}, nil, "task", ""); !errors.Is(err, saver.ErrThreadDeleted) {
		t.Errorf("put writes: %v", err)
	}
}

func TestUpdatedAtIsOfTheClock(t *testing.T) {
	clk := &clock{time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.FixedZone("x", 3600))}
	s := memory.New(memory.Options{Clock: clk.read})
	mustPut(t, s, "c1", "")
	for info, err := range s.Threads(t.Context(), saver.ThreadQuery{}) {
		if want := time.Date(2026, 1, 2, 2, 4, 5, 123456000, time.UTC); err != nil || info.UpdatedAt != want {
			t.Errorf("updated at %v, %v; want %v", info.UpdatedAt, err, want)
		}
	}
}

func TestRandomMintsVersions(t *testing.T) {
	s := memory.New(memory.Options{Random: func() float64 { return 0.25 }})
	v, err := s.NextVersion(saver.IntVersion(1), "ch")
	if want := "00000000000000000000000000000002.0000000000000.25"; err != nil || v.String() != want {
		t.Errorf("got %s, %v; want %s", v, err, want)
	}
}

// With an encrypting serializer nothing readable is kept, metadata included, and
// everything still works.
func TestEncrypted(t *testing.T) {
	enc, err := serde.NewEncrypted(nil, serde.EncryptedOptions{Key: []byte("0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	s := memory.New(memory.Options{Serializer: enc})
	ctx, one := t.Context(), saver.IntVersion(1)
	cp := saver.Checkpoint{V: 3, ID: "c1", Versions: map[string]saver.Version{"a": one}, Values: map[string]saver.Value{"a": saver.ValueOf("secret")}}
	cfg, err := s.Put(ctx, saver.Config{ThreadID: "t"}, cp, saver.Metadata{"run_id": "r1"}, cp.Versions)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.PutWrites(ctx, cfg, []saver.Write{{Channel: saver.ChannelTasks, Value: saver.ValueOf("send")}}, "task", ""); err != nil {
		t.Fatal(err)
	}
	cp.ID = "c2"
	if _, err := s.Put(ctx, cfg, cp, saver.Metadata{"run_id": "r2"}, nil); err != nil {
		t.Fatal(err)
	}
	for tup, err := range s.List(ctx, saver.Query{Filter: map[string]any{"run_id": "r2"}}) {
		if err != nil {
			t.Fatal(err)
		}
		for channel, want := range map[string]string{"a": "msgpack+aes", saver.ChannelTasks: "msgpack+aes"} {
			typed, err := tup.Checkpoint.Values[channel].Typed()
			if err != nil || typed.Kind != want {
				t.Errorf("%s has kind %s, %v; want %s", channel, typed.Kind, err, want)
			}
		}
		var got string
		if err := tup.Checkpoint.Values["a"].Decode(&got); err != nil || got != "secret" {
			t.Errorf("decoded %q, %v", got, err)
		}
	}
	if _, err := s.DeleteForRuns(ctx, []string{"r1", "r2"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.GetTuple(context.Background(), saver.Config{ThreadID: "t"}); !errors.Is(err, saver.ErrNotFound) {
		t.Errorf("after deletion: %v", err)
	}
}
