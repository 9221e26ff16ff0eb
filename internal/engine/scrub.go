package engine

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/internal/scrub"
	"github.com/stele-go/stele/monitor"
)

// Scrub replaces every file of the store by one that holds only what is live. When
// it returns nil, nothing that was deleted before the call is in any file of the
// directory: not in a block, a page, a record, the name of a partition, or behind the
// end of what is used. Files that a view needs, or a reader in another process
// where that forbids removal, are waited for, until ctx ends.
//
// The store must hold something: if it does not, there may be nothing to flush or
// compact, and so no reason for a new image.
//
// After an error, or a crash, the store is whole, some files may be the old ones
// still, and calling again begins anew. Commits go on beside it.
//
// tell, unless it is nil, is called before each family is written and each time that
// files are gone, on the goroutine of the call.
func (e *Engine) Scrub(ctx context.Context, tell func(monitor.EraseProgress)) error {
	if e.Opts.ReadOnly {
		return fault.ErrReadOnly
	}
	if err := e.Enter(); err != nil {
		return err
	}
	defer e.Leave()
	if err := scrub.Run(ctx, e.compactor, e.flusher, e.images, tell); err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	return nil
}
