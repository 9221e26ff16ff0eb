package wire

import "github.com/stele-go/stele/saver"

// Put are the parameters of put: those of a saver.PutRequest, which PutOf and Request
// translate.
type Put struct {
	Thread       string                   `msgpack:"thread,omitempty"`
	NS           string                   `msgpack:"ns,omitempty"`
	Parent       string                   `msgpack:"parent,omitempty"`
	Checkpoint   saver.Checkpoint         `msgpack:"checkpoint"`
	Metadata     map[string]any           `msgpack:"metadata,omitempty"`
	Configurable map[string]any           `msgpack:"configurable,omitempty"`
	RunMetadata  map[string]any           `msgpack:"run_metadata,omitempty"`
	NewVersions  map[string]saver.Version `msgpack:"new_versions"`
	ExpectHead   *string                  `msgpack:"expect_head,omitempty"`
	Epoch        int64                    `msgpack:"epoch,omitempty"`
	ValuesFrom   *string                  `msgpack:"values_from,omitempty"`
	Note         *saver.Note              `msgpack:"note,omitempty"`
	Writes       []saver.TaskWrites       `msgpack:"writes,omitempty"`
	DeferSync    bool                     `msgpack:"defer_sync,omitempty"`
	named
}

// PutOf are the parameters for req, with the values of the channels in NewVersions alone.
func PutOf(req saver.PutRequest) Put {
	cfg, cp := &req.Config, req.Checkpoint
	cp.Values = map[string]saver.Value{}
	for channel := range req.NewVersions {
		if v := req.Checkpoint.Values[channel]; !v.IsZero() {
			cp.Values[channel] = v
		}
	}
	p := Put{
		Thread: cfg.ThreadID, NS: cfg.Namespace, Parent: cfg.CheckpointID, Checkpoint: cp, Metadata: req.Metadata,
		Configurable: cfg.Configurable, RunMetadata: cfg.Metadata, NewVersions: req.NewVersions, ExpectHead: cfg.ExpectHead, Epoch: cfg.Epoch, Note: req.Note,
	}
	if len(req.Writes) > 0 {
		p.Writes = req.Writes
	}
	if req.ValuesFrom != nil {
		p.ValuesFrom = &req.ValuesFrom.CheckpointID
	}
	return p
}

// Request returns the request in p. If required fields are missing, the saver refuses it.
func (p *Put) Request() saver.PutRequest {
	cfg := saver.Config{ThreadID: p.Thread, Namespace: p.NS, CheckpointID: p.Parent, Configurable: p.Configurable, Metadata: p.RunMetadata,
		ExpectHead: p.ExpectHead, Epoch: p.Epoch}
	req := saver.PutRequest{Config: cfg, Checkpoint: p.Checkpoint, Metadata: p.Metadata, NewVersions: p.NewVersions, Note: p.Note, Writes: p.Writes}
	if p.ValuesFrom != nil {
		from := cfg.At(*p.ValuesFrom)
		req.ValuesFrom = &from
	}
	return req
}

// checkpoint has the tags of saver.Checkpoint.
type checkpoint struct {
	V         int                                 `msgpack:"v,omitempty"`
	ID        string                              `msgpack:"id,omitempty"`
	TS        string                              `msgpack:"ts,omitempty"`
	Values    map[string]saver.Value              `msgpack:"values"`
	Versions  map[string]saver.Version            `msgpack:"versions"`
	Seen      map[string]map[string]saver.Version `msgpack:"seen"`
	Updated   []string                            `msgpack:"updated,omitempty"`
	Immutable bool                                `msgpack:"-"`
}

// note has the tags of saver.Note.
type note struct {
	Graph   string     `msgpack:"graph,omitempty"`
	Next    []string   `msgpack:"next,omitempty"`
	Stop    saver.Stop `msgpack:"stop,omitempty"`
	Deltas  []string   `msgpack:"deltas,omitempty"`
	Version string     `msgpack:"version,omitempty"`
}

// taskWrites has the tags of saver.TaskWrites.
type taskWrites struct {
	CheckpointID string        `msgpack:"id,omitempty"`
	TaskID       string        `msgpack:"task,omitempty"`
	TaskPath     string        `msgpack:"path,omitempty"`
	Writes       []saver.Write `msgpack:"writes"`
}

// PutWrites are the parameters of put_writes.
type PutWrites struct {
	Config    saver.Config  `msgpack:",inline"`
	Task      string        `msgpack:"task,omitempty"`
	Path      string        `msgpack:"path,omitempty"`
	Writes    []saver.Write `msgpack:"writes"`
	DeferSync bool          `msgpack:"defer_sync,omitempty"`
	named
}

// config has the tags of saver.Config.
type config struct {
	ThreadID     string         `msgpack:"thread,omitempty"`
	Namespace    string         `msgpack:"ns,omitempty"`
	CheckpointID string         `msgpack:"id,omitempty"`
	ExpectHead   *string        `msgpack:"-"`
	Epoch        int64          `msgpack:"epoch,omitempty"`
	Metadata     map[string]any `msgpack:"-"`
	Configurable map[string]any `msgpack:"-"`
}

// PutAnswer is the answer of put: where the checkpoint is.
type PutAnswer struct {
	Thread string `msgpack:"thread"`
	NS     string `msgpack:"ns"`
	ID     string `msgpack:"id"`
}

// Config returns the place in the form of the saver's answer.
func (a PutAnswer) Config() saver.Config {
	return saver.Config{ThreadID: a.Thread, Namespace: a.NS, CheckpointID: a.ID}
}
