package model

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// sentinels are the errors whose meaning is part of the contract.
var sentinels = []error{
	saver.ErrNotFound, saver.ErrInvalid, saver.ErrConflict, saver.ErrThreadDeleted, saver.ErrThreadExists, saver.ErrTooLarge,
	saver.ErrAncestorCycle, saver.ErrClosed, saver.ErrCorrupt,
}

// outcome is what an error means. Texts may differ, meanings may not.
func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	var conflict *saver.ConflictError
	if errors.As(err, &conflict) {
		return fmt.Sprintf("conflict %+v", *conflict)
	}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	return "error: " + err.Error()
}

// everything is all that a saver shows: all tuples with all bytes, and all threads.
func everything(ctx context.Context, s saver.Saver) string {
	return listing(s.List(ctx, saver.Query{})) + threadList(s.Threads(ctx, saver.ThreadQuery{}))
}

func listing(all iter.Seq2[*saver.Tuple, error]) string {
	var b strings.Builder
	for tup, err := range all {
		if err != nil {
			return outcome(err)
		}
		b.WriteString(tuple(tup))
	}
	return b.String()
}

func tuple(tup *saver.Tuple) string {
	var b strings.Builder
	cp := tup.Checkpoint
	fmt.Fprintf(&b, "\n%+v parent %+v\n  v %d id %s ts %s updated %#v seen %v metadata %v\n",
		tup.Config, tup.Parent, cp.V, cp.ID, cp.TS, cp.Updated, cp.Seen, tup.Metadata)
	for _, ch := range slices.Sorted(maps.Keys(cp.Versions)) {
		v := cp.Versions[ch]
		fmt.Fprintf(&b, "  %s at %d/%s\n", ch, v.Kind(), v)
	}
	for _, ch := range slices.Sorted(maps.Keys(cp.Values)) {
		fmt.Fprintf(&b, "  %s = %s\n", ch, bytesOf(cp.Values[ch]))
	}
	writes(&b, tup.PendingWrites)
	if tup.Note != nil {
		fmt.Fprintf(&b, "  note %+v\n", *tup.Note)
	}
	return b.String()
}

func writes(b *strings.Builder, all []saver.PendingWrite) {
	for _, w := range all {
		fmt.Fprintf(b, "  %q %s[%d] %s = %s\n", w.TaskPath, w.TaskID, w.Index, w.Channel, bytesOf(w.Value))
	}
}

func bytesOf(v saver.Value) string {
	if v.IsZero() {
		return "none"
	}
	typed, err := v.Typed()
	if err != nil {
		return outcome(err)
	}
	if typed.Kind == serde.KindMsgpack {
		return fmt.Sprintf("%s %x", typed.Kind, typed.Data)
	}
	return fmt.Sprintf("%s %q", typed.Kind, typed.Data)
}

func histories(all map[string]saver.DeltaHistory, err error) string {
	if err != nil {
		return outcome(err)
	}
	var b strings.Builder
	for _, ch := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "\n%s from %s\n", ch, bytesOf(all[ch].Seed))
		writes(&b, all[ch].Writes)
	}
	return b.String()
}

func threadList(all iter.Seq2[saver.ThreadInfo, error]) string {
	var b strings.Builder
	for info, err := range all {
		if err != nil {
			return outcome(err)
		}
		fmt.Fprintf(&b, "\nthread %+v", info)
	}
	return b.String()
}
