package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
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
	// Signals are those to the thread that nobody has taken, at most shownSignals, and Refused those that were set aside.
	Signals     []pregel.PendingSignal `json:"signals,omitempty"`
	MoreSignals bool                   `json:"more_signals,omitempty"`
	Refused     []pregel.RefusedSignal `json:"refused_signals,omitempty"`
}

// shownStep is a step; of a child with the status of its thread, "" if that has no checkpoint.
type shownStep struct {
	pregel.Step
	Status saver.Status `json:"status,omitempty"`
}

// shownSignals bounds the signals of a thread that are shown.
const shownSignals = 100

// shownOf adds to a checkpoint its steps, and to the newest one the signals of its thread. newest: it was not named, so its
// steps may be those that led to it.
func shownOf(ctx context.Context, s saver.Saver, v *admin.CheckpointView, newest bool) *shownCheckpoint {
	out := &shownCheckpoint{CheckpointView: v}
	out.addSteps(ctx, s, newest)
	if err := out.addBeside(ctx, s, newest); err != nil {
		out.StepsError = strings.TrimPrefix(out.StepsError+"\n"+err.Error(), "\n")
	}
	return out
}

func (out *shownCheckpoint) addSteps(ctx context.Context, s saver.Saver, newest bool) {
	at := pregel.Address{ThreadID: out.Thread, Namespace: out.Namespace, CheckpointID: out.Checkpoint}
	if newest {
		at.CheckpointID = ""
	}
	steps, err := pregel.Steps(ctx, s, at)
	for _, step := range steps {
		step.Result = admin.Plain(step.Result)
		for i := range step.Questions {
			step.Questions[i].Value = admin.Plain(step.Questions[i].Value)
		}
		shown := shownStep{Step: step}
		if step.ThreadID != "" {
			var told error
			shown.Status, told = statusOf(ctx, s, step.ThreadID)
			err = errors.Join(err, told)
		}
		out.Steps = append(out.Steps, shown)
	}
	if err != nil {
		out.StepsError = err.Error()
	}
}

// addBeside adds what the queue and the store beside a saver know of the thread. A database may have none of them.
func (out *shownCheckpoint) addBeside(ctx context.Context, s saver.Saver, newest bool) (err error) {
	in, err := beside(ctx, s)
	if errors.Is(err, postgres.ErrNotSetUp) || errors.Is(err, postgres.ErrForeign) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.end()) }()
	if out.ChildOf, err = parentOf(ctx, in.queue, out.Thread); err != nil || !newest || out.Namespace != "" {
		return err
	}
	out.Signals, err = pregel.Signals(ctx, s.Serializer(), in.items, out.Thread, shownSignals+1)
	if err != nil {
		return err
	}
	if out.MoreSignals = len(out.Signals) > shownSignals; out.MoreSignals {
		out.Signals = out.Signals[:shownSignals]
	}
	for i := range out.Signals {
		out.Signals[i].Value = admin.Plain(out.Signals[i].Value)
	}
	out.Refused, err = pregel.RefusedSignals(ctx, s.Serializer(), in.items, out.Thread)
	for i := range out.Refused {
		out.Refused[i].Value = admin.Plain(out.Refused[i].Value)
	}
	return err
}

func printSignals(p *printer, v *shownCheckpoint, width int) {
	if len(v.Signals) > 0 {
		p.line("")
		p.line("signals that nobody has taken")
		var rows [][]any
		for _, s := range v.Signals {
			value := compact(s.Value, width)
			if s.Error != "" {
				value = "CANNOT BE READ: " + printable(s.Error)
			}
			rows = append(rows, []any{"  " + printable(s.Name), stamp(s.Sent), value})
		}
		p.table([]string{"  signal", "sent (UTC)", "value"}, rows)
		if v.MoreSignals {
			p.line("  and more")
		}
	}
	if len(v.Refused) > 0 {
		p.line("")
		p.line("signals that were refused")
		for _, r := range v.Refused {
			p.line("  %s  %s  id %s", printable(r.Name), compact(r.Value, width), r.ID)
			p.line("    %s", printable(r.Error))
		}
	}
}

// statusOf is the status of a thread; "" if it is not there.
func statusOf(ctx context.Context, s saver.Saver, thread string) (saver.Status, error) {
	t, there, err := saver.ThreadOf(ctx, s, thread)
	if err != nil || !there {
		return "", err
	}
	if t.Status == saver.StatusWaiting {
		if waits, err := admin.WaitsOf(ctx, s, thread); err == nil && waits.OnlySleeps() {
			return saver.StatusSleeping, nil
		}
	}
	return t.Status, nil
}

// parentOf is the thread whose run started one as its child, as far as the queue keeps that.
func parentOf(ctx context.Context, queue runs.Queue, thread string) (string, error) {
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
