package s3_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/s3/s3test"
)

func TestVersitygw(t *testing.T) {
	conforms(t, s3test.Versitygw(t))
}

func TestMoto(t *testing.T) {
	endpoint := s3test.Moto(t)
	conforms(t, endpoint)
	deletesAll(t, endpoint)
	b := keeps(t, endpoint)
	if _, err := s3test.API(endpoint).PutBucketLifecycleConfiguration(t.Context(), &awss3.PutBucketLifecycleConfigurationInput{Bucket: aws.String("kept"),
		LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{{Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: aws.String("at/")},
			NoncurrentVersionExpiration: &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(7)}}}}}); err != nil {
		t.Fatal(err)
	}
	if got := bucket.KeptBy(t.Context(), b); got != (bucket.Kept{Versions: true, Expires: 7 * day}) {
		t.Errorf("with a rule: %+v", got)
	}
}

// TestS3Mock: S3Mock looks whether a condition holds, and puts then. The probe refuses it, as soon as two
// of its racers get in between.
func TestS3Mock(t *testing.T) {
	endpoint := s3test.S3Mock(t)
	s3test.MakeBucket(t, endpoint, "stele")
	b := open(t, endpoint, "stele")
	for i := range 50 { // a busy machine may run one racer after another
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err := bucket.Probe(ctx, b)
		if cancel(); errors.Is(err, bucket.ErrUnfit) {
			t.Logf("probe %d: %v", i, err)
			return
		}
	}
	t.Error("the probe never refuses it")
}
