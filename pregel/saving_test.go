package pregel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
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
