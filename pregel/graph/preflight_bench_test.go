package graph_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// BenchmarkPreflight judges threads of 10 KB that wait, on disk: a thousand, or PREFLIGHT_THREADS.
func BenchmarkPreflight(b *testing.B) {
	n := 1000
	if text, ok := os.LookupEnv("PREFLIGHT_THREADS"); ok {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	s, err := disk.Open(b.TempDir(), disk.Options{Sync: disk.SyncNever})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	g, err := graph.For[letterOne]().Node("approve", asks[letterOne]).Edge(graph.Start, "approve").Compile(graph.Options{Name: "letters", Saver: s})
	if err != nil {
		b.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // text that does not compress away
	for i := range n {
		text := make([]string, 20)
		for j := range text {
			line := make([]byte, 500)
			for k := range line {
				line[k] = 'a' + byte(random.IntN(26))
			}
			text[j] = string(line)
		}
		if _, err := g.Run(b.Context(), pregel.Thread(fmt.Sprintf("letter-%06d", i)), letterOne{To: "x", Text: text}, pregel.RunOptions{Durability: pregel.Exit}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	two := lettersTwo(b, "letters", nil)
	for b.Loop() {
		r, err := two.Preflight(b.Context(), s, saver.ThreadQuery{})
		if err != nil || r.Threads != n || len(r.Broken) != 0 {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/thread")
}
