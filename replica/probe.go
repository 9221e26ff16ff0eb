package replica

import (
	"context"
	"errors"
	"log/slog"

	"github.com/stele-go/stele/replica/bucket"
)

// Probe looks whether a lineage may begin in a bucket: whether rules of the bucket take its objects away, and then bucket.Probe. Where
// the bucket does not tell its rules, log does.
//
// Errors: bucket.ErrUnfit, of a rule before anything is put.
func Probe(ctx context.Context, o Options, log *slog.Logger) error {
	var untold error
	if r, ok := o.Bucket.(bucket.Ruler); ok {
		o = o.withDefaults()
		call, cancel := o.bounded(ctx, 0)
		err := r.CheckRules(call, headKey, chunkPrefix+"0", pointPrefix, pinPrefix, filePrefix) // epochs have ten digits; "exports/" is no chunk
		cancel()
		if !errors.Is(err, bucket.ErrRefused) && err != nil {
			return Unanswered(err)
		}
		untold = err
	}
	if err := bucket.Probe(ctx, o.Bucket); err != nil {
		return Unanswered(err)
	}
	if untold != nil {
		log.Warn("the bucket does not tell its rules; none may delete or archive objects of the store", "error", untold)
	}
	return nil
}
