package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/server/studio"
)

// devCmd builds and runs a program that serves graphs, again whenever its source changes, with
// Studio beside it.
func (a *app) devCmd() *cobra.Command {
	var listen, at string
	cmd := &cobra.Command{
		Use: "dev PACKAGE [-- ARGUMENT...]", Short: "Run a program that serves graphs, again when its source changes, with Studio",
		Long: `Run a program that serves graphs (see package server), and Studio beside it, until a signal ends both.

PACKAGE is a directory with a main package. It is built, and built again when a Go file of its module changes.
The program that runs is then told to end (SIGTERM), and the new one takes its place: what it keeps in a store
survives. While the source does not build, the old one goes on.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := url.Parse(at)
			if err != nil || to.Host == "" {
				return fmt.Errorf("--url: %q is not the URL of a server, such as http://localhost:2024", at)
			}
			if c, err := net.DialTimeout("tcp", hostPort(to), time.Second); err == nil {
				_ = c.Close()
				fmt.Fprintf(a.err, "stele: something answers at %s already: if the program cannot listen there, give it another address by its own arguments"+
					" (behind --), and name that by --url\n", at)
			}
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			page := make(chan error, 1)
			go func() {
				err := a.serveStudio(ctx, listen, studio.New(studio.Remote(to, http.Header{}), studio.Options{}))
				stop()
				page <- err
			}()
			err = (&developed{app: a, dir: args[0], args: args[1:]}).run(ctx)
			stop()
			if err = errors.Join(err, <-page); err == nil {
				fmt.Fprint(a.err, "stele: ended; what the program keeps in a store on disk is kept, and the same command continues with it\n")
			}
			return err
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "localhost:2025", "address at which Studio answers")
	cmd.Flags().StringVar(&at, "url", "http://localhost:2024", "where the program serves")
	return cmd
}

// hostPort is the address that the URL of a server stands for.
func hostPort(to *url.URL) string {
	if to.Port() != "" {
		return to.Host
	}
	return net.JoinHostPort(to.Hostname(), map[bool]string{true: "443", false: "80"}[to.Scheme == "https"])
}

// developed is a program whose source may change.
type developed struct {
	*app
	dir  string
	args []string
}

// look is the pause between two checks of the source.
const look = 500 * time.Millisecond

func (d *developed) run(ctx context.Context) error {
	temp, err := os.MkdirTemp("", "stele-dev-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	root := moduleRoot(d.dir)
	var running *process
	defer func() { running.end() }()
	built, broken := "", false
	for n := 0; ctx.Err() == nil; {
		if now := source(root); now != built {
			built = now
			n++
			binary := filepath.Join(temp, fmt.Sprintf("program%d.exe", n))
			build := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
			build.Dir = d.dir
			was := broken
			out, err := build.CombinedOutput()
			if broken = err != nil; broken {
				fmt.Fprintf(d.err, "stele: the source does not build: %v\n%s", err, out)
			} else {
				running.end()
				if running, err = start(binary, d.args, d.app); err != nil {
					return err
				}
				if was {
					fmt.Fprintln(d.err, "stele: the source builds again, and its program runs")
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(look):
		case err := <-running.over():
			if err == nil {
				err = errors.New("exit status 0")
			}
			fmt.Fprintf(d.err, "stele: the program ended: %v; it is started again when its source changes\n", err)
			running = nil // until the source changes
		}
	}
	return nil
}

// process is a program that runs.
type process struct {
	cmd   *exec.Cmd
	ended chan error
}

func start(binary string, args []string, a *app) (*process, error) {
	p := &process{cmd: exec.Command(binary, args...), ended: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = a.out, a.err
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.ended <- p.cmd.Wait() }()
	return p, nil
}

// over receives when the process has ended by itself. Without a process it never does.
func (p *process) over() <-chan error {
	if p == nil {
		return nil
	}
	return p.ended
}

// end tells the process to end, and kills it if it does not.
func (p *process) end() {
	if p == nil {
		return
	}
	if err := p.cmd.Process.Signal(terminate); err != nil {
		_ = p.cmd.Process.Kill()
	}
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// moduleRoot is the nearest directory above dir that has a go.mod; dir if there is none.
func moduleRoot(dir string) string {
	at, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		up := filepath.Dir(at)
		if up == at {
			return dir
		}
		at = up
	}
}

// source returns a text that changes when a Go file, or a file that is compiled in, may have changed.
func source(root string) string {
	var text strings.Builder
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed since
		}
		if e.IsDir() {
			if name := e.Name(); path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		name := e.Name()
		if filepath.Ext(name) != ".go" && name != "go.mod" && name != "go.sum" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		if info, err := e.Info(); err == nil {
			fmt.Fprintln(&text, path, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	return text.String()
}
