//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// letter is the state of a thread that waits for a person, and letterTwo that of the program that judges it.
type letter struct {
	To   string
	Text []string
}

type letterTwo struct {
	To   string
	Text []string
	Sent bool
}

// asking is a graph over S whose node asks a person.
func asking[S any](s saver.Saver) (*graph.Graph[S], error) {
	return graph.For[S]().Node("approve", func(ctx context.Context, _ *S) (graph.Update, error) {
		_, err := pregel.Ask(ctx, "send?")
		return nil, err
	}).Edge(graph.Start, "approve").Compile(graph.Options{Name: "letters", Saver: s})
}

// preflight prints how long a changed program takes to judge threads of 10 KB that wait for a person.
func preflight(threads int) error {
	ctx := context.Background()
	s, _, end, err := cluster(ctx, "fsync=off", "shared_buffers=256MB")
	if err != nil {
		return err
	}
	defer end()
	one, err := asking[letter](s)
	if err != nil {
		return err
	}
	two, err := asking[letterTwo](s)
	if err != nil {
		return err
	}
	for i := range threads {
		text := make([]string, 20)
		for j := range text {
			for len(text[j]) < 500 {
				text[j] += rand.Text() // does not compress away
			}
		}
		if _, err := one.Run(ctx, pregel.Thread(fmt.Sprintf("letter-%06d", i)), letter{To: "x", Text: text}, pregel.RunOptions{Durability: pregel.Exit}); err != nil {
			return err
		}
	}
	begin := time.Now()
	report, err := two.Preflight(ctx, s, saver.ThreadQuery{})
	if err != nil {
		return err
	}
	if report.Threads != threads || len(report.Broken) != 0 {
		return fmt.Errorf("judged %d threads, %d of which break", report.Threads, len(report.Broken))
	}
	fmt.Printf("%d threads of 10 KB judged in %v\n", threads, time.Since(begin).Round(10*time.Millisecond))
	return nil
}
