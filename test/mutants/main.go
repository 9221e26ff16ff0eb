package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	pick := flags.String("run", "", "only mutants whose name matches this expression")
	all := flags.Bool("all", false, "run the whole suite against each mutant, not only the test it names")
	parallel := flags.Int("p", 4, "how many mutants are tried at once; the tests of many wait")
	timeout := flags.Duration("timeout", 2*time.Minute, "time limit of one test binary; a mutant may make a test wait for ever, and has less if its test is quick without it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	mutants, err := selected(root, *pick, flags.Args())
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{root: root, dir: dir, timeout: *timeout}
	if err := b.weave(mutants); err != nil {
		return err
	}
	if *all { // one at a time, since the go command fills the machine itself
		return report(mutants, tryAll(ctx, mutants, 1, b.suite))
	}
	start := time.Now()
	if err := b.build(ctx, mutants); err != nil {
		return err
	}
	built := time.Since(start)
	if err := b.healthy(ctx, mutants, *parallel); err != nil {
		return err
	}
	fmt.Printf("the tests are built (%.0f s), and pass without a mutant (%.0f s)\n", built.Seconds(), (time.Since(start) - built).Seconds())
	return report(mutants, tryAll(ctx, mutants, *parallel, b.one))
}

// repository is the directory of the module this is run in.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("run this inside the repository")
	}
	return filepath.Dir(mod), nil
}

// selected are the mutants whose name matches, and, if there are dirs, whose code or test
// is in one of them. A directory may have none.
func selected(root, pick string, dirs []string) ([]*mutant, error) {
	re, err := regexp.Compile(pick)
	if err != nil {
		return nil, err
	}
	mutants, err := loadAll(root)
	if err != nil {
		return nil, err
	}
	for i, dir := range dirs {
		dirs[i] = path.Clean(filepath.ToSlash(dir))
		if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
			return nil, err
		}
	}
	var out []*mutant
	for _, m := range mutants {
		if re.MatchString(m.name) && (len(dirs) == 0 || slices.Contains(dirs, m.pkg) || slices.Contains(dirs, m.edits[0].dir)) {
			out = append(out, m)
		}
	}
	if len(out) == 0 && len(dirs) == 0 {
		return nil, fmt.Errorf("no mutant matches %q", pick)
	}
	return out, nil
}

// tryAll tries the mutants, some at once, and prints each outcome when it is
// there.
func tryAll(ctx context.Context, mutants []*mutant, workers int, try func(context.Context, *mutant) outcome) []outcome {
	outcomes := make([]outcome, len(mutants))
	var printing sync.Mutex
	each(workers, len(mutants), func(i int) {
		outcomes[i] = try(ctx, mutants[i])
		printing.Lock()
		defer printing.Unlock()
		fmt.Println(line(mutants[i], outcomes[i]))
	})
	return outcomes
}

// each calls f with 0 to n-1, in as many goroutines as there are workers.
func each(workers, n int, f func(int)) {
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

func line(m *mutant, o outcome) string {
	what := [...]string{survived: "SURVIVED", killed: "killed", broken: "BROKEN"}[o.verdict]
	text := fmt.Sprintf("%-8s %-26s %5.1f s  %s: %s", what, m.name, o.took.Seconds(), m.pkg, o.evidence)
	if o.verdict == survived {
		text += fmt.Sprintf("\n         %s\n         expected to fail: go test ./%s -run '^(%s)$' %s", m.about, m.pkg, m.test, strings.Join(m.env, " "))
	}
	return text
}

// report is an error unless every mutant was killed.
func report(mutants []*mutant, outcomes []outcome) error {
	var left []string
	late := 0
	for i, o := range outcomes {
		if o.verdict != killed {
			left = append(left, mutants[i].name)
		} else if strings.Contains(o.evidence, "test timed out") {
			late++
		}
	}
	fmt.Printf("%d mutants, %d killed, %d of them by a time limit\n", len(mutants), len(mutants)-len(left), late)
	if len(left) > 0 {
		return fmt.Errorf("not killed: %s", strings.Join(left, ", "))
	}
	return nil
}
