package server

import "github.com/stele-go/stele/pregel"

// signalled is the graph that receives the signals to a thread.
func (s *threadAPI) signalled(t thread) (*pregel.Graph, error) {
	if g := s.graphs.by[t.graph()]; g != nil {
		return g, nil
	}
	return nil, fail(409, "The server has no graph for thread %s", t.ID)
}

// signal sends a signal to the path's thread: it is stored, and a run that waits for it is due.
func (s *threadAPI) signal(c *call, t thread) error {
	g, err := s.signalled(t)
	if err != nil {
		return err
	}
	o := pregel.SignalOptions{Key: c.body.text("key"), Instead: c.body.text("instead"), Queue: s.queue}
	if err := g.Signal(c.ctx, t.ID, c.path("name"), c.body["value"], o); err != nil {
		return err
	}
	return c.none(nil)
}

// refusedSignals answers with the signals to the path's thread that were set aside.
func (s *threadAPI) refusedSignals(c *call, t thread) error {
	g, err := s.signalled(t)
	if err != nil {
		return err
	}
	list, err := g.RefusedSignals(c.ctx, t.ID)
	if err != nil {
		return err
	}
	shown := []any{}
	for _, r := range list {
		shown = append(shown, map[string]any{"id": r.ID, "name": r.Name, "value": r.Value, "error": r.Error})
	}
	return c.json(map[string]any{"refused": shown})
}

func (s *threadAPI) deleteRefusedSignal(c *call, t thread) error {
	g, err := s.signalled(t)
	if err != nil {
		return err
	}
	return c.none(g.DeleteRefusedSignal(c.ctx, t.ID, c.path("id")))
}
