package engine_test

import (
	"context"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/backup"
	"github.com/stele-go/stele/engine/check"
	"github.com/stele-go/stele/engine/export"
	"github.com/stele-go/stele/replica/bucket"
)

func init() {
	engine.VerifyStore = func(ctx context.Context, o engine.Options) (damaged bool, records int64, err error) {
		rep, err := check.Run(ctx, "store", o, nil)
		if err != nil {
			return false, 0, err
		}
		return rep.Damaged(), int64(rep.Records), nil
	}
	engine.ExportStore = func(ctx context.Context, e *engine.Engine, dir string) error {
		_, err := export.Run(ctx, e.Store, dir, export.Options{FS: e.Around()})
		return err
	}
	engine.RestoreStore = func(ctx context.Context, b bucket.Bucket, dir string, lsn base.LSN, at time.Time, o engine.Options) (base.LSN, error) {
		rep, err := backup.FromBucket(ctx, b, dir, backup.Moment{LSN: lsn, Time: at}, backup.Options{Engine: o})
		if err != nil {
			return 0, err
		}
		return rep.LSN, nil
	}
	engine.FollowStore, engine.RejoinStore = backup.OpenFollower, backup.Rejoin
}
