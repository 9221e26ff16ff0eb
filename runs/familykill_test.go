package runs_test

import (
	"context"

	"github.com/stele-go/stele/runs/runstest"
)

// familyDir in the environment makes of this test binary a process of TestFamiliesAreKilled.
const familyDir = "STELE_FAMILY_DIR"

func openFamilies(ctx context.Context, dir string) (*runstest.FamilyTorture, func() error, error) {
	x, closes, err := openTorture(ctx, dir)
	if err != nil {
		return nil, closes, err
	}
	return &runstest.FamilyTorture{Dir: dir, Saver: x.Saver, Queue: x.Queue, Parents: environment("STELE_FAMILIES", 50)}, closes, nil
}
