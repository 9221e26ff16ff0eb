package saver

import "github.com/stele-go/stele/serde"

var _ Serializing = (*Disk)(nil)

// Serializer implements Serializing.
func (s *Disk) Serializer() serde.Serializer { return s.codec }
