package pregel_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/savertest"
)

// watched is a saver that notes what is asked of it and what was answered, and
// does as before says first: wait, or fail.
type watched struct {
	whole bool // what is one request is watched as one
	*memory.Saver
	before func(ctx context.Context, op string) error

	mu  sync.Mutex
	log []string
}

func watch(before func(ctx context.Context, op string) error) *watched {
	return &watched{Saver: memory.New(memory.Options{}), before: before}
}

func (w *watched) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, line)
}

func (w *watched) lines() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// acked are the calls of kind prefix that were answered, in order.
func (w *watched) acked(prefix string) (out []string) {
	for _, l := range w.lines() {
		if op, ok := strings.CutPrefix(l, "end "); ok && strings.HasPrefix(op, prefix) {
			out = append(out, op)
		}
	}
	return out
}

func (w *watched) ask(c context.Context, op string) error {
	w.note("begin " + op)
	if w.before == nil {
		return nil
	}
	return w.before(c, op)
}

func (w *watched) Put(c context.Context, cfg saver.Config, cp saver.Checkpoint, md saver.Metadata, v map[string]saver.Version) (saver.Config, error) {
	return w.PutRequest(c, saver.PutRequest{Config: cfg, Checkpoint: cp, Metadata: md, NewVersions: v})
}

func (w *watched) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	if w.whole {
		return w.putRequest(c, req)
	}
	return savertest.Apart(c, req, w.PutWrites, w.putRequest)
}

func (w *watched) putRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	step, _ := req.Metadata.Step()
	op := fmt.Sprintf("put %d", step)
	if err := w.ask(c, op); err != nil {
		return saver.Config{}, err
	}
	at, err := w.Saver.PutRequest(c, req)
	if err == nil {
		w.note("end " + op)
	}
	return at, err
}

func (w *watched) PutWrites(c context.Context, cfg saver.Config, ws []saver.Write, id, path string) error {
	op := "writes " + path
	for _, x := range ws {
		op += " " + x.Channel
	}
	if err := w.ask(c, op); err != nil {
		return err
	}
	err := w.Saver.PutWrites(c, cfg, ws, id, path)
	if err == nil {
		w.note("end " + op)
	}
	return err
}

func (w *watched) GetTuple(c context.Context, cfg saver.Config) (*saver.Tuple, error) {
	if err := w.ask(c, "get"); err != nil {
		return nil, err
	}
	return w.Saver.GetTuple(c, cfg)
}

func (w *watched) NextVersion(v saver.Version, ch string) (saver.Version, error) {
	if err := w.ask(context.Background(), "version"); err != nil {
		return v, err
	}
	return w.Saver.NextVersion(v, ch)
}

// failing fails the n-th call of kind prefix.
func failing(prefix string, n int) func(context.Context, string) error {
	var mu sync.Mutex
	return func(_ context.Context, op string) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(op, prefix) {
			if n--; n == 0 {
				return errDisk
			}
		}
		return nil
	}
}

// grouped is a watched saver that is given several checkpoints at once.
type grouped struct{ *watched }

func (g grouped) PutGroup(c context.Context, reqs []saver.PutRequest) (int, error) {
	g.note(fmt.Sprint("group of ", len(reqs)))
	for i, req := range reqs {
		if _, err := g.PutRequest(c, req); err != nil {
			return i, err
		}
	}
	return len(reqs), nil
}

// bothWays are a watched saver that is given one checkpoint after the other, and one that is given
// several at once.
var bothWays = []func(*watched) saver.Saver{
	func(w *watched) saver.Saver { return w },
	func(w *watched) saver.Saver { return grouped{w} },
}
