package pregel

import (
	"crypto/sha1" //nolint:gosec // the ids of LangGraph's oldest format are SHA-1; nothing is secured by it
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"
)

// taskIDs derives the ids of the tasks of one superstep from the checkpoint it
// starts from. It is used by one goroutine.
type taskIDs struct {
	checkpoint [16]byte
	legacy     bool // checkpoints of format 1 have SHA-1 ids
	step       int
	buf        []byte // the bytes to hash; reused for the next id
}

func newTaskIDs(checkpointID string, format, step int) (taskIDs, error) {
	b, ok := parseUUID(checkpointID)
	if !ok {
		return taskIDs{}, &CheckpointIDError{ID: checkpointID}
	}
	return taskIDs{checkpoint: b, legacy: format <= 1, step: step}, nil
}

// begin starts an id: the checkpoint, the namespace of the task and the
// superstep.
func (t *taskIDs) begin(ns string) {
	t.buf = append(append(t.buf[:0], t.checkpoint[:]...), ns...)
	t.addInt(t.step)
}

func (t *taskIDs) add(parts ...string) {
	for _, s := range parts {
		t.buf = append(t.buf, s...)
	}
}

func (t *taskIDs) addInt(n int) { t.buf = strconv.AppendInt(t.buf, int64(n), 10) }

// end hashes the parts into the shape of a UUID.
func (t *taskIDs) end() string {
	if t.legacy {
		sum := sha1.Sum(t.buf) //nolint:gosec // see the import
		return formatUUID([16]byte(sum[:16]))
	}
	return formatUUID(xxh3.Hash128(t.buf).Bytes())
}

// pulled is the id of a node run because its triggers were updated; triggers
// must be sorted.
func (t *taskIDs) pulled(ns, node string, triggers []string) string {
	t.begin(ns)
	t.add(node, pull)
	t.add(triggers...)
	return t.end()
}

// sent is the id of the index-th packet.
func (t *taskIDs) sent(ns, node string, index int) string {
	t.begin(ns)
	t.add(node, push)
	t.addInt(index)
	return t.end()
}

// called is the id of the n-th call of the task at path caller.
func (t *taskIDs) called(ns, function string, caller Path, n int) string {
	t.begin(ns)
	t.add(function, push, caller.String())
	t.addInt(n)
	return t.end()
}

// handling is the id of the error handler of a failed task.
func (t *taskIDs) handling(ns, handler, failedTask string) string {
	t.begin(ns)
	t.add(handler, push, handlerMark, failedTask)
	return t.end()
}

func hexHash(s string) string {
	sum := xxh3.HashString128(s).Bytes()
	return hex.EncodeToString(sum[:])
}

// childNS is the namespace of node under parent.
func childNS(parent, node string) string {
	if parent == "" {
		return node
	}
	return parent + nsSep + node
}

// taskNS is the namespace a task's nested graphs live under.
func taskNS(ns, taskID string) string { return ns + nsEnd + taskID }

func isNumber(part string) bool {
	return part != "" && strings.Trim(part, "0123456789") == ""
}

// recastNS removes the task ids and the numbers of repeated calls from ns. The rest is the path
// of node names.
func recastNS(ns string) string {
	parts := slices.DeleteFunc(strings.Split(ns, nsSep), isNumber)
	for i, p := range parts {
		parts[i], _, _ = strings.Cut(p, nsEnd)
	}
	return strings.Join(parts, nsSep)
}

// stableNS removes the task ids from ns but keeps the numbers. It is the namespace of a graph
// that keeps its history across calls.
func stableNS(ns string) string {
	parts := strings.Split(ns, nsSep)
	for i, p := range parts {
		parts[i], _, _ = strings.Cut(p, nsEnd)
	}
	return strings.Join(parts, nsSep)
}

// parentNS is the namespace of the task whose graph is the parent of the one in
// which the task in ns runs.
func parentNS(ns string) string {
	parts := strings.Split(ns, nsSep)
	dropNumbers := func() {
		for len(parts) > 0 && isNumber(parts[len(parts)-1]) {
			parts = parts[:len(parts)-1]
		}
	}
	dropNumbers()
	if len(parts) > 0 {
		parts = parts[:len(parts)-1]
	}
	dropNumbers()
	return strings.Join(parts, nsSep)
}

// splitNS is ns as the list of its parts; nil for the root.
func splitNS(ns string) []string {
	if ns == "" {
		return nil
	}
	return strings.Split(ns, nsSep)
}

// exitDeltaTaskID is the id under which Exit stores a task's writes to delta channels on the
// checkpoint that the run began with. The id begins with the superstep, so that ids are in
// the order of supersteps.
func exitDeltaTaskID(step int, taskID string) string {
	_, rest, _ := strings.Cut(taskID, "-")
	id := fmt.Sprintf("%08d-%s", step, rest)
	if id == nullTaskID {
		return fmt.Sprintf("%08d-0000-0000-0000-000000000001", step)
	}
	return id
}

// exitDeltaLateTaskID is exitDeltaTaskID for supersteps after the first of the
// run; it sorts after every id of a real task.
func exitDeltaLateTaskID(step int, taskID string) string {
	parts := strings.SplitN(taskID, "-", 4)
	return fmt.Sprintf("ffffffff-%04x-%04x-%s", step>>16, step&0xFFFF, parts[len(parts)-1])
}

// numbered is the namespace of the n-th graph a task runs, counted from zero.
func numbered(ns string, n int64) string {
	if n == 0 {
		return ns
	}
	return ns + nsSep + strconv.FormatInt(n, 10)
}
