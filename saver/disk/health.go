package disk

import "github.com/stele-go/stele/monitor"

// Health judges the store by what is in memory and the free space of the device. It
// reads no file, takes microseconds, and may be called from any goroutine. After Close it
// has monitor.TroubleClosed alone.
func (s *Saver) Health() monitor.Health { return s.e.Health() }

// Space asks the system for the room on the device. With an error, Free and Total
// are not known. After Close the error matches saver.ErrClosed.
func (s *Saver) Space() (monitor.Space, error) { return s.e.Space() }
