package pregel

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
)

// newName returns the present name of a channel.
func (g *Graph) newName(channel string) string { return cmp.Or(g.spec.Aliases[channel], channel) }

// withNewNames returns a copy of cp with the present names of channels. renamed maps the new names of
// the renamed channels to their former ones.
func (g *Graph) withNewNames(cp saver.Checkpoint) (out saver.Checkpoint, renamed map[string]string) {
	for _, from := range slices.Sorted(maps.Keys(g.spec.Aliases)) {
		to := g.spec.Aliases[from]
		_, old := cp.Versions[from]
		if _, both := cp.Versions[to]; !old || both {
			continue
		}
		if was, twice := renamed[to]; twice && cp.Versions[from].Compare(cp.Versions[was]) <= 0 {
			continue
		}
		renamed = merged(renamed, map[string]string{to: from})
	}
	if len(renamed) == 0 {
		return cp, nil
	}
	cp.Values, cp.Versions, cp.Updated = maps.Clone(cp.Values), maps.Clone(cp.Versions), slices.Clone(cp.Updated)
	seen := make(map[string]map[string]saver.Version, len(cp.Seen))
	for n, s := range cp.Seen {
		seen[n] = maps.Clone(s)
	}
	cp.Seen = seen
	for to, from := range renamed {
		rename(cp.Values, from, to)
		rename(cp.Versions, from, to)
		for _, s := range cp.Seen {
			rename(s, from, to)
		}
		if i := slices.Index(cp.Updated, from); i >= 0 {
			cp.Updated[i] = to
		}
	}
	slices.Sort(cp.Updated)
	return cp, renamed
}

func rename[V any](m map[string]V, from, to string) {
	if v, ok := m[from]; ok {
		delete(m, from)
		m[to] = v
	}
}

// checkAliases refuses former names that are channels, and new names that are none.
func (g *Graph) checkAliases() error {
	for from, to := range g.spec.Aliases {
		switch {
		case g.specs.has(from):
			return &GraphError{Channel: from, Reason: fmt.Sprintf("is a former name of %q, and also a channel", to)}
		case !g.specs.has(to):
			return &GraphError{Channel: to, Reason: fmt.Sprintf("has the former name %q, but there is no such channel", from)}
		}
	}
	return nil
}
