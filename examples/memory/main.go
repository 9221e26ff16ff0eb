// Command memory is an agent that remembers people across threads. What it learns about a user
// in one conversation it knows in the next, even after a restart. Checkpoints and memories
// are in one directory, and a step of the agent and what it learned are one commit.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// Talk is the state.
type Talk struct {
	Text  string `json:"text"`
	Reply string `json:"reply"`
}

// answer learns from "I like …", and greets with what it knows of the user, who
// is named by the run's config and not by the thread. A program behind a server takes
// server.ItemsOf in place of "users" and the name: there users see it by the API.
func answer(ctx context.Context, t *Talk) (graph.Update, error) {
	task, _ := pregel.Task(ctx)
	facts := store.Namespace{"users", fmt.Sprint(task.Configurable["user"]), "facts"}
	if thing, ok := strings.CutPrefix(t.Text, "I like "); ok {
		if err := task.Store.Put(ctx, facts, thing, map[string]any{"likes": thing}); err != nil {
			return nil, err
		}
		return graph.Write(&t.Reply, "Noted: "+thing+"."), nil
	}
	known, err := task.Store.Search(ctx, store.Query{Prefix: facts, ByKey: true})
	if err != nil {
		return nil, err
	}
	var likes []string
	for _, f := range known {
		likes = append(likes, f.Value["likes"].(string))
	}
	if len(likes) == 0 {
		return graph.Write(&t.Reply, "Hello! We have not met."), nil
	}
	return graph.Write(&t.Reply, "Hello! You like "+strings.Join(likes, " and ")+"."), nil
}

// life is one life of the process: it opens the directory, talks, and ends.
func life(dir string, talk func(say func(thread, user, text string) error) error) error {
	sv, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	defer sv.Close()
	memories, err := store.On(sv, store.Options{})
	if err != nil {
		return err
	}
	defer memories.Close()
	g, err := graph.For[Talk]().
		Node("answer", answer).Sequence(graph.Start, "answer", graph.End).
		Compile(graph.Options{Saver: sv, Store: memories, AtomicStore: true})
	if err != nil {
		return err
	}
	return talk(func(thread, user, text string) error {
		at, opts := pregel.Thread(thread), pregel.RunOptions{Configurable: map[string]any{"user": user}}
		res, err := g.Run(context.Background(), at, Talk{Text: text}, opts)
		if err != nil {
			return err
		}
		fmt.Printf("%s, %s: %q %s\n", thread, user, text, res.State.Reply)
		return nil
	})
}

func run() error {
	dir, err := os.MkdirTemp("", "stele-memory-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	err = life(dir, func(say func(thread, user, text string) error) error {
		for _, m := range [][3]string{{"monday", "ann", "Hi"}, {"monday", "ann", "I like soup"}, {"tuesday", "ann", "I like chess"}} {
			if err := say(m[0], m[1], m[2]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Println("-- the process ends, another begins --")
	return life(dir, func(say func(thread, user, text string) error) error {
		if err := say("friday", "ann", "Hi"); err != nil {
			return err
		}
		return say("friday", "bob", "Hi")
	})
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
