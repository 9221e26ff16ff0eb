package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/replica"
)

// NoMomentError: a bucket has no such moment. It matches fault.ErrNotFound.
type NoMomentError struct {
	What     string    // what was looked for
	From, To time.Time // between these the bucket has all moments, by the clocks of its leaders
}

// Error says between which times the bucket reaches.
func (e *NoMomentError) Error() string {
	return fmt.Sprintf("the bucket has no %s: it reaches from %s to %s", e.What, e.From.UTC().Format(time.RFC3339), e.To.UTC().Format(time.RFC3339))
}

// Is makes every NoMomentError match fault.ErrNotFound.
func (e *NoMomentError) Is(target error) bool { return target == fault.ErrNotFound }

// noMoment is the error for a moment that the bucket does not have.
func (r *fromBucket) noMoment(ctx context.Context, what string) error {
	st, err := replica.ReadStatus(ctx, r.ro)
	if err != nil {
		return err
	}
	return &NoMomentError{What: what, From: time.UnixMicro(st.Points[0].Stamp), To: time.UnixMicro(st.End.Stamp)}
}

// errFound ends a scan.
var errFound = errors.New("found")

// find sets the record of a moment that is named by an entry: the one that first stores it, behind the oldest point. Without
// one, it came with a copy of the partition, or the point has it; see has.
func (r *fromBucket) find(ctx context.Context) error {
	if r.at.Partition == "" {
		return nil
	}
	points, err := replica.Points(ctx, r.ro)
	if err != nil {
		return err
	}
	if len(points) == 0 {
		return replica.ErrSeeding
	}
	ro := r.ro
	if ro.Keys, ro.ChainKey, err = LineageKeys(ctx, ro.Bucket, ro.Store, r.o.Engine.Keys); err != nil {
		return err
	}
	at := base.LSN(0)
	err = replica.Scan(ctx, ro, func(b replica.Batch) error {
		for i, record := range b.Records {
			lsn := b.First + base.LSN(i)
			info, err := engine.DescribeRecord(lsn, record)
			if err != nil {
				return err
			}
			for _, op := range info.Ops {
				switch {
				case op.Op == "put" && op.Partition == r.at.Partition && r.at.Entry(op.Key):
					at = lsn
					return errFound
				case op.Op == "copy" && op.Key == r.at.Partition:
					at = lsn
				}
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return err
	}
	r.at.LSN = max(at, points[0].LSN)
	return nil
}

// has is an error if the store that was restored does not have the entry that names the moment.
func (r *fromBucket) has(ctx context.Context, e *engine.Engine) error {
	if r.at.Partition == "" {
		return nil
	}
	t, err := e.Partition(r.at.Partition)
	if err != nil {
		return err
	}
	there := false
	if t != nil {
		t.Ascend("", func(it *index.Entry) bool { there = r.at.Entry(it.Key); return !there })
	}
	if there {
		return nil
	}
	return r.noMoment(ctx, r.at.Named)
}
