package s3

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/stele-go/stele/replica/bucket"
)

const day = 24 * time.Hour

// Kept implements bucket.Keeper, by the bucket's versioning, lock and lifecycle. Each is a right of its own, which credentials for
// the log need not have.
func (s *store) Kept(ctx context.Context) bucket.Kept {
	v, err := s.api.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &s.bucket})
	if err != nil {
		return bucket.Kept{Unknown: "whether it keeps versions (s3:GetBucketVersioning: " + codeOf(err) + ")"}
	}
	if v.Status == "" {
		return bucket.Kept{}
	}
	// Where versioning is suspended, versions from before are there.
	k, unknown := bucket.Kept{Versions: true}, []string(nil)
	lock, err := s.api.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: &s.bucket})
	switch {
	case err == nil:
		k.Locks, k.Default = locks(lock.ObjectLockConfiguration)
	case codeOf(err) != "ObjectLockConfigurationNotFoundError":
		unknown = append(unknown, "whether they are locked (s3:GetBucketObjectLockConfiguration: "+codeOf(err)+")")
	}
	life, err := s.api.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &s.bucket})
	switch {
	case err == nil:
		k.Expires = s.expire(life.Rules)
	case codeOf(err) != "NoSuchLifecycleConfiguration":
		unknown = append(unknown, "whether they expire (s3:GetLifecycleConfiguration: "+codeOf(err)+")")
	}
	k.Unknown = strings.Join(unknown, ", nor ")
	return k
}

// codeOf is S3's code of an error.
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return "no answer"
}

// locks says whether versions may be locked, and with which lock new ones begin, in words; "" if they begin without.
func locks(c *types.ObjectLockConfiguration) (may bool, first string) {
	if c == nil || c.ObjectLockEnabled != types.ObjectLockEnabledEnabled {
		return false, ""
	}
	if c.Rule == nil || c.Rule.DefaultRetention == nil {
		return true, ""
	}
	r := c.Rule.DefaultRetention
	if n := aws.ToInt32(r.Years); n > 0 {
		return true, fmt.Sprintf("%s, %d years from when they are made", r.Mode, n)
	}
	return true, fmt.Sprintf("%s, %d days from when they are made", r.Mode, aws.ToInt32(r.Days))
}

// expire is after how long the rules remove a version of every object of the log; 0 if they do not.
func (s *store) expire(rules []types.LifecycleRule) (after time.Duration) {
	for _, r := range rules {
		e := r.NoncurrentVersionExpiration
		prefix, tagged, sized := filterOf(r)
		if r.Status != types.ExpirationStatusEnabled || e == nil || aws.ToInt32(e.NoncurrentDays) == 0 || aws.ToInt32(e.NewerNoncurrentVersions) > 0 ||
			tagged || sized {
			continue
		}
		if d := time.Duration(aws.ToInt32(e.NoncurrentDays)) * day; strings.HasPrefix(s.prefix, prefix) && (after == 0 || d < after) {
			after = d
		}
	}
	return after
}
