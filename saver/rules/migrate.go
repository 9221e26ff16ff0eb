package rules

import (
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// FirstVersionWithTasks is the first checkpoint format that stores packets to nodes in a
// channel, ChannelTasks.
const FirstVersionWithTasks = 4

// MigratePendingSends converts a checkpoint of format 3 or older to the form that the engine
// reads: the packets that tasks of its parent wrote to ChannelTasks become the value of that
// channel, at the highest version of the checkpoint. parentWrites are the pending writes of
// the parent, in order. The stored checkpoint does not change. It reports whether it changed
// cp.
func MigratePendingSends(cp *saver.Checkpoint, parentWrites []saver.PendingWrite, next func() (saver.Version, error)) (bool, error) {
	if cp.V >= FirstVersionWithTasks {
		return false, nil
	}
	var sends []any
	var codec serde.Serializer
	for _, w := range parentWrites {
		if w.Channel != saver.ChannelTasks {
			continue
		}
		v, err := w.Value.Any()
		if err != nil {
			return false, fmt.Errorf("packet of task %q: %w", w.TaskID, err)
		}
		sends, codec = append(sends, v), w.Value.Codec()
	}
	if len(sends) == 0 {
		return false, nil
	}
	var version saver.Version
	if len(cp.Versions) > 0 {
		version = slices.MaxFunc(slices.Collect(maps.Values(cp.Versions)), saver.Version.Compare)
	} else {
		var err error
		if version, err = next(); err != nil {
			return false, err
		}
	}
	if cp.Values == nil {
		cp.Values = map[string]saver.Value{}
	}
	if cp.Versions == nil {
		cp.Versions = map[string]saver.Version{}
	}
	cp.Values[saver.ChannelTasks] = saver.ValueOf(sends).WithCodec(codec)
	cp.Versions[saver.ChannelTasks] = version
	return true, nil
}
