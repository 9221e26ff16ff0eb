package server

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// troubleUnmoved is the problem that items of users are at their former places.
const troubleUnmoved metrics.Trouble = "items_unmoved"

// health answers how an embedded store is. A saver elsewhere has no such answer.
func (s *operatorAPI) health(c *call) error {
	w, ok := s.saver.(watched)
	if !ok {
		return errNotFound
	}
	st, h := w.Stats(), w.Health()
	if s.unmoved.any(c.ctx) {
		h.Status = max(h.Status, metrics.StatusDegraded)
		h.Problems = append(h.Problems, metrics.Problem{Kind: troubleUnmoved, Status: metrics.StatusDegraded,
			Detail: "items of users are where an earlier version kept them, and no client sees them there: move them with stele move-items"})
	}
	threads := st.Threads // with the namespaces of subgraphs, which nobody would call threads
	if x := s.threads.index; x != nil {
		if _, n, ok, err := x.find(c.ctx, threadSelection{}, 0, true); ok && err == nil {
			threads = n
		}
	}
	return c.json(map[string]any{"health": h, "stats": map[string]any{
		"threads": threads, "log_files": st.LogFiles, "log_bytes": st.LogBytes, "segments": st.Segments, "segment_bytes": st.SegmentBytes,
		"raw_bytes": st.RawBytes, "dead_bytes": st.DeadBytes, "images": st.Images, "compaction_debt": st.CompactionDebt, "resident": st.Resident}})
}

// embedded is the store in a directory that this process has open.
func (s *operatorAPI) embedded(*call) (*disk.Saver, error) {
	if d, ok := s.saver.(*disk.Saver); ok {
		return d, nil
	}
	return nil, errNotFound
}

// diskUsage answers with the stored bytes of an embedded store, by channel. It reads the whole index.
func (s *operatorAPI) diskUsage(c *call, d *disk.Saver) error {
	r, err := admin.UsageOf(c.ctx, d)
	return c.answer(r, err)
}

// maintain answers with what work reports. One check, backup or erasure at a time is enough for a disk.
func (s *operatorAPI) maintain(c *call, work func() (any, error)) error {
	if !s.upkeep.TryLock() {
		return fail(409, "A check, a backup or an erasure is under way. Try again later.")
	}
	defer s.upkeep.Unlock()
	return c.answer(work())
}

// verify checks every byte of an embedded store, which goes on meanwhile.
func (s *operatorAPI) verify(c *call, d *disk.Saver) error {
	return s.maintain(c, func() (any, error) { return admin.VerifyOpen(c.ctx, d, admin.VerifyOptions{}) })
}

// backUp copies an embedded store to Config.BackupDir, or what is new since the last backup.
func (s *operatorAPI) backUp(c *call, d *disk.Saver) error {
	if s.backupDir == "" {
		return errNotFound
	}
	return s.maintain(c, func() (any, error) {
		rep, err := admin.BackupOpen(c.ctx, d, s.backupDir, admin.BackupOptions{})
		if errors.Is(err, fault.ErrNotEmpty) {
			err = fail(409, "%v", err)
		}
		return rep, err
	})
}

// eraseUser erases a user, or says what it would. It is told by which metadata things are the user's, as no default is
// right where Authorize is the program's own, and nobody else is granted this. A client that is gone, as behind a proxy that
// waits for a minute, ends the look and the deletion, and not the rewrite of the files, which would never end on a large store.
func (s *operatorAPI) eraseUser(c *call) error {
	o := EraseOptions{Identity: c.body.text("identity"), Filter: c.body.object("filter"), DryRun: true}
	if dry, given := c.body["dry_run"].(bool); given {
		o.DryRun = dry
	}
	lists, _ := c.body["items"].([]any)
	for _, labels := range lists {
		o.Items = append(o.Items, body{"items": labels}.texts("items"))
	}
	if s.backupDir != "" && s.users.directory() != nil {
		if _, err := os.Stat(filepath.Join(s.backupDir, "BACKUP")); err == nil {
			o.Backups = []string{s.backupDir}
		}
	}
	for _, name := range s.view.graphs.names {
		if k := s.view.graphs.by[name].Cache(); k != nil {
			o.Caches = append(o.Caches, k)
		}
	}
	return s.maintain(c, func() (any, error) { return s.users.erase(c.ctx, s.lives, o) })
}
