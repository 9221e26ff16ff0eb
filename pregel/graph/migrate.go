package graph

import (
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver"
)

// migrate renames the channels of checkpoints that older releases of LangGraph
// wrote: start:X, branch:source:condition:X and channels named like nodes become
// branch:to:X. If two get the same name, the higher version counts.
func (c *compiler) migrate(cp *saver.Checkpoint) error {
	if len(cp.Versions) == 0 || cp.V >= 3 {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(cp.Versions)) {
		if node, ok := strings.CutPrefix(k, "start:"); ok && c.nodes[node] != nil {
			c.rename(cp, k, node)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(cp.Versions)) {
		if strings.HasPrefix(k, "branch:") && strings.Count(k, ":") == 3 {
			if node := k[strings.LastIndex(k, ":")+1:]; c.nodes[node] != nil {
				c.rename(cp, k, node)
			}
		}
	}
	targets := map[string][]string{}
	for _, e := range c.b.edges {
		if e.from != Start && e.to != End {
			targets[e.from] = append(targets[e.from], e.to)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(cp.Versions)) {
		if k == Start || c.nodes[k] == nil {
			continue
		}
		version, value, has := cp.Versions[k], cp.Values[k], false
		_, has = cp.Values[k]
		delete(cp.Versions, k)
		delete(cp.Values, k)
		for _, end := range targets[k] {
			to := branchTo + end
			moveSeen(cp, k, to, end)
			if _, taken := cp.Values[to]; !taken && has {
				cp.Values[to] = value
			}
			cp.Versions[to] = highest(cp.Versions[to], version)
		}
		delete(cp.Seen[saver.ChannelInterrupt], k)
	}
	return nil
}

// rename renames the channel from to the trigger of node.
func (c *compiler) rename(cp *saver.Checkpoint, from, node string) {
	to := branchTo + node
	version := cp.Versions[from]
	delete(cp.Versions, from)
	moveSeen(cp, from, to, node)
	if v, ok := cp.Values[from]; ok {
		if _, taken := cp.Values[to]; !taken {
			cp.Values[to] = v
			delete(cp.Values, from)
		}
	}
	cp.Versions[to] = highest(cp.Versions[to], version)
}

// moveSeen makes what node has seen of channel from what it has seen of channel to.
func moveSeen(cp *saver.Checkpoint, from, to, node string) {
	for _, seen := range []map[string]saver.Version{cp.Seen[node], cp.Seen[saver.ChannelInterrupt]} {
		if v, ok := seen[from]; ok {
			delete(seen, from)
			seen[to] = highest(seen[to], v)
		}
	}
}

func highest(a, b saver.Version) saver.Version {
	if a.Compare(b) > 0 {
		return a
	}
	return b
}
