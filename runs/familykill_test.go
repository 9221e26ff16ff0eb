package runs_test

import (
	"context"
	"testing"

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

func familyTortured(dir string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	x, closes, err := openFamilies(ctx, dir)
	if err != nil {
		return err
	}
	worked := make(chan error, 1)
	go func() { worked <- x.Work(ctx) }()
	if err := x.Drive(ctx); err != nil {
		return err
	}
	cancel()
	if err := <-worked; err != nil {
		return err
	}
	return closes()
}

func checkFamilies(t *testing.T, dir string, kills int) {
	x, closes, err := openFamilies(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer closes()
	if err := x.Check(t.Context()); err != nil {
		t.Errorf("after %d kills:\n%v", kills, err)
	}
	t.Logf("killed %d times during %d families", kills, x.Parents)
}
