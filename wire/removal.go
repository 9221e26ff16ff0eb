package wire

import (
	"time"

	"github.com/stele-go/stele/saver"
)

// Retain are the parameters of retain. Its answer is a saver.RetentionReport.
type Retain struct {
	Policy saver.RetentionPolicy `msgpack:",inline"`
	DryRun bool                  `msgpack:"dry_run,omitempty"`
	named
}

// retentionPolicy has the tags of saver.RetentionPolicy.
type retentionPolicy struct {
	ThreadIDs   []string      `msgpack:"threads,omitempty"`
	KeepLast    int           `msgpack:"keep_last,omitempty"`
	MaxAge      time.Duration `msgpack:"max_age,omitempty"`
	ThreadBytes int64         `msgpack:"thread_bytes,omitempty"`
	StoreBytes  int64         `msgpack:"store_bytes,omitempty"`
	CutAnyway   bool          `msgpack:"cut_anyway,omitempty"`
}

// retentionReport has the tags of saver.RetentionReport.
type retentionReport struct {
	Threads     int      `msgpack:"threads"`
	Checkpoints int      `msgpack:"checkpoints"`
	Writes      int      `msgpack:"writes"`
	Bytes       int64    `msgpack:"bytes"`
	Left        int64    `msgpack:"left"`
	Over        []string `msgpack:"over"`
	StoreOver   bool     `msgpack:"store_over"`
	saver.KeptList
}

// removal has the tags of saver.Removal, the answer of delete_for_runs and prune.
type removal struct {
	Checkpoints int `msgpack:"checkpoints"`
	Writes      int `msgpack:"writes"`
	saver.KeptList
}

// keptList has the tags of saver.KeptList.
type keptList struct {
	Kept      []saver.Kept `msgpack:"kept"`
	KeptTotal int          `msgpack:"kept_total"`
}

// kept has the tags of saver.Kept.
type kept struct {
	ThreadID     string           `msgpack:"thread"`
	Namespace    string           `msgpack:"ns"`
	CheckpointID string           `msgpack:"id"`
	For          string           `msgpack:"for"`
	Channel      string           `msgpack:"channel"`
	Reason       saver.KeptReason `msgpack:"reason"`
}
