//go:build unix

package postgres_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"

	"github.com/stele-go/stele/postgres/pgtest"
)

// model runs one random program on a saver on PostgreSQL and on its twin, in memory or on disk.
type model struct {
	*testing.T
	r      *rand.Rand
	real   saver.Saver
	twin   saver.Saver
	put    []saver.Config // everything that was ever put
	number int
}

var modelErrors = []error{saver.ErrNotFound, saver.ErrConflict, saver.ErrThreadDeleted, saver.ErrThreadExists, saver.ErrInvalid, saver.ErrAncestorCycle}

// class is what an error is, as far as the contract says.
func class(err error) string {
	for _, known := range modelErrors {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprint(err)
}

// both makes a call on both savers, and compares the errors and the answers.
func (m *model) both(what string, call func(s saver.Saver) (any, error)) {
	m.Helper()
	got, gotErr := call(m.real)
	want, wantErr := call(m.twin)
	if class(gotErr) != class(wantErr) || !reflect.DeepEqual(got, want) {
		if g, ok := got.([]string); ok { // only where they part
			w := want.([]string)
			i := 0
			for i < min(len(g), len(w)) && g[i] == w[i] {
				i++
			}
			got, want = g[i:min(i+1, len(g))], w[i:min(i+1, len(w))]
		}
		m.Fatalf("call %d, %s:\nPostgreSQL %+v, %v\n%10T %+v, %v", m.number, what, got, gotErr, m.twin, want, wantErr)
	}
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (m *model) thread() string { return pick(m.r, []string{"a", "b", "c"}) }

// known is a checkpoint that was put some time, or one that never was.
func (m *model) known() saver.Config {
	if len(m.put) == 0 || m.r.IntN(20) == 0 {
		return saver.Config{ThreadID: m.thread(), CheckpointID: "none"}
	}
	return m.put[max(0, len(m.put)-1-m.r.IntN(12))]
}

func (m *model) value() any {
	return pick(m.r, []any{nil, true, 7, 1.0, 1e300, math.Copysign(0, -1), "text", "a\x00b", "", []any{1, "x"}, map[string]any{"k": []any{nil}}, []byte{0}, m.number})
}

// request puts upon a known checkpoint, or upon none: channels are new, emptied, those of
// the parent, or those of another checkpoint.
func (m *model) request() saver.PutRequest {
	base := m.known()
	cfg := saver.Config{ThreadID: base.ThreadID, Namespace: base.Namespace}
	if m.r.IntN(8) > 0 {
		cfg.CheckpointID = base.CheckpointID
	} else {
		cfg.ThreadID, cfg.Namespace = m.thread(), pick(m.r, []string{"", "sub:1"})
	}
	id := fmt.Sprintf("%06d", m.number)
	if other := m.known(); m.r.IntN(10) == 0 && other.CheckpointID != cfg.CheckpointID {
		id = other.CheckpointID // again
	}
	req := saver.PutRequest{
		Config: cfg, Metadata: saver.Metadata{"source": "loop", "step": m.number, "run_id": pick(m.r, []string{"r1", "r2", "r3"}), "f": m.r.Float64()},
		Checkpoint:  saver.Checkpoint{V: pick(m.r, []int{4, 4, 4, 3}), ID: id, TS: "2026-01-02T03:04:05+00:00", Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}},
		NewVersions: map[string]saver.Version{},
	}
	if tup, err := m.twin.GetTuple(m.Context(), base); err == nil {
		maps.Copy(req.Checkpoint.Versions, tup.Checkpoint.Versions)
		delete(req.Checkpoint.Versions, saver.ChannelTasks)
	}
	for range m.r.IntN(3) {
		channel := pick(m.r, []string{"x", "y", "z"})
		v, err := saver.NextVersion(req.Checkpoint.Versions[channel], m.r.Float64)
		if err != nil {
			m.Fatal(err)
		}
		req.Checkpoint.Versions[channel], req.NewVersions[channel] = v, v
		if m.r.IntN(4) > 0 {
			req.Checkpoint.Values[channel] = saver.ValueOf(m.value())
		}
	}
	if m.r.IntN(2) == 0 {
		req.Note = &saver.Note{Graph: "g", Next: pick(m.r, [][]string{nil, {"n"}}), Deltas: pick(m.r, [][]string{nil, {"y"}})}
	}
	if m.r.IntN(6) == 0 {
		req.Config.ExpectHead = saver.Head(base.CheckpointID)
	}
	if from := m.known(); m.r.IntN(10) == 0 && from.ThreadID == cfg.ThreadID && from.Namespace == cfg.Namespace {
		req.ValuesFrom = &from
	}
	if m.r.IntN(3) == 0 {
		req.Writes = append(req.Writes, saver.TaskWrites{TaskID: "with", Writes: m.writes()})
	}
	return req
}

func (m *model) writes() []saver.Write {
	var ws []saver.Write
	for range m.r.IntN(4) {
		channel := pick(m.r, []string{"x", "y", "z", saver.ChannelInterrupt, saver.ChannelResume, saver.ChannelError, saver.ChannelTasks})
		ws = append(ws, saver.Write{Channel: channel, Value: saver.ValueOf(m.value())})
	}
	return ws
}

func (m *model) step() {
	m.number++
	ctx := m.Context()
	switch n := m.r.IntN(100); {
	case n < 50:
		req := m.request()
		m.both(fmt.Sprintf("put %+v", req), func(s saver.Saver) (any, error) { return s.PutRequest(ctx, req) })
		m.put = append(m.put, req.Config.At(req.Checkpoint.ID))
	case n < 72:
		at, ws, task := m.known(), m.writes(), pick(m.r, []string{"t1", "t2", saver.NullTaskID})
		m.both(fmt.Sprintf("put writes of %s at %+v: %+v", task, at, ws), func(s saver.Saver) (any, error) {
			return nil, s.PutWrites(ctx, at, ws, task, task)
		})
	case n < 78:
		at := m.known()
		m.both(fmt.Sprintf("history of %+v", at), func(s saver.Saver) (any, error) {
			h, err := s.DeltaChannelHistory(ctx, at, []string{"x", "y"})
			return fmt.Sprint(len(h["x"].Writes), h["x"].Seed.IsZero(), len(h["y"].Writes), h["y"].Seed.IsZero()), err
		})
	case n < 82:
		at := m.known()
		m.both("count attempt", func(s saver.Saver) (any, error) { return s.CountAttempt(ctx, at) })
	case n < 85:
		thread := m.thread()
		m.both("delete "+thread, func(s saver.Saver) (any, error) { return nil, s.DeleteThread(ctx, thread) })
	case n < 89:
		src, dst := m.thread(), pick(m.r, []string{"a", "b", "c", "d"})
		m.both("copy "+src+" to "+dst, func(s saver.Saver) (any, error) { return nil, s.CopyThread(ctx, src, dst) })
	case n < 92:
		run := pick(m.r, []string{"r1", "r2"})
		m.both("delete run "+run, func(s saver.Saver) (any, error) {
			done, err := s.DeleteForRuns(ctx, []string{run}, nil)
			done.Writes = 0 // the twin counts those that were replaced
			return done, err
		})
	case n < 95:
		thread, strategy := m.thread(), pick(m.r, []saver.PruneStrategy{saver.KeepLatest, saver.KeepLatest, saver.PruneAll})
		m.both(fmt.Sprint("prune ", thread, " ", strategy), func(s saver.Saver) (any, error) {
			done, err := s.Prune(ctx, []string{thread}, strategy)
			done.Writes = 0
			return done, err
		})
	default:
		q := saver.Query{Limit: m.r.IntN(4), Before: pick(m.r, []string{"", m.known().CheckpointID}), Filter: pick(m.r, []map[string]any{nil, {"run_id": "r1"}, {"missing": nil}})}
		m.both(fmt.Sprintf("list %+v", q), func(s saver.Saver) (any, error) { return m.list(s, q) })
	}
}

// list is a listing as text.
func (m *model) list(s saver.Saver, q saver.Query) (any, error) {
	out := []string{}
	for tup, err := range s.List(m.Context(), q) {
		if err != nil {
			return out, err
		}
		cp := tup.Checkpoint
		values := cp.Values
		cp.Values = nil
		text := fmt.Sprintf("%+v %+v %v %+v %+v", tup.Config, cp, tup.Metadata, tup.Parent, tup.Note)
		for _, channel := range slices.Sorted(maps.Keys(values)) {
			typed, err := values[channel].Typed()
			text += fmt.Sprintf(" %s=%s %x %v", channel, typed.Kind, typed.Data, err)
		}
		for _, w := range tup.PendingWrites {
			typed, err := w.Value.Typed()
			text += fmt.Sprintf(" %s[%d]%s=%s %x %v", w.TaskID, w.Index, w.Channel, typed.Kind, typed.Data, err)
		}
		out = append(out, text)
	}
	return out, nil
}

// compareAll compares all that the savers hold.
func (m *model) compareAll() {
	m.both("list all", func(s saver.Saver) (any, error) { return m.list(s, saver.Query{}) })
	m.both("threads", func(s saver.Saver) (any, error) {
		out := []string{}
		for info, err := range s.Threads(m.Context(), saver.ThreadQuery{}) {
			if err != nil {
				return out, err
			}
			out = append(out, fmt.Sprint(info.ThreadID, info.Head, info.Status, info.Graph, info.Next, info.UpdatedAt))
		}
		return out, nil
	})
}

// found are programs that once found something.
var found = []uint64{
	1795449968637347797, // a write that was passed over kept a checkpoint
	1795459035333182042, // a value is inherited where checkpoints are ancestors of each other
}

// TestModel runs random programs on PostgreSQL and, in turns, in memory and on disk: every answer
// is the same.
// STELE_SEED repeats one, STELE_MODEL_PROGRAMS runs more.
func TestModel(t *testing.T) {
	programs := 4
	if n, err := strconv.Atoi(os.Getenv("STELE_MODEL_PROGRAMS")); err == nil {
		programs = n
	}
	seed := uint64(time.Now().UnixNano())
	seeds := found
	if n, err := strconv.ParseUint(os.Getenv("STELE_SEED"), 10, 64); err == nil {
		seeds, programs, seed = nil, 1, n
	}
	for i := range programs {
		seeds = append(slices.Clone(seeds), seed+uint64(i))
	}
	url := pgtest.Shared(t).Database(t)
	half := func() float64 { return 0.5 }
	for _, seed := range seeds {
		t.Run(fmt.Sprint("STELE_SEED=", seed), func(t *testing.T) {
			tick := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			clock := func() time.Time { return tick }
			var twin saver.Saver = memory.New(memory.Options{Clock: clock, Random: half})
			if seed%2 == 0 {
				d, err := disk.Open(t.TempDir(), disk.Options{Clock: clock, Random: half})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = d.Close() })
				twin = d
			}
			m := &model{T: t, r: rand.New(rand.NewPCG(seed, 0)),
				real: open(t, url, postgres.Options{Schema: pgtest.NewSchema(), Clock: clock, Random: half}),
				twin: twin,
			}
			for m.number < 250 {
				tick = tick.Add(time.Second)
				m.step()
				if m.number%10 == 0 {
					m.compareAll()
				}
			}
		})
	}
}
