package s3

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/stele-go/stele/replica/bucket"
)

// CheckRules implements bucket.Ruler, by the bucket's lifecycle.
func (s *store) CheckRules(ctx context.Context, prefixes ...string) error {
	life, err := s.api.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &s.bucket})
	switch got := status(err); {
	case err == nil:
	case codeOf(err) == "NoSuchLifecycleConfiguration":
		return nil
	case got == 0 || got >= http.StatusInternalServerError && got != http.StatusNotImplemented:
		return fmt.Errorf("%s: get its lifecycle rules: %w", s.where, err)
	default:
		return fmt.Errorf("%w: %s: s3:GetLifecycleConfiguration: %s", bucket.ErrRefused, s.where, codeOf(err))
	}
	for _, r := range life.Rules {
		if does := takes(r); does != "" && s.reaches(r, prefixes) {
			return fmt.Errorf("%w: %s: its lifecycle rule %q %s: limit the rule to another prefix, or remove it",
				bucket.ErrUnfit, s.where, aws.ToString(r.ID), does)
		}
	}
	return nil
}

// takes says what a rule does to objects that are there, and when; "" if all of them can still be read at once.
func takes(r types.LifecycleRule) string {
	if r.Status != types.ExpirationStatusEnabled {
		return ""
	}
	if e := r.Expiration; e != nil && (aws.ToInt32(e.Days) > 0 || e.Date != nil) { // else it is for the marks of what was deleted
		return "deletes objects of the store " + when(e.Days, e.Date)
	}
	for _, t := range r.Transitions {
		if t.StorageClass == types.TransitionStorageClassGlacier || t.StorageClass == types.TransitionStorageClassDeepArchive {
			return fmt.Sprintf("moves objects of the store to %s, where they cannot be read at once, %s", t.StorageClass, when(t.Days, t.Date))
		}
	}
	return ""
}

// when is the time of what a rule does.
func when(days *int32, date *time.Time) string {
	if date != nil {
		return "from " + date.UTC().Format(time.DateOnly) + " on"
	}
	return fmt.Sprintf("%d days after they are made", aws.ToInt32(days))
}

// reaches reports whether a rule is for some object whose key may begin with one of the prefixes. No object of a store has a tag; any
// may have the size.
func (s *store) reaches(r types.LifecycleRule, prefixes []string) bool {
	of, tagged, _ := filterOf(r)
	for _, p := range prefixes {
		if p = s.prefix + p; !tagged && (strings.HasPrefix(p, of) || strings.HasPrefix(of, p)) {
			return true
		}
	}
	return false
}

// filterOf is which objects a rule is for: those whose names begin with prefix, or of these only some by their tags or their sizes.
func filterOf(r types.LifecycleRule) (prefix string, tagged, sized bool) {
	f := r.Filter
	if f == nil {
		//lint:ignore SA1019 older rules have it
		return aws.ToString(r.Prefix), false, false
	}
	if a := f.And; a != nil {
		return aws.ToString(a.Prefix), len(a.Tags) > 0, a.ObjectSizeGreaterThan != nil || a.ObjectSizeLessThan != nil
	}
	return aws.ToString(f.Prefix), f.Tag != nil, f.ObjectSizeGreaterThan != nil || f.ObjectSizeLessThan != nil
}
