package main

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// flags are the flags that every command has.
type flags struct {
	json       bool
	noProgress bool
	cacheMiB   int64
	keyFile    string
	replica    string // the bucket of the store that a command writes to
}

func (f *flags) register(root *cobra.Command) {
	p := root.PersistentFlags()
	p.BoolVar(&f.json, "json", false, "write JSON for machines")
	p.BoolVar(&f.noProgress, "no-progress", false, "show no progress, even on a terminal")
	p.StringVar(&f.keyFile, "keys", "", "file with the keys of encrypted stores, one a line: id and 64 hexadecimal digits")
	p.Int64Var(&f.cacheMiB, "cache", 32, "decoded blocks kept in memory, MiB; 0 for none")
}

// access makes the options with which stores are opened. No other place reads the flags for
// that.
func (f *flags) access() (admin.Access, error) {
	if f.cacheMiB < 0 || f.cacheMiB > math.MaxInt64>>20 {
		return admin.Access{}, &said{fmt.Sprintf("--cache wants a number of MiB, or 0 for none, not %d", f.cacheMiB), saver.ErrInvalid}
	}
	o := disk.Options{CacheBytes: f.cacheMiB << 20}
	if f.cacheMiB == 0 {
		o.CacheBytes = -1
	}
	if f.keyFile != "" {
		keys, err := disk.LoadKeyFile(f.keyFile)
		if err != nil {
			return admin.Access{}, err
		}
		o.Keys = keys
	}
	if f.replica != "" {
		b, err := openBucket(context.Background(), f.replica)
		if err != nil {
			return admin.Access{}, err
		}
		o.Replica = disk.Replica{Bucket: b, Keep: math.MaxInt64} // only serve knows how old is too old
	}
	return admin.Access{Options: o}, nil
}

// open opens a store for reading. It passes over damage, so that commands show what is
// intact.
func (f *flags) open(dir string) (*disk.Saver, error) {
	access, err := f.access()
	if err != nil {
		return nil, err
	}
	return access.Open(dir, true)
}

// dirArg completes a directory as the first argument and nothing after it.
func dirArg(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// threadArg completes a directory, then a thread of the store there.
func (a *app) threadArg(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return nil, cobra.ShellCompDirectiveFilterDirs
	case 1:
		return a.threadIDs(cmd.Context(), args[0], typed), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completions is how many thread ids shell completion offers.
const completions = 50

// threadIDs are threads whose id begins with prefix; none if the store cannot be read.
func (a *app) threadIDs(ctx context.Context, dir, prefix string) []string {
	d, err := a.flags.open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }() // read-only
	var ids []string
	for t, err := range admin.Threads(ctx, d, admin.ThreadQuery{Prefix: prefix, Limit: completions}) {
		if err != nil {
			return ids
		}
		ids = append(ids, t.ID)
	}
	return ids
}
