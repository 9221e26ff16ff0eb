package engine

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/engine/internal/scrub"
)

// Scrub replaces every file of the store by one that holds only what is live; see package
// scrub. Files that a view needs, or a reader in another process where that forbids removal,
// are waited for, until ctx ends. Commits go on beside it. tell may be nil; see scrub.Run.
func (e *Engine) Scrub(ctx context.Context, tell func(metrics.EraseProgress)) error {
	if err := e.EnterToWrite(); err != nil {
		return err
	}
	defer e.Leave()
	if err := scrub.Run(ctx, e.compactor, e.flusher, e.images, tell); err != nil {
		return fmt.Errorf("scrub: %w", err)
	}
	return nil
}
