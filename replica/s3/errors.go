package s3

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/stele-go/stele/replica/bucket"
)

// advice says what to do about errors that stay, by S3's code. A server of another make may have
// codes of its own: then the status decides.
var advice = map[string]string{
	"AccessDenied":                   "these credentials may not do that: allow s3:GetObject, s3:PutObject, s3:DeleteObject and s3:ListBucket",
	"AllAccessDisabled":              "all access to the bucket is disabled; ask who runs it",
	"AccountProblem":                 "the account has a problem; ask who runs it",
	"NotSignedUp":                    "the account is not signed up for S3",
	"InvalidAccessKeyId":             "there is no such access key; give valid credentials",
	"SignatureDoesNotMatch":          "the secret key is wrong; give valid credentials",
	"ExpiredToken":                   "the credentials have expired; renew them",
	"InvalidToken":                   "the session token is wrong; give valid credentials",
	"RequestTimeTooSkewed":           "the clock of this machine is wrong; set it, by NTP for example",
	"RequestExpired":                 "the clock of this machine is wrong; set it, by NTP for example",
	"NoSuchBucket":                   "there is no such bucket; make it, or name another one",
	"InvalidBucketName":              "that is no name of a bucket; name another one",
	"PermanentRedirect":              wrongRegion,
	"AuthorizationHeaderMalformed":   wrongRegion,
	"IllegalLocationConstraintError": wrongRegion,
	"EntityTooLarge":                 "the object is too large for this server",
	"KeyTooLongError":                "the key is too long for this server; choose a shorter prefix",
	"QuotaExceeded":                  "the bucket or the account is full; make room, or raise its quota",
	"InsufficientStorage":            "the server is full; make room",
	"NotImplemented":                 "the server cannot do that; use another one, or a newer version",
	"MethodNotAllowed":               "the server does not allow that; check the endpoint",
	"InvalidObjectState":             "the object is in an archive; the log must not be archived",
	"KMS.DisabledException":          "the key of the bucket's encryption is disabled; enable it",
	"KMS.NotFoundException":          "the key of the bucket's encryption is gone",
}

const wrongRegion = "the region is wrong"

// adviceOf is advice by status.
var adviceOf = map[int]string{
	http.StatusMovedPermanently:    wrongRegion,
	http.StatusUnauthorized:        "give valid credentials",
	http.StatusForbidden:           "these credentials may not do that, or are wrong",
	http.StatusMethodNotAllowed:    advice["MethodNotAllowed"],
	http.StatusNotImplemented:      advice["NotImplemented"],
	http.StatusInsufficientStorage: advice["InsufficientStorage"],
}

// status is that of the answer with which a call failed; 0 if there was none.
func status(err error) int {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

// failed turns an error of the SDK into one of package bucket, if the outcome is known; nil into nil.
func (s *store) failed(op, key string, cond bucket.Condition, err error) error {
	if err == nil {
		return nil
	}
	code, http4 := "", status(err)
	var api smithy.APIError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	kind, what := error(nil), ""
	switch {
	case http4 == http.StatusNotModified:
		kind = bucket.ErrNotModified
	case http4 == http.StatusPreconditionFailed:
		kind = bucket.ErrCondition
	case code == "NoSuchKey" || code == "NotFound" || http4 == http.StatusNotFound && code != "NoSuchBucket":
		if kind = bucket.ErrNotFound; cond.IfMatch != "" {
			kind = bucket.ErrCondition
		} else if op == "put" || op == "list" {
			kind, what = bucket.ErrRefused, "the server knows nothing there; check bucket and endpoint"
		}
	case advice[code] != "":
		kind, what = bucket.ErrRefused, advice[code]
	case code == "RequestTimeout" || code == "IncompleteBody" || http4 == http.StatusConflict:
	case adviceOf[http4] != "":
		kind, what = bucket.ErrRefused, adviceOf[http4]
	case errors.As(err, new(*credentialsError)) && !temporary(err):
		kind, what = bucket.ErrRefused, "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role"
	}
	if what == wrongRegion {
		what += ": give region=" + regionOf(err)
	}
	if what != "" {
		what += ": "
	}
	if kind == nil {
		return fmt.Errorf("%s: %s %s: %w", s.where, op, key, err)
	}
	return fmt.Errorf("%w: %s: %s %s: %s%w", kind, s.where, op, key, what, err)
}

// temporary reports whether an error is one of the network.
func temporary(err error) bool {
	var n net.Error
	return errors.As(err, &n) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// regionOf is the region that an answer names.
func regionOf(err error) string {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) && answer.Response != nil {
		if region := answer.Response.Header.Get("X-Amz-Bucket-Region"); region != "" {
			return region
		}
	}
	return "REGION, that of the bucket"
}

// credentials bounds the time of a provider, and marks its errors.
type credentials struct {
	aws.CredentialsProvider
	within time.Duration
}

// Retrieve implements aws.CredentialsProvider.
func (c credentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	found, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil {
		return found, &credentialsError{err}
	}
	return found, nil
}

// credentialsError is why there are no credentials.
type credentialsError struct{ error }

// Unwrap returns what the provider of the credentials said.
func (e *credentialsError) Unwrap() error { return e.error }
