// Command langgraph runs the same graphs on stele and on LangGraph, in turns in
// one run, and prints how many times faster stele is.
//
//	sh bench/langgraph/run.sh            # with an environment of its own
//	go run ./bench/langgraph -python P   # with a Python that has requirements.txt
//
// Both sides are child processes that answer requests one at a time, so that
// they never run at once and share nothing but the machine. Before anything is
// timed, both must have done the same work.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stele-go/stele/bench/graphs"
)

func main() {
	o := options{out: os.Stdout, progress: os.Stderr}
	flag.StringVar(&o.python, "python", "python3", "Python that has the packages of requirements.txt")
	flag.StringVar(&o.program, "program", filepath.Join("bench", "langgraph", "program.py"), "LangGraph's side")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; of each figure the median is shown")
	flag.Float64Var(&o.seconds, "seconds", 0.4, "least time of one measurement")
	only := flag.String("graphs", strings.Join(names(), ","), "graphs to run")
	flag.BoolVar(&o.recordWork, "work", false, "print what LangGraph does in one run of each row, as JSON, and time nothing")
	child := flag.Bool("child", false, "be stele's side: answer requests on standard input")
	flag.Parse()
	o.graphs = strings.Split(*only, ",")
	run := o.run
	if *child {
		run = func() error { return serve(os.Stdin, os.Stdout) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "langgraph:", err)
		os.Exit(1)
	}
}

func names() []string {
	var out []string
	for _, w := range graphs.All() {
		out = append(out, w.Name)
	}
	return out
}
