package segment

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// backFile is a memFile that can write back; it remembers up to where.
type backFile struct {
	memFile
	back  int64
	calls int
	cause error
}

func (f *backFile) WriteBack(off, n int64) error {
	f.calls++
	if f.cause != nil {
		return f.cause
	}
	if off != f.back {
		return errors.New("a slice was left out, or written back twice")
	}
	f.back += n
	return nil
}

// buildSlices builds a segment of several slices of 64 KiB.
func buildSlices(t *testing.T, f *backFile, syncs func() int64) error {
	t.Helper()
	b, err := NewBuilder(f, BuilderOptions{FileNum: 12, Salt: 3, SyncEvery: 64 << 10, Syncs: syncs})
	must(t, err)
	defer b.Abort()
	v := noise(rand.New(rand.NewPCG(1, 1)), 100<<10)
	for id := range uint64(8) {
		if err := errors.Join(b.BeginFamily(id), b.AddHot(ValueID{1, 0}, v), b.EndFamily(v)); err != nil {
			return err
		}
	}
	_, err = b.Finish()
	return err
}

// While others sync, every slice is handed to the device and none is synced, until the
// end. While nobody does, each is synced as well.
func TestSlicesAreLeftToOtherSyncs(t *testing.T) {
	var others int64
	f := &backFile{}
	must(t, buildSlices(t, f, func() int64 { others++; return others }))
	slices := len(f.b) / (64 << 10)
	if f.calls != slices || f.back != int64(slices)*(64<<10) || f.syncs != 1 || f.synced != len(f.b) {
		t.Errorf("of %d bytes %d were written back in %d calls, %d are durable after %d syncs", len(f.b), f.back, f.calls, f.synced, f.syncs)
	}
	f = &backFile{}
	must(t, buildSlices(t, f, func() int64 { return 7 }))
	if f.calls != slices || f.syncs != slices+1 || f.maxGap > 64<<10 {
		t.Errorf("alone: %d slices, %d syncs, up to %d bytes unsynced", f.calls, f.syncs, f.maxGap)
	}
	f = &backFile{}
	must(t, buildSlices(t, f, nil))
	if f.calls != 0 || f.syncs != slices+1 {
		t.Errorf("without Syncs: %d slices written back, %d syncs", f.calls, f.syncs)
	}
}

// A slice that could not be written is the end of the segment, as a failed sync is.
func TestWriteBackFails(t *testing.T) {
	f := &backFile{cause: errors.New("device failed")}
	err := buildSlices(t, f, func() int64 { return 0 })
	if !errors.Is(err, f.cause) || f.calls != 1 || f.syncs != 0 {
		t.Errorf("%v after %d calls and %d syncs", err, f.calls, f.syncs)
	}
}
