package engine_test

import (
	"context"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/engine/check"
	"github.com/stele-go/stele/engine/export"
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
}
