package memory

import "github.com/stele-go/stele/serde"

// Serializer implements saver.Coordinator.
func (s *Saver) Serializer() serde.Serializer { return s.opts.Serializer }
