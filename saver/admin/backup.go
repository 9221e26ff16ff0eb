package admin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/backup"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
)

// BackupOptions configure Backup and Restore.
type BackupOptions struct {
	Access Access
	// Check makes Backup read the files of an earlier backup before it relies on them.
	// That is slower, but repairs a backup with bit rot. Restore ignores it.
	Check bool
	// Release makes Restore, and RestoreBucket to a moment, make a store that goes on by itself with what waits in it. Otherwise it
	// is held: see disk.Saver.Release.
	Release  bool
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
	b := backup.Options{Engine: o.Access.engine(), Check: o.Check, Release: o.Release}
	if o.Progress != nil {
		b.Progress = func(done, total int64) { o.Progress(Progress{Step: step, Done: done, Total: total}) }
	}
	return b
}

// Backup copies the store in dir to dest, without the store's lock and while a writer may be
// at work. It creates dest if necessary. The backup is a consistent state of the store: it
// has every commit that was acknowledged before the call, and a prefix of the later ones.
// Files that dest has from an earlier backup of this store are not copied again. The earlier
// backup stays valid until the new one is complete and durable.
//
// Errors: fault.CorruptionError if the store is damaged, fault.ErrNotStore,
// fault.VersionError, fault.ErrNotEmpty for a dest with other files, fault.LockedError if
// another backup to dest is under way. An earlier backup is then unchanged.
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

// BackupOpen is Backup for a store that this process has open. It first makes everything
// durable that was acknowledged, and uses the keys of the store unless o has some. So, in every mode, the backup
// has no commit that the store could lose in a crash of the machine.
func BackupOpen(ctx context.Context, s *disk.Saver, dest string, o BackupOptions) (*BackupReport, error) {
	if err := s.Sync(ctx); err != nil {
		return nil, err
	}
	// Read the directory that is open, because its path may lead to another by now.
	opts := o.options("copy")
	opts.Dest = o.Access.sim().FS
	if opts.Dest == nil {
		opts.Dest = s.Inside().Engine.Around()
	}
	opts.Engine.FS = s.Inside().Engine.Held
	if opts.Engine.Keys == nil {
		opts.Engine.Keys = s.Inside().Engine.Opts.Keys
	}
	return makeBackup(ctx, s.Inside().Engine.Dir, dest, opts)
}

// FoundBackup is a backup of a store.
type FoundBackup struct {
	Dir  string    `json:"dir"`
	Made time.Time `json:"made,omitzero"` // UTC
	// Unread says why nobody knows whether the directory is one; "" if it is.
	Unread string `json:"unread,omitempty"`
}

// besideMost bounds the directories beside a store that BackupsOf looks into.
const besideMost = 1000

// BackupsOf finds backups of a store that this process has open: those in dirs, and those in directories
// beside its own, also those that may be one and cannot be read. A directory of dirs that has none of this
// store is an error: fault.ErrNotStore, or saver.InvalidError if it has one of another store. Where backups are otherwise, no store knows.
func BackupsOf(s *disk.Saver, dirs ...string) ([]FoundBackup, error) {
	in := s.Inside().Engine
	found, seen := []FoundBackup{}, map[string]bool{}
	look := func(dir string) error {
		key := realPath(dir)
		if seen[key] {
			return nil
		}
		list, err := backup.Read(in.Around(), dir)
		if err != nil {
			return err
		}
		if list.StoreID != in.StoreID() {
			return saver.Invalidf("backup", "%s has one of another store", dir)
		}
		seen[key] = true
		found = append(found, FoundBackup{Dir: filepath.Clean(dir), Made: list.Created})
		return nil
	}
	for _, dir := range dirs {
		if err := look(dir); err != nil {
			return nil, err
		}
	}
	// Most of what is beside it are no backups. What may not be read, or is damaged, may be one.
	unknown := func(dir string, err error) {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fault.ErrCorrupt) || vfs.Unreadable(err) {
			found = append(found, FoundBackup{Dir: dir, Unread: err.Error()})
		}
	}
	around := filepath.Dir(realPath(in.Dir))
	beside, err := in.Around().List(around)
	unknown(around, err)
	for _, name := range beside[:min(len(beside), besideMost)] {
		if dir := filepath.Join(around, name); name != "lost+found" { // which a file system has, for root alone
			unknown(dir, look(dir))
		}
	}
	return found, nil
}

// realPath is the whole path of a directory, without links: what lies beside a link, or beside ".", is not beside the
// directory. A path that leads nowhere, as of a file system in memory, stays as it is.
func realPath(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		if abs, err := filepath.Abs(real); err == nil {
			return abs
		}
	}
	return filepath.Clean(dir)
}

