package backup

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestSlotsEnd ends a context while there is no room: nothing begins, and nobody waits for room.
func TestSlotsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := make(slots, 1)
		s <- struct{}{}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- s.each(ctx, 2, func(context.Context, int) error { return errors.New("it has begun") })
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
