package transfer

import (
	"errors"
	"os"
)

// Rejects is a file that keeps what was rejected, a line of NDJSON for each, with the raw
// bytes; docs/format/ndjson.md describes it. It is made when the first is added, and then
// takes the place of one of that name. It is not safe for concurrent use.
type Rejects struct {
	path string
	f    *os.File
}

// NewRejects is a file that nothing was added to, and that is not made yet.
func NewRejects(path string) *Rejects { return &Rejects{path: path} }

// Add adds a line. It is Options.Reject.
func (j *Rejects) Add(r *Rejected) error {
	l := rejectedLine{Kind: kindRejected, What: r.What, Name: text(r.Name), Thread: text(r.Config.ThreadID), Namespace: text(r.Config.Namespace),
		ID: text(r.Config.CheckpointID), Reason: r.Reason.Error(), Type: text(r.Kind), Data: r.Raw}
	if r.Tuple != nil {
		c, err := newCheckpointLine(r.Tuple)
		if err != nil {
			l.Reason += "; not shown: " + err.Error()
		}
		l.Checkpoint = c
	}
	data, err := plainJSON(l)
	if err != nil {
		return err
	}
	if j.f == nil {
		if j.f, err = os.OpenFile(j.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return err
		}
	}
	_, err = j.f.Write(append(data, '\n'))
	return err
}

// Path is the name of the file; "" if nothing was added.
func (j *Rejects) Path() string {
	if j.f == nil {
		return ""
	}
	return j.path
}

// Close makes the file durable. Nothing can be added afterwards.
func (j *Rejects) Close() error {
	if j.f == nil {
		return nil
	}
	return errors.Join(j.f.Sync(), j.f.Close())
}
