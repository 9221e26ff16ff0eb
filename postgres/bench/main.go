//go:build linux

// Command bench measures what a superstep costs on PostgreSQL, beside LangGraph for Python
// with its AsyncPostgresSaver on the same server, in turns in one run.
//
//	go run ./bench -python P   # in the directory of module postgres; P has langgraph,
//	                           # langgraph-checkpoint-postgres and psycopg[binary,pool]
//
//	go run ./bench -preflight 100000 # how long a program takes to judge so many threads of 10 KB that wait
//
//	go run ./bench -fleet      # runs of 1, 2, 4, 8 workers; from Submit to the first node; from
//	                           # the death of a worker until its run goes on; what sleepers cost
//
// It starts a cluster of its own, whose commits reach the disk. Of each figure the median
// over the rounds is shown.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/postgres/pgtest"
)

func main() {
	python := flag.String("python", "python3", "Python that has the packages")
	program := flag.String("program", filepath.Join("bench", "program.py"), "LangGraph's side")
	rounds := flag.Int("rounds", 5, "rounds")
	seconds := flag.Float64("seconds", 3, "length of one measurement")
	onlyFleet := flag.Bool("fleet", false, "measure workers and their runs instead, without LangGraph")
	threads := flag.Int("preflight", 0, "judge this number of threads instead, without LangGraph")
	child := flag.Bool("child", false, "be stele's side: answer requests on standard input")
	victim := flag.String("victim", "", "be a worker on the database of this connection string that hangs in its first node")
	flag.Parse()
	run := func() error { return compare(*python, *program, *rounds, *seconds) }
	if *onlyFleet {
		run = fleet
	}
	if *threads > 0 {
		run = func() error { return preflight(*threads) }
	}
	if *child {
		run = func() error { return serve(os.Stdin, os.Stdout) }
	}
	if *victim != "" {
		run = func() error { return hang(*victim) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// side is a program that answers requests, and its database.
type side struct {
	name string
	url  string
	in   *json.Encoder
	out  *json.Decoder
	stop func() error
}

func start(name, url, program string, args ...string) (*side, error) {
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stop := func() error {
		in.Close()
		return cmd.Wait()
	}
	return &side{name, url, json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out)), stop}, cmd.Start()
}

func (s *side) ask(r request) (a answer, err error) {
	r.URL = s.url
	if err := s.in.Encode(r); err != nil {
		return a, fmt.Errorf("%s: %w", s.name, err)
	}
	if err := s.out.Decode(&a); err != nil {
		return a, fmt.Errorf("%s does not answer: %w", s.name, err)
	}
	return a, nil
}

// figures are those of one measurement, for a superstep.
type figures struct {
	rate           float64 // supersteps in a second
	client, server float64 // CPU, in µs
}

func compare(python, program string, rounds int, seconds float64) error {
	server, err := pgtest.New("fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=256MB")
	if err != nil {
		return err
	}
	defer server.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx := context.Background()
	admin, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return err
	}
	defer admin.Close(ctx)
	for _, name := range []string{"go", "python"} {
		if _, err := admin.Exec(ctx, "CREATE DATABASE "+name); err != nil {
			return err
		}
	}
	stele, err := start("stele", server.URL("go"), self, "-child")
	if err != nil {
		return err
	}
	langgraph, err := start("LangGraph", server.URL("python"), python, program)
	if err != nil {
		return err
	}
	sides := []*side{stele, langgraph}
	fmt.Println("threads  side        supersteps/s  client µs  server µs  per client CPU second")
	for _, threads := range []int{1, 8, 64} {
		found := map[*side][]figures{}
		for _, s := range sides { // connections are opened and statements planned before
			if _, err := s.ask(request{Threads: threads, Seconds: min(seconds, 1), Nodes: 20}); err != nil {
				return err
			}
		}
		for range rounds {
			for _, s := range sides {
				before := serverCPU(server)
				a, err := s.ask(request{Threads: threads, Seconds: seconds, Nodes: 20})
				if err != nil {
					return err
				}
				n := float64(a.Supersteps)
				found[s] = append(found[s], figures{n / a.Seconds, a.CPU / n * 1e6, (serverCPU(server) - before) / n * 1e6})
			}
		}
		for _, s := range sides {
			m := medians(found[s])
			fmt.Printf("%7d  %-10s  %12.0f  %9.0f  %9.0f  %21.0f\n", threads, s.name, m.rate, m.client, m.server, 1e6/m.client)
		}
	}
	fmt.Println("\nchat of 200 steps, 400 bytes each: bytes in tables and indexes")
	for _, s := range sides {
		if err := chatSize(ctx, s); err != nil {
			return err
		}
	}
	for _, s := range sides {
		if err := s.stop(); err != nil {
			return err
		}
	}
	return nil
}

// chatSize prints what a chat takes, and what of it is left behind a prune.
func chatSize(ctx context.Context, s *side) error {
	conn, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	before, err := size(ctx, conn)
	if err != nil {
		return err
	}
	var took []int64
	for _, r := range []request{{Chat: 200}, {Prune: true}} {
		if _, err := s.ask(r); err != nil {
			return err
		}
		after, err := size(ctx, conn)
		if err != nil {
			return err
		}
		took = append(took, after-before)
	}
	fmt.Printf("%-10s %d (%d a step), %d when pruned\n", s.name, took[0], took[0]/200, took[1])
	return nil
}

// size is what the tables of a database take, packed.
func size(ctx context.Context, conn *pgx.Conn) (n int64, err error) {
	if _, err := conn.Exec(ctx, "VACUUM FULL"); err != nil {
		return 0, err
	}
	err = conn.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
		JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'`).Scan(&n)
	return n, err
}

func medians(all []figures) figures {
	pick := func(of func(figures) float64) float64 {
		var v []float64
		for _, f := range all {
			v = append(v, of(f))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return figures{
		pick(func(f figures) float64 { return f.rate }),
		pick(func(f figures) float64 { return f.client }),
		pick(func(f figures) float64 { return f.server }),
	}
}

// serverCPU is what the processes of a cluster have computed so far, in seconds, those that
// have ended included.
func serverCPU(s *pgtest.Server) float64 {
	pidFile, err := os.ReadFile(filepath.Join(s.Dir, "data", "postmaster.pid"))
	if err != nil {
		panic(err)
	}
	root, _, _ := strings.Cut(string(pidFile), "\n")
	ticks := 0
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// After the name in brackets: state, parent, …; times are the 12th to 15th.
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		pid := filepath.Base(filepath.Dir(path))
		if len(fields) < 15 || pid != root && fields[1] != root {
			continue
		}
		last := 13
		if pid == root { // and of the children that it waited for
			last = 15
		}
		for _, f := range fields[11:last] {
			n, _ := strconv.Atoi(f)
			ticks += n
		}
	}
	return float64(ticks) / 100 // USER_HZ
}
