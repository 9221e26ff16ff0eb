package server

import (
	"context"
	"log/slog"
	"sync"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/wire"
)

// callSlots is how many slots a client may use.
const callSlots = 256

// slot names the slot of a client.
type slot struct {
	client [wire.ClientSize]byte
	number uint16
}

// running is a call that has a slot now.
type running struct {
	number uint64
	done   chan struct{}
	result []byte
	err    error
}

// callTable knows which named calls are under way.
type callTable struct {
	mu      sync.Mutex
	running map[slot]*running
}

func newCallTable(saver.Saver) *callTable { return &callTable{running: map[slot]*running{}} }

func (t *callTable) expireEvery(<-chan struct{}, *slog.Logger) {}

// once does a call that writes.
func (c *call) once(name *wire.Call, do func(context.Context) (any, error), answer func(any) []byte) ([]byte, error) {
	v, err := do(c.ctx)
	if err != nil {
		return nil, err
	}
	return answer(v), nil
}
