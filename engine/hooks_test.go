package engine

import (
	"context"
)

// What packages that stand on the engine do, for tests of it that need them: see
// above_test.go.
var (
	VerifyStore func(ctx context.Context, o Options) (damaged bool, records int64, err error)
	ExportStore func(ctx context.Context, e *Engine, dir string) error
)
