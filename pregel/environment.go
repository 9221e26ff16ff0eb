package pregel

import (
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/stele-go/stele/pregel/channel"
)

// Environment is how runs access the outside world. The zero value uses the system's clock and
// randomness.
type Environment struct {
	Now    func() time.Time                            // the clock of checkpoints
	IDs    *IDSource                                   // nil: one per process
	Jitter func() float64                              // in [0,1), for retries
	Sleep  func(d time.Duration, done <-chan struct{}) // waits between retries
	Logger *slog.Logger                                // nil: silent
	// MessageID makes ids for messages that nodes return without one; nil makes random
	// UUIDs.
	MessageID func() string
	// DrainTimeout bounds how long a cancelled run waits for its saves, and with
	// Options.LangGraph how long what is queued behind a failed task may run; 0 is 30 seconds.
	DrainTimeout time.Duration
}

var processIDs = NewIDSource(nil, nil)

func (e Environment) withDefaults() Environment {
	if e.Now == nil {
		e.Now = time.Now
	}
	if e.IDs == nil {
		e.IDs = processIDs
	}
	if e.Jitter == nil {
		e.Jitter = randomFloat
	}
	if e.Sleep == nil {
		e.Sleep = sleep
	}
	if e.Logger == nil {
		e.Logger = slog.New(slog.DiscardHandler)
	}
	if e.MessageID == nil {
		e.MessageID = channel.NewMessageID
	}
	if e.DrainTimeout == 0 {
		e.DrainTimeout = 30 * time.Second
	}
	return e
}

func sleep(d time.Duration, done <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-done:
	}
}

func randomFloat() float64 { return rand.Float64() }
