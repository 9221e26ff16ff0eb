package savertest

import (
	"context"

	"github.com/stele-go/stele/saver"
)

// Apart stores the pending writes of a request that have a task path by calls of putWrites,
// and then the rest of it by put. It is for savers of tests that watch the writes of tasks, or
// refuse them: an engine may store those of the last task with the checkpoint that they made,
// in one request.
func Apart(
	ctx context.Context, req saver.PutRequest,
	putWrites func(ctx context.Context, at saver.Config, writes []saver.Write, taskID, taskPath string) error,
	put func(ctx context.Context, req saver.PutRequest) (saver.Config, error),
) (saver.Config, error) {
	var rest []saver.TaskWrites
	for _, w := range req.Writes {
		if w.TaskPath == "" {
			rest = append(rest, w)
			continue
		}
		at := req.Config
		at.ExpectHead = nil
		if at.CheckpointID = w.CheckpointID; at.CheckpointID == "" {
			at.CheckpointID = req.Checkpoint.ID
		}
		if err := putWrites(ctx, at, w.Writes, w.TaskID, w.TaskPath); err != nil {
			return saver.Config{}, err
		}
	}
	req.Writes = rest
	return put(ctx, req)
}
