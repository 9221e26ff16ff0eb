//go:build unix

// Command fleet lets two worker processes share the runs of one database, and kills them
// while it watches: each letter is written to its end, and each mail goes out once.
//
//	go run ./examples/fleet                             # on a PostgreSQL of its own, if one is installed
//	DATABASE_URL=postgres://… go run ./examples/fleet
//
// It prints what the workers do, and their process ids: kill them yourself as well.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgqueue"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
)

func main() {
	worker := flag.Bool("worker", false, "be a worker process")
	letters := flag.Int("letters", 12, "how many letters to write")
	kills := flag.Int("kills", 6, "how often to kill a worker")
	flag.Parse()
	ctx := context.Background()
	run := func() error { return watch(ctx, *letters, *kills) }
	if *worker {
		run = func() error { return work(ctx) }
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// letter is a graph of three steps, each of which takes its time. The outbox is a directory:
// a mail with a key that was seen before is dropped, as a mail service would.
func letter(s *postgres.Saver, outbox string) (*pregel.Graph, error) {
	step := func(name string, do func(ctx context.Context, to string) error) pregel.Func {
		return func(ctx context.Context, state any) (any, error) {
			to := state.(map[string]any)["to"].(string)
			fmt.Printf("worker %d: %s %s\n", os.Getpid(), name, to)
			time.Sleep(150 * time.Millisecond)
			return map[string]any{"done": []string{name}}, do(ctx, to)
		}
	}
	nothing := func(context.Context, string) error { return nil }
	send := func(ctx context.Context, to string) error {
		key, err := pregel.IdempotencyKey(ctx, "mail") // the same in every attempt
		if err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(outbox, key), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, os.ErrExist) {
			return nil
		}
		if err == nil {
			_, err = fmt.Fprintln(f, to)
			err = errors.Join(err, f.Close())
		}
		return err
	}
	return graph.New(graph.Key("to", channel.LastValue[string]()), graph.Key("done", channel.Reduce(channel.Append[string]))).
		Node("research", step("researches for", nothing)).
		Node("draft", step("writes to", nothing)).
		Node("mail", step("mails", send)).
		Sequence(graph.Start, "research", "draft", "mail").
		Compile(graph.Options{Name: "letter", Saver: s})
}

// open opens the database. A worker that died holds its runs for a second.
func open(ctx context.Context) (*postgres.Saver, *pgqueue.Queue, error) {
	s, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{LeaseTime: time.Second})
	if err != nil {
		return nil, nil, err
	}
	return s, pgqueue.Open(s, pgqueue.Options{LeaseTime: time.Second}), nil
}

// work is what a worker process does until it is killed.
func work(ctx context.Context) error {
	s, q, err := open(ctx)
	if err != nil {
		return err
	}
	g, err := letter(s, os.Getenv("OUTBOX"))
	if err != nil {
		return err
	}
	w := &runs.Worker{Queue: q, Saver: s, Graphs: map[string]*pregel.Graph{"letter": g}, Concurrency: 2}
	return w.Run(ctx)
}

// watch submits the letters, kills the workers now and then, and waits.
func watch(ctx context.Context, letters, kills int) error {
	if os.Getenv("DATABASE_URL") == "" {
		server, err := pgtest.New()
		if err != nil {
			return fmt.Errorf("set DATABASE_URL, or install PostgreSQL: %w", err)
		}
		defer server.Close()
		os.Setenv("DATABASE_URL", server.URL("postgres"))
	}
	outbox, err := os.MkdirTemp("", "outbox")
	if err != nil {
		return err
	}
	defer os.RemoveAll(outbox)
	os.Setenv("OUTBOX", outbox)
	if err := postgres.Setup(ctx, os.Getenv("DATABASE_URL"), postgres.Options{}); err != nil {
		return err
	}
	s, q, err := open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	defer q.Close()

	var submitted []runs.Run
	for i := range letters {
		to := fmt.Sprint("reader ", i+1)
		r, err := q.Submit(ctx, runs.Request{Spec: runs.Spec{Graph: "letter", Attempts: 100}, Input: map[string]any{"to": to}})
		if err != nil {
			return err
		}
		submitted = append(submitted, r)
	}
	var workers [2]*exec.Cmd
	for i := range workers {
		if workers[i], err = start(); err != nil {
			return err
		}
		defer func() {
			_ = workers[i].Process.Kill()
			_ = workers[i].Wait()
		}()
	}
	for range kills {
		time.Sleep(time.Duration(200+rand.IntN(400)) * time.Millisecond)
		i := rand.IntN(len(workers))
		fmt.Printf("-- kill -9 %d\n", workers[i].Process.Pid)
		_ = workers[i].Process.Kill()
		_ = workers[i].Wait()
		if workers[i], err = start(); err != nil {
			return err
		}
	}
	again := 0
	for _, r := range submitted {
		if r, err = runs.Wait(ctx, q, r.ID); err != nil {
			return err
		}
		if r.Status != runs.Success {
			return fmt.Errorf("run %s: %s %s", r.ID, r.Status, r.Error)
		}
		again += r.Attempt - 1
	}
	mails, err := os.ReadDir(outbox)
	if err != nil {
		return err
	}
	fmt.Printf("%d letters are done after %d kills; %d were begun by one worker and ended by another; %d mails went out\n", letters, kills, again, len(mails))
	return nil
}

// start starts a worker process.
func start() (*exec.Cmd, error) {
	cmd := exec.Command(os.Args[0], "-worker")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd, cmd.Start()
}
