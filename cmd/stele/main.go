package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/ops/transfer/sqlite"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/saver"
)

// Exit codes; see the package comment.
const (
	exitDone   = 0
	exitFound  = 1
	exitFailed = 2
	exitLocked = 3
)

func main() {
	args := os.Args[1:]
	os.Exit(untilSignal(onlyReads(args), func(ctx context.Context) int {
		return run(ctx, args, os.Stdout, os.Stderr)
	}))
}

// run is main with its context, arguments and outputs as parameters.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	a := &app{out: stdout, err: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return a.code
	}
	a.report(inShell(hint(err, cmd.Flags().Args()), cmd.Flags().Args()))
	if errors.Is(err, fault.ErrLocked) {
		return exitLocked
	}
	return exitFailed
}

// said is an error in the words of the shell, in place of those of the error that it wraps.
type said struct {
	text string
	err  error
}

// Error is the text.
func (e *said) Error() string { return e.text }

// Unwrap returns the error as the program knows it.
func (e *said) Unwrap() error { return e.err }

// inShell says in the words of the shell what a store in use, and a file in place of a directory, mean.
func inShell(err error, args []string) error {
	var locked *fault.LockedError
	if errors.As(err, &locked) {
		holder := locked.Holder
		if holder == "" {
			holder = "unknown"
		}
		text := fmt.Sprintf("store %s is open in another process (%s): stop it first. Commands that only read work beside it", locked.Dir, holder)
		return &said{strings.Replace(err.Error(), locked.Error(), text, 1), err}
	}
	var failed *fs.PathError
	if !errors.As(err, &failed) || !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	for _, arg := range args {
		if st, serr := os.Stat(arg); serr == nil && !st.IsDir() && (failed.Path == arg || strings.HasPrefix(failed.Path, arg+string(filepath.Separator))) {
			return &said{fmt.Sprintf("%s is a file; name the directory of a store", arg), err}
		}
	}
	return err
}

// hint adds to an error about a store that is kept in a bucket how to name that, or go back to it, and to one
// about a directory that is no store that it is a backup of one. A command names its source before its target, so
// the error is about the first argument that exists.
func hint(err error, args []string) error {
	if errors.Is(err, fault.ErrReplicated) {
		return fmt.Errorf("%w: give --replica BUCKET, or make it a store without one with stele replica detach", err)
	}
	if errors.Is(err, replica.ErrDiverged) {
		return fmt.Errorf("%w; see stele replica rejoin --help", err)
	}
	url := strings.Join(args[:min(len(args), 1)], "")
	if isURL := strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://"); isURL && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fault.ErrNotStore)) {
		return &said{fmt.Sprintf("%s is no directory of a store; the threads of a server are shown by stele studio %s", url, shellWord(url)), err}
	}
	if !errors.Is(err, fault.ErrNotStore) {
		return err
	}
	for _, dir := range args {
		if st, serr := os.Stat(dir); serr != nil || !st.IsDir() {
			continue
		}
		if _, serr := os.Stat(filepath.Join(dir, "BACKUP")); serr == nil {
			return fmt.Errorf("%w: %s is a backup; make a store of it with stele restore", err, dir)
		}
		break
	}
	return err
}

