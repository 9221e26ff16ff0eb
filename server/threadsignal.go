package server

import "github.com/stele-go/stele/pregel"

// signal sends a signal to the path's thread: it is stored, and a run that waits for it is due.
func (s *threadAPI) signal(c *call, t thread) error {
	g := s.graphs.by[t.graph()]
	if g == nil {
		return fail(409, "The server has no graph for thread %s", t.ID)
	}
	o := pregel.SignalOptions{Key: c.body.text("key"), Queue: s.queue}
	return c.none(g.Signal(c.ctx, t.ID, c.path("name"), c.body["value"], o))
}
