package main

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// databaseKeeps is what may still hold bytes of what was deleted from a database.
const databaseKeeps = "the tables' files (dead rows until VACUUM FULL), the write-ahead log, replicas, backups and dumps that were made before, and ids of deleted threads, which are remembered so that late writes are refused"

// eraseDatabase is the command in the tables of a database: it deletes what erase erases in a directory. A call that is repeated goes
// on where one was interrupted: the threads go behind all that is found by them. With an error the report is nil if nothing was deleted.
func (a *app) eraseDatabase(ctx context.Context, e *eraseFlags, o *admin.EraseOptions) (rep *erased, err error) {
	if err := rules.ValidateErase(o.Threads, o.Items); err != nil {
		return nil, err
	}
	start := time.Now()
	in, err := openDatabase(ctx, e.postgres, e.schema)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.end()) }()
	if w, ok := in.items.(store.Sweeper); ok && !o.DryRun {
		if _, err := w.Sweep(ctx); err != nil { // no search finds what has expired
			return nil, err
		}
	}
	named := map[string]bool{}
	for _, id := range o.Threads {
		named[id] = true
	}
	if len(o.Metadata) > 0 { // without it every thread would match
		for info, err := range in.saver.Threads(ctx, saver.ThreadQuery{Metadata: o.Metadata}) {
			if err != nil {
				return nil, err
			}
			named[info.ThreadID] = true
		}
	}
	threads := slices.Sorted(maps.Keys(named))
	beside := server.BesideOptions{Saver: in.saver, Store: in.items, Queue: in.queue, Threads: threads, DryRun: true, Logger: slog.New(slog.NewTextHandler(a.err, nil))}
	found, err := server.RemoveBeside(ctx, beside)
	if err != nil {
		return nil, err
	}
	rep = &erased{EraseReport: &admin.EraseReport{DryRun: o.DryRun, BytesBefore: -1, BytesAfter: -1, FreeBytes: -1, Left: []string{databaseKeeps}}, Database: true}
	rep.Threads, rep.Items = []disk.ErasedThread{}, []disk.ErasedItems{}
	defer func() {
		if rep != nil && len(found.Found)+len(found.Children)+found.Unreadable > 0 {
			rep.Beside = &found
		}
		if rep != nil {
			rep.Took = time.Since(start)
		}
	}()
	for _, id := range slices.Concat(found.Children, threads) {
		t, err := in.erasedThread(ctx, id)
		if err != nil {
			return nil, err
		}
		rep.Threads = append(rep.Threads, t)
	}
	var doomed []store.Op
	for _, prefix := range o.Items {
		ops, namespaces, err := in.below(ctx, prefix)
		if err != nil {
			return nil, err
		}
		doomed = append(doomed, ops...)
		rep.Items = append(rep.Items, disk.ErasedItems{Prefix: prefix, Namespaces: namespaces, Items: len(ops), Bytes: -1})
	}
	if !o.DryRun {
		beside.DryRun = false
		gone, err := server.RemoveBeside(ctx, beside)
		if err == nil {
			found, err = gone, in.deleteThreads(ctx, gone, threads)
		}
		if err == nil {
			err = store.Batched(in.items.Batch).InBatches(ctx, doomed)
		}
		if rep.Unfinished = err != nil; err != nil {
			return rep, err
		}
	}
	return rep, nil
}

// erasedThread says what there is of a thread.
func (in *stores) erasedThread(ctx context.Context, id string) (t disk.ErasedThread, err error) {
	t.ThreadID, t.Bytes = id, -1
	info, ok, err := saver.ThreadOf(ctx, in.saver, id)
	if err != nil {
		return t, err
	}
	if ok {
		t.UpdatedAt = info.UpdatedAt.UTC()
	}
	for _, err := range in.saver.List(ctx, saver.Query{ThreadID: id}) {
		if err != nil {
			return t, err
		}
		t.Checkpoints++
	}
	inbox, former := layout.Inbox(id)
	for _, prefix := range [][]string{inbox, former} {
		signals, _, err := in.below(ctx, prefix)
		if err != nil {
			return t, err
		}
		t.Signals += len(signals)
	}
	return t, nil
}

// below returns what deletes the items below a prefix, and the number of their namespaces. It reads their values, too: a store has no
// other list.
func (in *stores) below(ctx context.Context, prefix []string) (ops []store.Op, namespaces int, err error) {
	at := map[string]bool{}
	for item, err := range in.items.(store.Scanner).Scan(ctx, store.Query{Prefix: prefix, NoRefresh: true}) { // openDatabase's is one
		if err != nil {
			return nil, 0, err
		}
		at[strings.Join(item.Namespace, "\x00")] = true
		ops = append(ops, store.PutOp{Namespace: item.Namespace, Key: item.Key})
	}
	return ops, len(at), nil
}

// deleteThreads deletes the checkpoints of threads and the signals to them, children first; behind these what is noted of them. A
// thread that was found by its metadata is not found again once it is deleted, so the signals go before it, and those that came
// meanwhile behind it.
func (in *stores) deleteThreads(ctx context.Context, found server.BesideReport, threads []string) error {
	each := func(ids []string) error {
		for _, id := range ids {
			if err := pregel.DeleteSignals(ctx, in.items, id); err != nil {
				return err
			}
			if err := in.saver.DeleteThread(ctx, id); err != nil && !errors.Is(err, saver.ErrNotFound) {
				return err
			}
			if err := pregel.DeleteSignals(ctx, in.items, id); err != nil {
				return err
			}
		}
		return nil
	}
	if err := each(found.Children); err != nil {
		return err
	}
	for _, prefix := range found.Notes {
		notes, _, err := in.below(ctx, prefix)
		if err != nil {
			return err
		}
		if err := store.Batched(in.items.Batch).InBatches(ctx, notes); err != nil {
			return err
		}
	}
	return each(threads)
}
