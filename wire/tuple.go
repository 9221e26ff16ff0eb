package wire

import "github.com/stele-go/stele/saver"

// At are the parameters of get, delta_history and count_attempt.
type At struct {
	Config   saver.Config `msgpack:",inline"`            // with Epoch, of count_attempt
	Channels []string     `msgpack:"channels,omitempty"` // of delta_history
	named
}

// Got is the answer of get; Tuple is nil if there is none.
type Got struct {
	Tuple *Tuple `msgpack:"tuple"`
}

// Tuple is a saver.Tuple, which TupleOf and Saver translate.
type Tuple struct {
	Thread   string                              `msgpack:"thread"`
	NS       string                              `msgpack:"ns"`
	ID       string                              `msgpack:"id"`
	Parent   *string                             `msgpack:"parent"`
	V        int                                 `msgpack:"v"`
	TS       string                              `msgpack:"ts"`
	Values   map[string]saver.Value              `msgpack:"values"`
	Versions map[string]saver.Version            `msgpack:"versions"`
	Seen     map[string]map[string]saver.Version `msgpack:"seen"`
	Updated  []string                            `msgpack:"updated,null"`
	Metadata map[string]any                      `msgpack:"metadata"`
	Writes   []saver.PendingWrite                `msgpack:"writes"`
	Note     *saver.Note                         `msgpack:"note,omitempty"`
}

// TupleOf is the tuple as it is sent.
func TupleOf(t *saver.Tuple) *Tuple {
	cp := &t.Checkpoint
	out := &Tuple{
		Thread: t.Config.ThreadID, NS: t.Config.Namespace, ID: t.Config.CheckpointID, V: cp.V, TS: cp.TS, Values: cp.Values, Versions: cp.Versions,
		Seen: cp.Seen, Updated: cp.Updated, Metadata: t.Metadata, Writes: t.PendingWrites, Note: t.Note,
	}
	if t.Parent != nil {
		out.Parent = &t.Parent.CheckpointID
	}
	return out
}

// Saver returns the saver's tuple for t.
func (t *Tuple) Saver() *saver.Tuple {
	cfg := saver.Config{ThreadID: t.Thread, Namespace: t.NS, CheckpointID: t.ID}
	cp := saver.Checkpoint{V: t.V, ID: t.ID, TS: t.TS, Values: t.Values, Versions: t.Versions, Seen: t.Seen, Updated: t.Updated}
	out := &saver.Tuple{Config: cfg, Checkpoint: cp, Metadata: t.Metadata, PendingWrites: t.Writes, Note: t.Note}
	if out.PendingWrites == nil {
		out.PendingWrites = []saver.PendingWrite{}
	}
	if t.Parent != nil {
		at := cfg.At(*t.Parent)
		out.Parent = &at
	}
	return out
}

// deltaHistory has the tags of saver.DeltaHistory. The answer of delta_history is a map of
// them, by channel.
type deltaHistory struct {
	Writes []saver.PendingWrite `msgpack:"writes"`
	Seed   saver.Value          `msgpack:"seed,null"`
}
