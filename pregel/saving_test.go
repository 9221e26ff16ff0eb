package pregel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/savertest"
)

// refusing is a saver that fails where it is told to.
type refusing struct {
	*memory.Saver
	mu         sync.Mutex
	put, wrote int
	failPut    int // the put to refuse, from 1
	failWrites int
}

var errDisk = errors.New("no more disk")

func (r *refusing) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	return savertest.Apart(c, req, r.PutWrites, r.putRequest)
}

func (r *refusing) putRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	r.mu.Lock()
	r.put++
	n := r.put
	r.mu.Unlock()
	if n == r.failPut {
		return saver.Config{}, errDisk
	}
	return r.Saver.PutRequest(c, req)
}

func (r *refusing) PutWrites(c context.Context, cfg saver.Config, w []saver.Write, id, path string) error {
	r.mu.Lock()
	r.wrote++
	n := r.wrote
	r.mu.Unlock()
	if n == r.failWrites {
		return errDisk
	}
	return r.Saver.PutWrites(c, cfg, w, id, path)
}

// A save that fails fails the run, and nothing is stored beyond it.
func TestSaveErrorFailsTheRun(t *testing.T) { // SAV-06
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for _, s := range []*refusing{{failPut: 1}, {failPut: 2}, {failWrites: 1}} {
			if d == pregel.Exit && (s.failPut == 2 || s.failWrites > 0) {
				continue // an Exit run that ends well saves once
			}
			s.Saver = memory.New(memory.Options{})
			g := fan(t, pregel.Options{Saver: s}, node("a", returns("a")))
			_, err := g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d})
			var pe *pregel.PersistError
			if !errors.As(err, &pe) || !errors.Is(err, pregel.ErrPersist) || !errors.Is(err, errDisk) {
				t.Errorf("%s %+v: error %v", d, s, err)
			}
			puts := 0
			for _, err := range s.Saver.List(ctx, saver.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				puts++
			}
			if want := max(0, s.failPut-1) + s.failWrites; puts > want {
				t.Errorf("%s: %d checkpoints stored beyond the gap", d, puts-want)
			}
		}
	}
}

func TestUnserializableIsNamed(t *testing.T) {
	g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("bad", returns(map[string]any{"f": func() {}})))
	at := pregel.Thread("t")
	_, err := g.Invoke(ctx, at, 1)
	var ee *pregel.EncodeError
	if !errors.As(err, &ee) || ee.Node != "bad" || ee.Channel != "out" || !strings.Contains(err.Error(), "f") {
		t.Errorf("error %v", err)
	}
	if state, err := g.GetState(ctx, at); err != nil || !slices.Equal(state.Next, []string{"bad"}) {
		t.Errorf("the thread cannot be resumed: %v, %v", state, err)
	}
}

// narrow is a saver that takes so many writes and values in a call.
type narrow struct {
	*memory.Saver
	most int
}

func (s narrow) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	n := len(req.Checkpoint.Values)
	for _, w := range req.Writes {
		n += len(w.Writes)
	}
	if n > s.most {
		return saver.Config{}, saver.ErrTooLarge
	}
	return s.Saver.PutRequest(c, req)
}

func (s narrow) PutWrites(c context.Context, cfg saver.Config, w []saver.Write, id, path string) error {
	if len(w) > s.most {
		return saver.ErrTooLarge
	}
	return s.Saver.PutWrites(c, cfg, w, id, path)
}

// TestLargeStep: what a saver takes of writes in one call and of a checkpoint in another it gets,
// also if both together are too large, and also of the last task, whose writes go with the
// checkpoint. What is too large by itself fails the run.
func TestLargeStep(t *testing.T) {
	write := func(context.Context, any) (any, error) {
		return map[string]any{"a": 1, "b": 1, "c": 1}, nil
	}
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
		for most, want := range map[int]error{3: saver.ErrTooLarge, 4: nil, 5: nil, 8: nil} {
			s := narrow{memory.New(memory.Options{}), most}
			last := func() channel.Channel { return channel.LastValue[int]() }
			g := compiled(t, graph.New(graph.Key("a", last()), graph.Key("b", last()), graph.Key("c", last())).
				Node("n", write).Node("m", write).Sequence(graph.Start, "n", "m"), graph.Options{Saver: s})
			res, err := g.Invoke(ctx, pregel.Thread("t"), map[string]any{"a": 0}, pregel.RunOptions{Durability: d})
			if !errors.Is(err, want) || err == nil && len(res.Map()) != 3 {
				t.Errorf("%s, %d in a call: %v, %v", d, most, res, err)
			}
			if err != nil {
				continue
			}
			tasks := 0
			for tup, err := range s.List(ctx, saver.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				if len(tup.PendingWrites) >= 3 {
					tasks++
				}
			}
			if tasks != 2 {
				t.Errorf("%s, %d in a call: the writes of %d tasks are stored, want 2", d, most, tasks)
			}
		}
	}
}