// Restore makes a store in dir from the backup in from. dir must be empty or missing. Every
// byte is checked, and the complete store is verified. Until that is done, Open refuses dir.
// The new store has the same id as the one that was backed up. Use only one of the two. It is
// held, unless o says otherwise: see disk.Saver.Release.
//
// If an image of the index is damaged, images are left out, and the next open makes the index; the
// report has a notice. Errors: fault.CorruptionError if anything else is damaged, fault.ErrNotStore if from holds no
// backup, fault.ErrNotEmpty if dir is not empty. After an error the files that were written
// are removed.
func Restore(ctx context.Context, from, dir string, o BackupOptions) (*VerifyReport, error) {
	rep, err := backup.Restore(ctx, from, dir, o.options("restore"))
	if rep == nil {
		return nil, err
	}
	return verifyReport(dir, rep), err
}

// Moment is up to where a store is restored from a bucket: the longest prefix of its commits that neither LSN nor Time
// excludes, or what AtCheckpoint says. The zero Moment is the end. It is of a package for this repository.
type Moment = backup.Moment

// NoMomentError is the error for a moment that a bucket does not have, and says between which times it has all. It matches
// fault.ErrNotFound.
type NoMomentError = backup.NoMomentError

// AtCheckpoint is the moment when a checkpoint of a thread, of any namespace, was stored: the restored store has it, and of what came later
// only what was made durable together with it. If the oldest point in the bucket has it, that is the moment. A restore to it reads the
// bucket from the oldest point on.
func AtCheckpoint(thread, checkpoint string) Moment {
	return Moment{Partition: layout.ThreadKey(thread), Named: fmt.Sprintf("checkpoint %q of thread %q", checkpoint, thread), Entry: func(key string) bool {
		_, id, ok := layout.ParseCheckpointKey(key)
		return ok && id == checkpoint
	}}
}

// BucketReport says what was restored from a bucket.
type BucketReport struct {
	Dir     string        `json:"dir"`
	StoreID string        `json:"store_id"`
	LastLSN uint64        `json:"last_lsn"`
	Stamp   time.Time     `json:"stamp"` // of the last record, by the clock of the leader that wrote it
	Epoch   uint64        `json:"epoch"` // of that leader
	Point   uint64        `json:"point"` // the last record of the point with which the restore began
	Took    time.Duration `json:"took_ns"`
}

// RestoreBucket makes a store in dir, which must be empty or missing, of what disk.Options.Replica has kept in a
// bucket. A store that was restored to the end opens with that bucket alone, and goes on where the old machine ended. One
// that was restored to a moment is a store of its own: it opens without a bucket, or with an empty one, and is held unless o says
// otherwise.
//
// Errors: a *NoMomentError; replica.ErrNoLineage for a bucket without a store; replica.ErrSeeding if it is not complete yet;
// replica.ErrPointGone if what is needed was deleted meanwhile; fault.CorruptionError, fault.ErrNotEmpty. After an
// error what was written is removed; after a crash Open refuses dir, which has to be removed.
func RestoreBucket(ctx context.Context, b bucket.Bucket, dir string, at Moment, o BackupOptions) (*BucketReport, error) {
	start := time.Now()
	rep, err := backup.FromBucket(ctx, b, dir, at, o.options("restore"))
	if err != nil {
		return nil, err
	}
	return &BucketReport{Dir: dir, StoreID: hexID(rep.StoreID), LastLSN: uint64(rep.LSN), Stamp: rep.Stamp.UTC(), Epoch: rep.Epoch,
		Point: uint64(rep.Point), Took: time.Since(start)}, nil
}

// DetachBucket makes the store in dir, which disk.Options.Replica keeps in a bucket, a store of its own: it opens without
// the bucket, and is never part of that lineage again. The bucket stays as it is. A store that has not led since it was restored, or
// followed, is held then: see disk.Saver.Release.
func DetachBucket(dir string, a Access) error {
	if _, err := Describe(dir, a); err != nil { // to open would make a store
		return err
	}
	return engine.Detach(dir, a.engine())
}

// RejoinReport says what became of a directory that rejoined.
type RejoinReport struct {
	Dir string `json:"dir"`
	// First is the first record that the directory had and the bucket lacks; 0 if there was none. It and those behind it are in files
	// diverged-….tail there.
	First uint64 `json:"first_diverged"`
}

// RejoinBucket makes the directory of a store that the lineage in a bucket went on without one of the lineage again. What it has, and the
// bucket lacks, is kept in files beside the store, which nobody reads by itself. The store is made anew from the bucket, unless it is
// what the bucket has. It opens by disk.OpenFollower then, or to take over.
//
// Errors: those of RestoreBucket; fault.LockedError; replica.ErrDiverged for the directory that led last, which has more than the bucket:
// it leads again. A call that was interrupted is made again.
func RejoinBucket(ctx context.Context, b bucket.Bucket, dir string, a Access) (*RejoinReport, error) {
	if _, err := Describe(dir, a); err != nil { // it would be made
		return nil, err
	}
	o := a.engine()
	o.Replica.Bucket = b
	first, err := backup.Rejoin(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	return &RejoinReport{Dir: dir, First: uint64(first)}, nil
}
