package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/server/client"
)

// decode reads JSON as plain data: whole numbers that fit are int64, others float64.
func decode(data []byte, out any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(out); err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	switch x := out.(type) {
	case *any:
		*x = numbers(*x)
	case *map[string]any:
		numbers(*x)
	}
	return nil
}

// numbers replaces each json.Number, in place.
func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(string(x), 10, 64); err == nil {
			return n
		}
		f, _ := x.Float64() // beyond the largest it is infinite
		return f
	case map[string]any:
		for k, e := range x {
			x[k] = numbers(e)
		}
	case []any:
		for i, e := range x {
			x[i] = numbers(e)
		}
	}
	return v
}

func checkpointOf(a pregel.Address) *client.Checkpoint {
	return &client.Checkpoint{ThreadID: a.ThreadID, CheckpointNS: a.Namespace, CheckpointID: a.CheckpointID, CheckpointMap: a.CheckpointMap}
}

func addressOf(c *client.Checkpoint) pregel.Address {
	return pregel.Address{ThreadID: c.ThreadID, Namespace: c.CheckpointNS, CheckpointID: c.CheckpointID, CheckpointMap: c.CheckpointMap}
}

// where turns an address into the client's.
func where(at pregel.Address, subgraphs bool) client.At {
	if at.CheckpointID == "" && at.Namespace == "" {
		return client.At{Subgraphs: subgraphs}
	}
	return client.At{Checkpoint: checkpointOf(at), Subgraphs: subgraphs}
}

// GetState returns the state at an address. Its Status is "". A thread that is not there is
// client.ErrNotFound, and so is a checkpoint that is named and not there; a thread without a checkpoint has an empty state.
func (g *Graph) GetState(ctx context.Context, at pregel.Address, opts ...pregel.StateOptions) (*pregel.StateSnapshot, error) {
	if err := g.reach(); err != nil {
		return nil, err
	}
	s, err := g.c.Threads.State(ctx, at.ThreadID, where(at, last(opts).Subgraphs))
	if err != nil {
		return nil, err
	}
	if at.CheckpointID != "" && s.CreatedAt == "" { // servers show an empty state
		return nil, fmt.Errorf("checkpoint %q of thread %q: %w", at.CheckpointID, at.ThreadID, client.ErrNotFound)
	}
	return snapshot(s, at)
}

// GetStateHistory yields the states of a thread, newest first.
func (g *Graph) GetStateHistory(ctx context.Context, at pregel.Address, q pregel.HistoryQuery) iter.Seq2[*pregel.StateSnapshot, error] {
	return func(yield func(*pregel.StateSnapshot, error) bool) {
		if err := g.reach(); err != nil {
			yield(nil, err)
			return
		}
		asked := client.HistoryQuery{Limit: q.Limit, Before: q.Before, Metadata: q.Filter}
		if at.CheckpointID != "" || at.Namespace != "" {
			asked.Checkpoint = checkpointOf(at)
		}
		for s, err := range g.c.Threads.History(ctx, at.ThreadID, asked) {
			var shown *pregel.StateSnapshot
			if err == nil {
				shown, err = snapshot(s, at)
			}
			if !yield(shown, err) || err != nil {
				return
			}
		}
	}
}

// UpdateState changes the state of a thread and returns the address of the new checkpoint.
// Options cannot be passed on; with any that is set the error matches
// pregel.ErrInvalidArgument.
func (g *Graph) UpdateState(ctx context.Context, at pregel.Address, u pregel.StateUpdate, opts ...pregel.UpdateOptions) (pregel.Address, error) {
	o := last(opts)
	if u.TaskID != "" || o.Lease != nil || len(o.Metadata) > 0 || len(o.Configurable) > 0 {
		return at, &pregel.ArgumentError{Field: "UpdateOptions", Reason: "a remote graph cannot take options of an update"}
	}
	v, err := sent(u.Values)
	if err != nil {
		return at, err
	}
	in := client.StateUpdate{Values: v, AsNode: u.AsNode}
	if at.CheckpointID != "" || at.Namespace != "" {
		in.Checkpoint = checkpointOf(at)
	}
	if err := g.reach(); err != nil {
		return at, err
	}
	made, err := g.c.Threads.UpdateState(ctx, at.ThreadID, in)
	if err != nil {
		return at, err
	}
	if made == nil {
		return at, fmt.Errorf("remote: the server does not say which checkpoint it made")
	}
	return addressOf(made), nil
}

// snapshot is a state in the terms of package pregel.
func snapshot(s *client.State, asked pregel.Address) (*pregel.StateSnapshot, error) {
	out := &pregel.StateSnapshot{Next: s.Next, Address: asked, CreatedAt: s.CreatedAt}
	if len(s.Values) > 0 {
		if err := decode(s.Values, &out.Values); err != nil {
			return nil, err
		}
	}
	if s.Metadata != nil {
		out.Metadata = saver.Metadata(whole(s.Metadata).(map[string]any))
	}
	if s.Checkpoint != nil {
		out.Address = addressOf(s.Checkpoint)
	}
	if s.Parent != nil {
		p := addressOf(s.Parent)
		out.Parent = &p
	}
	for _, t := range s.Tasks {
		task, err := taskOf(t, asked)
		if err != nil {
			return nil, err
		}
		out.Tasks = append(out.Tasks, task)
		out.Interrupts = append(out.Interrupts, task.Interrupts...)
	}
	return out, nil
}

func taskOf(t client.Task, asked pregel.Address) (out pregel.TaskState, err error) {
	out = pregel.TaskState{ID: t.ID, Name: t.Name}
	if len(t.Error) > 0 {
		if err := decode(t.Error, &out.Err); err != nil {
			return out, err
		}
	}
	if len(t.Result) > 0 {
		if err := decode(t.Result, &out.Result); err != nil {
			return out, err
		}
		out.Finished = out.Result != nil
	}
	if out.Interrupts, err = questions(t.Interrupts); err != nil {
		return out, err
	}
	if t.Checkpoint != nil {
		a := addressOf(t.Checkpoint)
		out.StateAddress = &a
	}
	if t.State != nil {
		if out.State, err = snapshot(t.State, asked); err == nil && out.StateAddress == nil {
			a := out.State.Address
			a.CheckpointID = ""
			out.StateAddress = &a
		}
	}
	return out, err
}

func questions(list []client.Interrupt) (out []pregel.Interrupt, err error) {
	for _, in := range list {
		q := pregel.Interrupt{ID: in.ID}
		if len(in.Value) > 0 {
			if err := decode(in.Value, &q.Value); err != nil {
				return nil, err
			}
		}
		if len(in.ResponseSchema) > 0 {
			if err := decode(in.ResponseSchema, &q.ResponseSchema); err != nil {
				return nil, err
			}
		}
		out = append(out, q)
	}
	return out, nil
}

// whole replaces numbers without a fraction, which encoding/json has read as float64.
func whole(v any) any {
	switch x := v.(type) {
	case float64:
		if n := int64(x); float64(n) == x && x > -1<<53 && x < 1<<53 {
			return n
		}
	case map[string]any:
		for k, e := range x {
			x[k] = whole(e)
		}
	case []any:
		for i, e := range x {
			x[i] = whole(e)
		}
	}
	return v
}
