package pregel

import (
	"context"
	"fmt"
	"slices"

	"github.com/stele-go/stele/saver"
)

// copy makes a sibling of the loaded checkpoint with the same state, and applies
// further updates to it.
func (u *updater) copy(ctx context.Context, values any) (Address, error) {
	if u.saved == nil {
		return Address{}, &InvalidUpdateError{Node: Copy, Reason: "Cannot copy a non-existent checkpoint"}
	}
	further, err := copyUpdates(values)
	if err != nil {
		return Address{}, err
	}
	cp, _, err := u.g.create(u.cp, nil, func() string { return u.g.env.IDs.Next(u.step) }, nil, nil, nil, nil)
	if err != nil {
		return Address{}, err
	}
	own := cp.clone()
	stored := saver.Checkpoint{V: own.v, ID: own.id, TS: own.ts, Versions: own.versions, Seen: own.seen}
	md := saver.Metadata{"source": "fork", "step": u.step + 1, "parents": u.parents()}
	if c, ok := u.saved.Metadata["counters_since_delta_snapshot"]; ok {
		md["counters_since_delta_snapshot"] = c
	}
	at := u.at
	at.CheckpointID = ""
	if u.saved.Parent != nil {
		at.CheckpointID = u.saved.Parent.CheckpointID
	}
	out, err := u.putCopy(ctx, at, stored, md, u.note(cp, u.step+1))
	made, err := u.answer(out, err)
	if err != nil || len(further) == 0 {
		return made, err
	}
	tasks, err := u.g.snapshotPreparer(cp, u.set, u.at.Namespace, u.pending, u.step+2).next(nil)
	if err != nil {
		return Address{}, err
	}
	nextAt := u.at
	nextAt.CheckpointID = made.CheckpointID
	again := &updater{g: u.g, s: u.s, codec: u.codec, at: nextAt, forced: map[string]bool{}}
	return again.superstep(ctx, assignTasks(further, tasks))
}

// putCopy stores a copy that shares the values of the original.
func (u *updater) putCopy(ctx context.Context, at saver.Config, cp saver.Checkpoint, md saver.Metadata, note *saver.Note) (saver.Config, error) {
	if p, ok := u.s.(saver.Coordinator); ok {
		from := u.saved.Config
		return p.PutRequest(ctx, saver.PutRequest{Config: at, Checkpoint: cp, Metadata: md, ValuesFrom: &from, Note: note})
	}
	// A saver that cannot share gets the values again.
	cp.Values = u.saved.Checkpoint.Values
	return u.s.Put(ctx, at, cp, md, cp.Versions)
}

func copyUpdates(values any) ([]StateUpdate, error) {
	switch x := values.(type) {
	case nil:
		return nil, nil
	case []StateUpdate:
		return x, nil
	}
	return nil, &InvalidUpdateError{Node: Copy, Reason: fmt.Sprintf("the values of a copy are []StateUpdate, not %T", values)}
}

// assignTasks groups updates by node in the order of first mention, and gives
// the i-th update of a node the id of its i-th task.
func assignTasks(updates []StateUpdate, tasks *taskSet) []StateUpdate {
	ids := map[string][]string{}
	for _, t := range tasks.order {
		ids[t.name] = append(ids[t.name], t.id)
	}
	var order []string
	groups := map[string][]StateUpdate{}
	for _, up := range updates {
		if !slices.Contains(order, up.AsNode) {
			order = append(order, up.AsNode)
		}
		if i := len(groups[up.AsNode]); i < len(ids[up.AsNode]) {
			up.TaskID = ids[up.AsNode][i]
		}
		groups[up.AsNode] = append(groups[up.AsNode], up)
	}
	var out []StateUpdate
	for _, n := range order {
		out = append(out, groups[n]...)
	}
	return out
}
