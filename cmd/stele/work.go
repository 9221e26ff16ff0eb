package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stele-go/stele/saver/admin"
)

func (a *app) compactCmd() *cobra.Command {
	return &cobra.Command{
		Use: "compact DIR", Short: "Merge all segments of a store into one that holds only what is live",
		Long: `Merge all segments of a store into one that holds only what is live, and give the
rest back to the system. It opens the store for writing: no other process may have it
open. It needs as much free space as the live data take.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			return report(a, func(access admin.Access, tell func(admin.Progress)) (*admin.CompactReport, error) {
				return admin.Compact(cmd.Context(), args[0], access, tell)
			}, printCompact)
		},
	}
}

func printCompact(p *printer, rep *admin.CompactReport) {
	p.line("compacted %s: %s -> %s, %s -> %d (%s)", rep.Dir, size(rep.BytesBefore), size(rep.BytesAfter),
		plural(rep.SegmentsBefore, "segment"), rep.SegmentsAfter, rep.Took.Round(time.Millisecond))
}

func (a *app) salvageCmd() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "salvage --output NEWDIR DIR", Short: "Save what can be read of a damaged store into a new one",
		Long: `Save what can be read of a damaged store, or of a damaged backup, into a new store in
NEWDIR, which must be empty or missing. DIR is only read. What could not be saved is
listed. Exit code 0: everything was saved; 1: the new store is there, but not everything
is in it, or something deleted may be back; 2: nothing was saved.`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: dirArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return errors.New("salvage needs --output, the directory of the new store")
			}
			return report(a, func(access admin.Access, tell func(admin.Progress)) (*admin.SalvageReport, error) {
				rep, err := admin.Salvage(cmd.Context(), args[0], output, admin.SalvageOptions{Access: access, Progress: tell})
				if err == nil && !rep.Complete() {
					a.code = exitFound
				}
				return rep, err
			}, printSalvage)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "directory of the new store, empty or missing")
	return cmd
}

func printSalvage(p *printer, rep *admin.SalvageReport) {
	for _, f := range rep.Damage {
		derived := ""
		if f.Derived() {
			derived = "; it is made of other data: nothing is lost by it"
		}
		p.line("DAMAGE  %s%s", f, derived)
	}
	for _, l := range rep.LostParts {
		p.line("LOST    an unknown number of checkpoints of %s (%s:%d)", some(l.Threads), l.Finding.File, l.Finding.Offset)
	}
	printLost(p, rep.LostCheckpoints, rep.LostValues, rep.LostMore)
	if rep.CutBytes > 0 {
		p.line("NOTE    the log ends with %s that are no record, at %s: what was being written when the writer died, or damage", size(rep.CutBytes), rep.CutAt)
	}
	if rep.ManifestLost {
		p.line("NOTE    the manifest could not be read: the files of the directory were taken as they are")
	}
	if rep.MayHoldDeleted {
		p.line("NOTE    what was gone past may have held deletions: something deleted may be back")
	}
	verdict := "everything was saved"
	switch {
	case rep.Lost():
		verdict = "not everything was saved"
	case !rep.Complete():
		verdict = "everything that was found was saved"
	}
	p.line("%s: %s, %s, %d other; %s, %s in %s, verified (%s)", verdict, plural(rep.Threads, "thread"), plural(rep.Runs, "run"), rep.Other,
		plural(rep.Entries, "index entry"), plural(rep.Values, "value"),
		rep.Output, rep.Took.Round(time.Millisecond))
	p.held(rep.Held, rep.Output)
}

func inNamespace(ns string) string {
	if ns == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %s", printable(ns))
}

func (a *app) backupCmd() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use: "backup DIR DEST", Short: "Copy a store to DEST while it is in use; the next time only what is new",
		Long: `Copy a store, as it is at one moment, to DEST, beside its writer and without its lock.
What DEST holds of an earlier backup of the store is not copied again; that backup
stays in force until the new one is complete and durable.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return report(a, func(access admin.Access, tell func(admin.Progress)) (*admin.BackupReport, error) {
				return admin.Backup(cmd.Context(), args[0], args[1], admin.BackupOptions{Access: access, Check: check, Progress: tell})
			}, printBackup)
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "read again what DEST holds already before relying on it")
	return cmd
}