// app is one run of the command.
type app struct {
	out, err io.Writer
	flags    flags
	code     int // of a run without an error
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "stele",
		Short: "Look into stele stores, check them, copy them, save what can be saved",
		Long: `Look into stele stores, check them, copy them, save what can be saved.

Every command but serve, compact, erase --yes, erase-user --yes, move-items --yes, import,
signal, release, replica detach, replica rejoin and studio --write works beside a running writer and changes nothing.
Exit codes: 0 done, 1 damage found, something lost, not copied or not there, 2 could not do it, 3 locked.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	a.flags.register(root)
	root.AddCommand(a.infoCmd(), a.statsCmd(), a.threadsCmd(), a.logCmd(), a.showCmd(), a.diffCmd(),
		a.verifyCmd(), a.dumpCmd(), a.replicated(writing(a.serveCmd())), a.replicated(writing(a.compactCmd())),
		a.replicated(writing(a.eraseCmd())), a.replicated(writing(a.eraseUserCmd())), writing(a.salvageCmd()), writing(a.backupCmd()),
		writing(a.restoreCmd()), a.importCmd(), a.exportCmd(), a.replicated(writing(a.studioCmd())), writing(a.devCmd()),
		a.replicated(writing(a.moveItemsCmd())), a.replicated(writing(a.signalCmd())), a.answerCmd(), a.replicated(writing(a.releaseCmd())), a.replicaCmd(), a.versionCmd())
	sayUsage(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var invalid *pflag.InvalidValueError
		if !errors.As(err, &invalid) {
			return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
		}
		f := invalid.GetFlag()
		wants, known := flagKinds[f.Value.Type()]
		if !known {
			wants = f.Value.Type()
		}
		return fmt.Errorf("--%s wants %s, not %q; see %s --help", f.Name, wants, invalid.GetValue(), cmd.CommandPath())
	})
	return root
}

// flagKinds are the types of flags in words.
var flagKinds = map[string]string{
	"bool": "true or false", "int": "a whole number", "int64": "a whole number", "uint64": "a whole number that is not negative",
	"duration": "a time such as 30s, 5m or 1h", "stringSlice": "words with commas between them",
}

// sayUsage makes the error of a wrong number of arguments say which are wanted.
func sayUsage(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		sayUsage(c)
	}
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return fmt.Errorf("%w; usage: %s", err, cmd.UseLine())
		}
		return nil
	}
}

// problem is an error as --json writes it.
type problem struct {
	Error string `json:"error"`
	// "erase_unfinished", "locked", "not_regular", "not_store", "version", "damage", "not_found", "invalid", "disk_full",
	// "differs", "not_equal", "not_ndjson", "truncated", "not_sqlite", "other"
	Kind   string `json:"kind"`
	File   string `json:"file,omitempty"`
	Offset *int64 `json:"offset,omitempty"`
	Holder string `json:"holder,omitempty"`
}

// kinds are the values of problem.Kind. The first error that matches counts.
var kinds = []struct {
	name string
	err  error
}{
	{"erase_unfinished", saver.ErrEraseUnfinished}, {"locked", fault.ErrLocked}, {"not_regular", fault.ErrNotRegular},
	{"version", fault.ErrVersion}, {"not_store", fault.ErrNotStore}, {"damage", saver.ErrCorrupt},
	{"disk_full", fault.ErrDiskFull}, {"too_many_files", fault.ErrTooManyFiles}, {"not_found", saver.ErrNotFound}, {"invalid", saver.ErrInvalid},
	{"differs", transfer.ErrDiffers}, {"not_equal", transfer.ErrNotEqual}, {"not_ndjson", transfer.ErrFormat},
	{"truncated", transfer.ErrTruncated}, {"not_sqlite", sqlite.ErrForeign},
}

// report writes an error to stderr, for people or for machines.
func (a *app) report(err error) {
	if !a.flags.json {
		fmt.Fprintln(a.err, "stele:", err)
		if errors.Is(err, fault.ErrDiskFull) && !errors.Is(err, syscall.EFBIG) {
			fmt.Fprintln(a.err, `Free space on the device: see "The disk is full" in docs/operations.md.`)
		}
		return
	}
	p := problem{Error: err.Error(), Kind: "other"}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			p.Kind = k.name
			break
		}
	}
	var c *fault.CorruptionError
	if errors.As(err, &c) {
		p.File, p.Offset = c.File, &c.Offset
	}
	var l *fault.LockedError
	if errors.As(err, &l) {
		p.Holder = l.Holder
	}
	b, merr := json.Marshal(p)
	if merr != nil {
		b = []byte(`{"error":"unprintable","kind":"other"}`)
	}
	fmt.Fprintln(a.err, string(b))
}
