// Command agent is a chat with an agent that notes facts, and mails people after a person has
// approved it. It streams its words, remembers across threads, tries again, and survives kill -9
// at any point: the command kills it again and again, also right after a mail went out. Nothing
// is lost, and each mail goes out once. The agent is in agent.go, its world in world.go.
//
//	go run ./examples/agent
//
// Its model is scripted. An agent that talks to a real one, with a key in the environment, is
// examples/chat.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/pregel/killtest"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

func main() {
	killtest.Main(life) // a process that is going to be killed ends here
	kills := flag.Int("kills", 10, "how often to kill")
	seed := flag.Uint64("seed", 0, "repeats the choices of a run")
	flag.Parse()
	if err := run(*kills, *seed, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// life is one life of the chats, in a directory.
func life(ctx context.Context, dir string) error {
	outbox = filepath.Join(dir, "sent")
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	memories, err := store.On(d, store.Options{})
	if err != nil {
		return err
	}
	defer memories.Close()
	g, err := newAgent(model.NewScriptedFunc(script), graph.Options{Saver: d, Store: memories, AtomicStore: true, Hooks: killtest.Hooks(pregel.Hooks{})})
	if err != nil {
		return err
	}
	if err := chat(ctx, g, "monday", []string{"Ada: is a friend", "Ada: Lunch?", "Bob: is a colleague"}, os.Stdout); err != nil {
		return err
	}
	return chat(ctx, g, "tuesday", []string{"Ada and Bob: I am ill"}, os.Stdout)
}

// run kills processes in their chats.
func run(kills int, seed uint64, out io.Writer) error {
	dir, err := os.MkdirTemp("", "stele-agent-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := killtest.Run(context.Background(), killtest.Options{Kills: kills, Seed: seed, Dir: dir, Check: check, Out: out,
		Killed: func() { fmt.Fprint(out, " [kill -9]") }})
	if err == nil {
		fmt.Fprintf(out, "\n\n%d kills, %d chats (-seed %d): nothing was lost, and each mail went out once\n", r.Kills, r.Rounds, r.Seed)
	}
	return err
}
