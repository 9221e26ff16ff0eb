package memory

import "github.com/stele-go/stele/serde"

// Serializer implements saver.Serializing.
func (s *Saver) Serializer() serde.Serializer { return s.opts.Serializer }
