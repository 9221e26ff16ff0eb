package engine

import (
	"context"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/replica/bucket"
)

// What packages that stand on the engine do, for tests of it that need them: see
// above_test.go.
var (
	VerifyStore func(ctx context.Context, o Options) (damaged bool, records int64, err error)
	ExportStore func(ctx context.Context, e *Engine, dir string) error
	// RestoreStore restores up to a record, or a time, or the end.
	RestoreStore func(ctx context.Context, b bucket.Bucket, dir string, lsn base.LSN, at time.Time, o Options) (base.LSN, error)
)
