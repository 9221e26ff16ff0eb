package pregel

import "github.com/stele-go/stele/pregel/channel"

// channelSet are the channels of one loop, in the order of their declaration.
// Names and index are the graph's and do not change.
type channelSet struct {
	names []string
	index map[string]int
	list  []channel.Channel
}

// add appends a channel while the graph is made.
func (s *channelSet) add(name string, ch channel.Channel) {
	if s.index == nil {
		s.index = map[string]int{}
	}
	s.index[name] = len(s.names)
	s.names, s.list = append(s.names, name), append(s.list, ch)
}

func (s *channelSet) get(name string) (channel.Channel, bool) {
	i, ok := s.index[name]
	if !ok {
		return nil, false
	}
	return s.list[i], true
}

func (s *channelSet) has(name string) bool {
	_, ok := s.index[name]
	return ok
}

// at returns the channel with this name; nil if there is none.
func (s *channelSet) at(name string) channel.Channel {
	ch, _ := s.get(name)
	return ch
}

// copy is a set whose channels change on their own.
func (s *channelSet) copy() *channelSet {
	c := &channelSet{names: s.names, index: s.index, list: make([]channel.Channel, len(s.list))}
	for i, ch := range s.list {
		c.list[i] = ch.Copy()
	}
	return c
}

// read is the value of sel: of a single channel its value or nil, of several a
// map of those that have one.
func (s *channelSet) read(sel Keys) any {
	if sel.Single {
		if c, ok := s.get(sel.Names[0]); ok {
			v, _ := c.Get()
			return v
		}
		return nil
	}
	out := make(map[string]any, len(sel.Names))
	for _, name := range sel.Names {
		if c, ok := s.get(name); ok {
			if v, ok := c.Get(); ok {
				out[name] = v
			}
		}
	}
	return out
}
