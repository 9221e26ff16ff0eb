package server

import "github.com/stele-go/stele/pregel"

// mostSignals bounds the signals of one answer.
const mostSignals = 1000

// signals answers with the signals to the path's thread that nobody has taken yet, the first of them.
func (s *threadAPI) signals(c *call, t thread) error {
	g, err := s.signalled(t)
	if err != nil {
		return err
	}
	list, err := g.Signals(c.ctx, t.ID, mostSignals+1)
	if err != nil {
		return err
	}
	return c.json(map[string]any{"signals": append([]pregel.PendingSignal{}, list[:min(len(list), mostSignals)]...), "more": len(list) > mostSignals})
}
