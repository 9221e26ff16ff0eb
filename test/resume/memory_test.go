package resume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

var errDead = errors.New("the process is dead")

// mortal is a memory saver that answers a number of writing calls and then none.
type mortal struct {
	*memory.Saver

	mu     sync.Mutex
	left   int
	stored map[string]bool // tasks whose writes were stored
}

func (s *mortal) live() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left < 0 {
		return errDead
	}
	return nil
}

func (s *mortal) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	if err := s.live(); err != nil {
		return saver.Config{}, err
	}
	return s.Saver.PutRequest(c, req)
}

func (s *mortal) PutWrites(c context.Context, cfg saver.Config, ws []saver.Write, id, path string) error {
	if err := s.live(); err != nil {
		return err
	}
	err := s.Saver.PutWrites(c, cfg, ws, id, path)
	out := id != nullTask
	for _, w := range ws {
		out = out && w.Channel != "__interrupt__"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if out && err == nil {
		s.stored[id] = true
	}
	return err
}

// A run that dies after any number of saves, in every durability, goes on from
// what was saved; under Exit that is nothing before the end.
func TestDeathAfterAnySave(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for _, p := range programs {
			t.Run(fmt.Sprintf("%s/%s", d, p.name), func(t *testing.T) {
				calm := &mortal{Saver: memory.New(memory.Options{}), left: 1 << 30, stored: map[string]bool{}}
				want, err := p.drive(context.Background(), mustBuild(t, p, newRan(), calm), d, true)
				if err != nil {
					t.Fatal(err)
				}
				saves := 1<<30 - calm.left
				for k := range saves {
					s := &mortal{Saver: memory.New(memory.Options{}), left: k, stored: map[string]bool{}}
					_, err := p.drive(context.Background(), mustBuild(t, p, newRan(), s), d, true)
					if !errors.Is(err, errDead) || !errors.Is(err, pregel.ErrPersist) {
						t.Fatalf("after %d saves: error %v", k, err)
					}
					_, err = s.Saver.GetTuple(context.Background(), saver.Config{ThreadID: "t"})
					counts := newRan()
					got, err := p.drive(context.Background(), mustBuild(t, p, counts, s.Saver), d, errors.Is(err, saver.ErrNotFound))
					if err != nil || got != want {
						t.Errorf("died after %d of %d saves, then ended with\n%s, %v\nwant\n%s", k, saves, got, err, want)
					}
					for id := range s.stored {
						if counts.count[id] > 0 {
							t.Errorf("died after %d saves: task %s ran again, though its writes were stored", k, id)
						}
					}
				}
			})
		}
	}
}