func printBackup(p *printer, rep *admin.BackupReport) {
	p.line("backed up %s to %s: records up to %d, %s, %s; copied %s, %s; removed %d (%s)", rep.Dir, rep.Dest, rep.LastLSN,
		plural(rep.Files, "file"), size(rep.Bytes), plural(rep.CopiedFiles, "file"), size(rep.CopiedBytes), len(rep.Removed), rep.Took.Round(time.Millisecond))
}

func (a *app) restoreCmd() *cobra.Command {
	var at string
	var release bool
	cmd := &cobra.Command{
		Use: "restore BACKUP|BUCKET NEWDIR", Short: "Make a store of a backup or of a bucket, checked before it becomes one",
		Long: `Make a store in NEWDIR, which must be empty or missing, of a backup, or of what a bucket
holds of a store: see stele replica --help. Every byte is checked on the way and the whole
store is verified before it becomes one. It is the store that was backed up, id included:
only one of the two should go on.

Of a bucket the store is made as it is now, or as it was --at a time, behind a record, or when
a checkpoint was stored (THREAD:CHECKPOINT, cut at the last colon; the bucket is read from its
oldest point on). Made as it is now it can go on with the bucket, in place of the store that
wrote it. Made as it was it is a store of its own, and wants another bucket.

The new store is held: the queued runs, schedules and timers that it has wait until stele
release, unless --release says that it goes on in place of the other one. One that leads its
bucket as it is now goes on.`,
		Example: `  stele restore backup store
  stele restore s3://agents/prod store --at 2026-02-03T14:05:00Z
  stele restore s3://agents/prod store --at order-7:1f0b3a52-7c1e-6d40-8001-5f1d5c5b9a77`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if isBucket(args[0]) {
				return a.restoreBucket(cmd.Context(), args[0], args[1], at, release)
			}
			if at != "" {
				return errors.New("--at is for a bucket; a backup is one moment")
			}
			return report(a, func(access admin.Access, tell func(admin.Progress)) (*admin.VerifyReport, error) {
				return admin.Restore(cmd.Context(), args[0], args[1], admin.BackupOptions{Access: access, Release: release, Progress: tell})
			}, func(p *printer, rep *admin.VerifyReport) {
				for _, f := range rep.Notices {
					if f.Derived() {
						p.line("NOTE    %s", f)
					}
				}
				p.line("restored to %s: records up to %d, %s, %s, verified (%s)", args[1], rep.LastLSN, plural(rep.Files, "file"), size(rep.Bytes),
					rep.Took.Round(time.Millisecond))
				p.held(!release, args[1])
			})
		},
	}
	cmd.Flags().BoolVar(&release, "release", false, "the new store goes on with the runs, schedules and timers that wait in it")
	cmd.Flags().StringVar(&at, "at", "", "of a bucket: the last moment that the new store has, a time (UTC unless it says its zone), the number of a record, or THREAD:CHECKPOINT, the moment when that was stored")
	return cmd
}

// held says of a store that was made in dir that it is held.
func (p *printer) held(held bool, dir string) {
	if held {
		p.line("its queued runs, schedules and timers are held; to let them go on: stele release %s", shellWord(dir))
	}
}

func (a *app) restoreBucket(ctx context.Context, address, dir, at string, release bool) error {
	moment, err := parseMoment(at)
	if err != nil {
		return err
	}
	if release && at == "" {
		return errors.New("--release is for a backup, or with --at: what a bucket has now goes on with it. If its store is held, use stele release --replica")
	}
	b, err := openBucket(ctx, address)
	if err != nil {
		return err
	}
	return report(a, func(access admin.Access, tell func(admin.Progress)) (*admin.BucketReport, error) {
		return admin.RestoreBucket(ctx, b, dir, moment, admin.BackupOptions{Access: access, Release: release, Progress: tell})
	}, func(p *printer, rep *admin.BucketReport) {
		p.line("restored to %s: records up to %d of %s, epoch %d, from the point of record %d (%s)", dir, rep.LastLSN, stampOrDash(rep.Stamp),
			rep.Epoch, rep.Point, rep.Took.Round(time.Millisecond))
		p.held(at != "" && !release, dir)
	})
}
