package admin

import (
	"context"
	"time"

	"github.com/stele-go/stele/internal/backup"
	"github.com/stele-go/stele/internal/diskhook"
	"github.com/stele-go/stele/saver/disk"
)

// BackupOptions configure Backup and Restore.
type BackupOptions struct {
	Access Access
	// Check makes Backup read again what an earlier backup has stored before it relies
	// on it: slower, but a backup that rotted is made good. It does not concern Restore.
	Check    bool
	Progress func(Progress) // may be nil
}

// BackupReport says what a backup holds, and what was done for it.
type BackupReport struct {
	Dir         string        `json:"dir"`
	Dest        string        `json:"dest"`
	StoreID     string        `json:"store_id"`
	LastLSN     uint64        `json:"last_lsn"` // the last commit in the backup
	Files       int           `json:"files"`
	Bytes       int64         `json:"bytes"`
	CopiedFiles int           `json:"copied_files"` // the others were there
	CopiedBytes int64         `json:"copied_bytes"`
	Removed     []string      `json:"removed"` // of an earlier backup, no longer needed
	Took        time.Duration `json:"took_ns"`
}

func (o BackupOptions) options(step string) backup.Options {
	b := backup.Options{Engine: o.Access.engine(), Check: o.Check}
	if o.Progress != nil {
		b.Progress = func(done, total int64) { o.Progress(Progress{Step: step, Done: done, Total: total}) }
	}
	return b
}

// Backup copies the store in dir to dest, which is made if need be, without the
// store's lock and beside its writer. The backup is the store at one moment during the
// call: every commit acknowledged before it, and of the later ones a prefix. What dest
// holds of an earlier backup of this store is not copied again; that backup stays in
// force until the new one is complete and durable.
//
// Errors: fault.CorruptionError if the store is damaged, fault.ErrNotStore,
// fault.VersionError, fault.ErrNotEmpty for a dest with other files, fault.LockedError if
// another backup to dest is under way. The
// earlier backup is then as it was.
func Backup(ctx context.Context, dir, dest string, o BackupOptions) (*BackupReport, error) {
	return makeBackup(ctx, dir, dest, o.options("copy"))
}

func makeBackup(ctx context.Context, dir, dest string, o backup.Options) (*BackupReport, error) {
	start := time.Now()
	rep, err := backup.Make(ctx, dir, dest, o)
	if err != nil {
		return nil, err
	}
	out := &BackupReport{Dir: dir, Dest: dest, StoreID: hexID(rep.StoreID), LastLSN: uint64(rep.LSN), Files: rep.Files, Bytes: rep.Bytes,
		CopiedFiles: rep.CopiedFiles, CopiedBytes: rep.CopiedBytes, Removed: rep.Removed, Took: time.Since(start)}
	if out.Removed == nil {
		out.Removed = []string{}
	}
	return out, nil
}

// BackupOpen is Backup of a store that this process has open. It first makes durable
// what was acknowledged, so that in every mode the backup holds no commit that a crash
// of the machine could take from the store.
func BackupOpen(ctx context.Context, s *disk.Saver, dest string, o BackupOptions) (*BackupReport, error) {
	if err := s.Sync(ctx); err != nil {
		return nil, err
	}
	// The directory that is open is read, though its path may lead elsewhere by now.
	opts := o.options("copy")
	opts.Dest = o.Access.sim().FS
	if opts.Dest == nil {
		opts.Dest = diskhook.Engine(s).Around()
	}
	opts.Engine.FS = diskhook.Engine(s).Held
	return makeBackup(ctx, diskhook.Engine(s).Dir, dest, opts)
}

// Restore makes a store in dir, which must be empty or missing, of the backup in
// from. Every byte is checked on the way, and the complete store is verified, before
// it becomes one: until then Open refuses dir. It is the store that was backed up, id
// included; only one of the two should go on.
//
// Errors: fault.CorruptionError if the backup is damaged, fault.ErrNotStore if from
// holds no backup, fault.ErrNotEmpty for a dir with anything in it. Files written before an error are removed.
func Restore(ctx context.Context, from, dir string, o BackupOptions) (*VerifyReport, error) {
	rep, err := backup.Restore(ctx, from, dir, o.options("restore"))
	if rep == nil {
		return nil, err
	}
	return verifyReport(dir, rep), err
}
