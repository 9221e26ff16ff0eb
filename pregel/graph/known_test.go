package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestUnknownNodeNamesTheKnown: an edge that begins or ends at an unknown node names those that there are, and no more
// than a person reads.
func TestUnknownNodeNamesTheKnown(t *testing.T) {
	for _, edge := range [][2]string{{"revue", "mail"}, {"mail", "revue"}} {
		for _, n := range []int{1, 500} {
			b := graph.New(graph.Key("text", channel.LastValue[string]())).Node("mail", nothing).Edge(graph.Start, "mail").Edge(edge[0], edge[1])
			for i := 1; i < n; i++ {
				b.Node(fmt.Sprint("node ", i), nothing)
			}
			_, err := b.Compile(graph.Options{})
			if err == nil || !strings.Contains(err.Error(), `the graph has ["mail"`) || strings.Contains(err.Error(), "480 more") != (n == 500) || len(err.Error()) > 600 {
				t.Errorf("%q, %d nodes: %v", edge, n, err)
			}
		}
	}
}
