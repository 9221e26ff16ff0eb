package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// channelWaits is the pseudo channel on which an engine records the instants and signals that tasks wait for.
const channelWaits = "__stele_waits__"

// errUndecoded: only the program that stored a value has its serializer, or the keys.
var errUndecoded = errors.New("cannot be decoded")

// Waits are what the tasks of a thread wait for that have not ended.
type Waits struct {
	Questions int      // those that wait for an answer
	Sleeps    int      // those that wait for an instant or a signal
	Signals   []string // the names of the signals, sorted
}

// OnlySleeps reports whether the thread waits, and asks nobody: it sleeps.
func (w Waits) OnlySleeps() bool { return w.Sleeps > 0 && w.Questions == 0 }

// WaitsOf reads what a thread waits for from the pending writes of its newest checkpoint. The error is that of
// GetTuple, or that a value cannot be decoded.
func WaitsOf(ctx context.Context, s saver.Saver, threadID string) (Waits, error) {
	var found Waits
	head, err := s.GetTuple(ctx, saver.Config{ThreadID: threadID})
	if err != nil {
		return found, err
	}
	ended := map[string]bool{}
	for _, w := range head.PendingWrites {
		ended[w.TaskID] = ended[w.TaskID] || rules.NewWriteCall(w.TaskID, []string{w.Channel}).Output
	}
	for _, w := range head.PendingWrites {
		if w.Channel != saver.ChannelInterrupt || ended[w.TaskID] {
			continue
		}
		typed, err := w.Value.Typed()
		if err != nil {
			return found, err
		}
		value, err := s.Serializer().Decode(typed)
		if err != nil {
			return found, fmt.Errorf("an interrupt of thread %q %w: %w", threadID, errUndecoded, err)
		}
		for _, in := range interruptsIn(value) {
			if !in.IsWait() {
				found.Questions++
				continue
			}
			found.Sleeps++
			about, _ := in.Value.(map[string]any)
			if name, ok := about["signal"].(string); ok {
				found.Signals = append(found.Signals, name)
			}
		}
	}
	slices.Sort(found.Signals)
	return found, nil
}

// interruptsIn are the interrupts of a pending write. A value of another program counts as a question.
func interruptsIn(value any) []serde.Interrupt {
	switch x := value.(type) {
	case []serde.Interrupt:
		return x
	case serde.Interrupt:
		return []serde.Interrupt{x}
	case []any:
		var out []serde.Interrupt
		for _, e := range x {
			out = append(out, interruptsIn(e)...)
		}
		return out
	}
	return []serde.Interrupt{{Value: value}}
}

// statusOf is the status of a thread, which the saver calls waiting if it sleeps. It reads values only of a thread
// that waits and has a record of a wait. What is damaged is no sleep.
func statusOf(ctx context.Context, d *disk.Saver, v *engine.View, t *index.Partition) (saver.Status, error) {
	status := layout.StatusOfFlags(t.Flags)
	head, ok := layout.ParseEntry(t.Head)
	if status != saver.StatusWaiting || !ok {
		return status, nil
	}
	t, err := v.Load(t)
	if err != nil {
		return status, err
	}
	recorded := false
	t.Ascend(layout.WritesPrefix("", head.CheckpointID), func(it *index.Entry) bool {
		for _, s := range it.Slots.From(1) {
			recorded = recorded || s.Name == channelWaits
		}
		return !recorded
	})
	if !recorded {
		return status, nil
	}
	id, _ := SplitThread(t.ID)
	waits, err := WaitsOf(ctx, d, id)
	switch {
	case errors.Is(err, saver.ErrNotFound), errors.Is(err, saver.ErrCorrupt), errors.Is(err, fault.ErrVersion), errors.Is(err, errUndecoded):
		return status, nil
	case err != nil:
		return status, err
	case waits.OnlySleeps():
		return saver.StatusSleeping, nil
	}
	return status, nil
}
