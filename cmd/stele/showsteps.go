package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// shownCheckpoint is a checkpoint, with what the bodies that began with it did.
type shownCheckpoint struct {
	*admin.CheckpointView
	// ChildOf is the thread that awaits this one; "" if none does, or the queue does not keep the run any more.
	ChildOf string `json:"child_of,omitempty"`
	// Steps are none of a checkpoint whose superstep called no function and waited for nothing. StepsError says why
	// they, or ChildOf, cannot be read: what else is of the checkpoint is shown all the same.
	Steps      []shownStep `json:"steps,omitempty"`
	StepsError string      `json:"steps_error,omitempty"`
}

// shownStep is a step; of a child with the status of its thread, "" if that has no checkpoint.
type shownStep struct {
	pregel.Step
	Status saver.Status `json:"status,omitempty"`
}

// withSteps adds the steps to a checkpoint. newest: it was not named, so its steps may be those that led to it.
func withSteps(ctx context.Context, d *disk.Saver, v *admin.CheckpointView, newest bool) *shownCheckpoint {
	out := &shownCheckpoint{CheckpointView: v}
	at := pregel.Address{ThreadID: v.Thread, Namespace: v.Namespace, CheckpointID: v.Checkpoint}
	if newest {
		at.CheckpointID = ""
	}
	steps, err := pregel.Steps(ctx, d, at)
	for _, s := range steps {
		s.Result = admin.Plain(s.Result)
		for i := range s.Questions {
			s.Questions[i].Value = admin.Plain(s.Questions[i].Value)
		}
		shown := shownStep{Step: s}
		if s.ThreadID != "" {
			var told error
			shown.Status, told = statusOf(ctx, d, s.ThreadID)
			err = errors.Join(err, told)
		}
		out.Steps = append(out.Steps, shown)
	}
	var told error
	out.ChildOf, told = parentOf(ctx, d, v.Thread)
	if err = errors.Join(err, told); err != nil {
		out.StepsError = err.Error()
	}
	return out
}

// statusOf is the status of a thread; "" if it is not there.
func statusOf(ctx context.Context, d *disk.Saver, thread string) (saver.Status, error) {
	t, there, err := saver.ThreadOf(ctx, d, thread)
	if err != nil || !there {
		return "", err
	}
	if t.Status == saver.StatusWaiting {
		if waits, err := admin.WaitsOf(ctx, d, thread); err == nil && waits.OnlySleeps() {
			return saver.StatusSleeping, nil
		}
	}
	return t.Status, nil
}

// parentOf is the thread whose run started one as its child, by the queue beside the store.
func parentOf(ctx context.Context, d *disk.Saver, thread string) (parent string, err error) {
	items, err := store.On(d, store.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, items.Close()) }()
	queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	if err != nil {
		return "", err
	}
	for r, err := range queue.List(ctx, runs.Query{ThreadID: thread, Limit: 1}) {
		if errors.Is(err, runs.ErrUnreadable) {
			return "", nil
		}
		return r.Parent, err
	}
	return "", nil
}

func printSteps(p *printer, v *shownCheckpoint, width int) {
	if v.StepsError != "" {
		p.line("")
		p.line("steps  CANNOT BE READ: %s", v.StepsError)
	}
	if len(v.Steps) == 0 {
		return
	}
	p.line("")
	p.line("steps")
	var rows [][]any
	for _, s := range v.Steps {
		took := "-"
		if s.Attempts > 0 {
			took = s.Took.Round(time.Microsecond).String()
			if s.Attempts > 1 {
				took += fmt.Sprintf(", %d attempts", s.Attempts)
			}
		}
		rows = append(rows, []any{strings.Repeat("  ", s.Depth+1) + stepText(s), stateText(s), stamp(s.Began), took, resultText(s, width)})
	}
	p.table([]string{"  step", "state", "began", "took", "result"}, rows)
}

func stepText(s shownStep) string {
	if s.Name == "" {
		return string(s.Kind)
	}
	return string(s.Kind) + " " + printable(s.Name)
}

func stateText(s shownStep) string {
	if !s.Until.IsZero() && (s.State == pregel.StepWaiting || s.State == pregel.StepBegun) {
		return string(s.State) + " until " + stamp(s.Until)
	}
	return string(s.State)
}

func resultText(s shownStep, width int) string {
	var parts []string
	if s.ThreadID != "" {
		parts = append(parts, "thread "+printable(s.ThreadID))
		if s.Status != "" {
			parts = append(parts, string(s.Status))
		}
	}
	switch {
	case s.Error != "":
		parts = append(parts, printable(s.Error))
	case len(s.Questions) > 0:
		for _, q := range s.Questions {
			parts = append(parts, "asks "+compact(q.Value, width))
		}
	case s.Result != nil:
		parts = append(parts, compact(s.Result, width))
	}
	return strings.Join(parts, ", ")
}
