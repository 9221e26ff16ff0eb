package disk

import "github.com/stele-go/stele/monitor"

// Health judges the store by what is in memory and the free space of the device. It
// reads no file, takes microseconds, may be called from any goroutine, and answers
// after Close too.
func (s *Saver) Health() monitor.Health { return s.e.Health() }

// Space asks the system for the room on the device. With an error, Free and Total
// are not known.
func (s *Saver) Space() (monitor.Space, error) { return s.e.Space() }
