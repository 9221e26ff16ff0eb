package memory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// checkpoint is immutable once it is in its namespace. It shares equal parts, such as most of its
// versions, with the checkpoint before it.
type checkpoint struct {
	v        int // of saver.Checkpoint, as ts and updated
	ts       string
	updated  []string
	parent   string
	metadata serde.Typed
	note     *saver.Note // nil if there is none
	slots    []*slot     // of all channels that have a version, ascending
	seen     []*node     // ascending
}

// slot is the version of a channel, and what a checkpoint reads for it.
type slot struct {
	channel string
	version saver.Version
	value   serde.Typed
	empty   bool   // the channel got its version without a value
	commit  uint64 // the commit that stored it; 0 if none did, and there is nothing to read
}

// node has the versions of channels that a node saw, ascending.
type node struct {
	name string
	saw  []version
}

// version is that of one channel.
type version struct {
	channel string
	version saver.Version
}

// isFilled reports whether there is a value to read.
func (sl *slot) isFilled() bool { return sl.commit > 0 && !sl.empty }

func (sl *slot) compare(channel string) int { return strings.Compare(sl.channel, channel) }

func compareSlots(a, b *slot) int { return a.compare(b.channel) }

// slot finds the slot of a channel; nil if it has no version, or cp is nil.
func (cp *checkpoint) slot(channel string) *slot {
	if cp == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(cp.slots, channel, (*slot).compare)
	if !ok {
		return nil
	}
	return cp.slots[i]
}

// node finds a node by its name; nil if there is none, or cp is nil.
func (cp *checkpoint) node(name string) *node {
	if cp == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(cp.seen, name, func(n *node, name string) int { return strings.Compare(n.name, name) })
	if !ok {
		return nil
	}
	return cp.seen[i]
}

// share replaces strings by equal ones of cp, so that they are in memory once.
func (cp *checkpoint) share(v version) version {
	if sl := cp.slot(v.channel); sl != nil {
		v.channel = sl.channel
		if sl.version == v.version {
			v.version = sl.version
		}
	}
	return v
}

// look makes the list of nodes from seen. It shares the nodes of before that have seen nothing new.
func (cp *checkpoint) look(seen map[string]map[string]saver.Version, before *checkpoint) {
	cp.seen = make([]*node, 0, len(seen))
	for name, versions := range seen {
		n := before.node(name)
		if n == nil || !n.is(versions) {
			n = &node{name: name, saw: make([]version, 0, len(versions))}
			for channel, v := range versions {
				n.saw = append(n.saw, cp.share(before.share(version{channel, v})))
			}
			slices.SortFunc(n.saw, func(a, b version) int { return cmp.Compare(a.channel, b.channel) })
		}
		cp.seen = append(cp.seen, n)
	}
	slices.SortFunc(cp.seen, func(a, b *node) int { return cmp.Compare(a.name, b.name) })
}

// is reports whether n saw exactly these versions.
func (n *node) is(versions map[string]saver.Version) bool {
	if len(versions) != len(n.saw) {
		return false
	}
	for _, v := range n.saw {
		if now, ok := versions[v.channel]; !ok || now != v.version {
			return false
		}
	}
	return true
}

// checkpoint returns cp, whose id is id, for a caller, who may change it. It has no values.
func (cp *checkpoint) checkpoint(id string) saver.Checkpoint {
	out := saver.Checkpoint{V: cp.v, ID: id, TS: cp.ts, Updated: slices.Clone(cp.updated),
		Versions: make(map[string]saver.Version, len(cp.slots)), Seen: make(map[string]map[string]saver.Version, len(cp.seen))}
	for _, sl := range cp.slots {
		out.Versions[sl.channel] = sl.version
	}
	for _, n := range cp.seen {
		versions := make(map[string]saver.Version, len(n.saw))
		for _, v := range n.saw {
			versions[v.channel] = v.version
		}
		out.Seen[n.name] = versions
	}
	return out
}
