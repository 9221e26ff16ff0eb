package pregel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// Version is Options.Version, or the graph's fingerprint if that is not set: 12 hexadecimal digits, a hash
// of what matters to stored state. That is the nodes with their triggers and the graphs inside them, the
// channels (channel.Signature), and the breakpoints of Options. It is the same in every process and does
// not depend on the order of declarations. What nodes do does not count, nor does a reducer that is given
// as a function, which has no name: if one changes its meaning, set Options.Version.
//
// Each checkpoint has the version of the graph that stored it: StateSnapshot.Version and
// saver.ThreadInfo.Version show it.
func (g *Graph) Version() string { return g.mustBe().version }

// MigratesFrom reports whether one of Options.Migrations is for threads of a version.
func (g *Graph) MigratesFrom(version string) bool { return g.mustBe().migrations[version] != nil }

// versionOf is the version in a note; "" if there is none.
func versionOf(n *saver.Note) string {
	if n == nil {
		return ""
	}
	return n.Version
}

// isFingerprint reports whether a version has the form of one that no author has named.
func isFingerprint(version string) bool {
	return len(version) == 12 && strings.Trim(version, "0123456789abcdef") == ""
}

// fingerprint hashes what Version says.
func (g *Graph) fingerprint() string {
	var lines []string
	for _, n := range g.spec.Nodes {
		line := fmt.Sprintf("node %q on %q", n.Name, g.plans[n.Name].triggers)
		for _, in := range n.Subgraphs {
			line += " with " + in.version
		}
		lines = append(lines, line)
	}
	for i, name := range g.specs.names {
		lines = append(lines, fmt.Sprintf("channel %q %s", name, channel.Signature(g.specs.list[i])))
	}
	for when, names := range map[string][]string{"before": g.opts.InterruptBefore, "after": g.opts.InterruptAfter} {
		for _, n := range names {
			lines = append(lines, fmt.Sprintf("break %s %q", when, n))
		}
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(lines), "\n")))
	return hex.EncodeToString(sum[:6])
}
