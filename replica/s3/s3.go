// Package s3 opens a bucket of S3, or of another server that speaks its protocol, for the log of a store.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/stele-go/stele/base/silence"
	"github.com/stele-go/stele/replica/bucket"
)

const (
	// silenceAfter is how long a server may say nothing until a call is given up.
	silenceAfter = 30 * time.Second
	// attempts is how often a call is sent that may be sent again.
	attempts = 3
	// deletions is how many objects are deleted at a time.
	deletions = 16
	// mostPrefix leaves room for the longest key: S3 has 1,024 bytes.
	mostPrefix = 500
)

// store is a bucket, or what lies behind a prefix in it.
type store struct {
	api    *s3.Client
	bucket string
	prefix string // empty, or ends with a slash
	where  string // for errors: the bucket, and the server if it was named
}

// Open makes a bucket of an address:
//
//	s3://BUCKET/PREFIX?region=REGION&endpoint=URL&path_style=BOOL
//
// Everything behind BUCKET may be left out. region is that of the SDK's configuration, or us-east-1 with an
// endpoint. endpoint is that of a server other than Amazon's; path_style, whether the bucket stands
// in the path of its URLs and not in the name of the host, is true with an endpoint. Credentials
// are those that Amazon's SDK finds: in the environment, in its files, by web identity, of the
// container or the machine.
//
// Open talks to no bucket: what it opens may be away. Every call ends when the server says nothing for 30 s.
// Reads, deletions and puts without a condition are tried three times; a put with a condition is
// sent once. An object has at most 5 GiB.
func Open(ctx context.Context, address string) (bucket.Bucket, error) {
	return open(ctx, address, silenceAfter)
}

func open(ctx context.Context, address string, silent time.Duration) (bucket.Bucket, error) {
	a, err := parse(address)
	if err != nil {
		return nil, err
	}
	load := []func(*config.LoadOptions) error{config.WithRetryer(func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = attempts, 2*time.Second })
	})}
	if a.region != "" {
		load = append(load, config.WithRegion(a.region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("%w: the configuration of Amazon's SDK: %w", bucket.ErrRefused, err)
	}
	if cfg.Region == "" && a.endpoint != "" {
		cfg.Region = "us-east-1" // what servers take that have none
	}
	if cfg.Region == "" {
		return nil, fmt.Errorf("%w: %s names no region, and neither do AWS_REGION nor the SDK's configuration: add ?region=REGION", bucket.ErrRefused, address)
	}
	client := awshttp.NewBuildableClient()
	if cfg.HTTPClient != nil { // the one with the certificates of the configuration, if that has any
		var ok bool
		if client, ok = cfg.HTTPClient.(*awshttp.BuildableClient); !ok {
			return nil, fmt.Errorf("the SDK's client is a %T", cfg.HTTPClient)
		}
	}
	transport := client.GetTransport()
	transport.MaxIdleConnsPerHost = 64
	cfg.HTTPClient = &http.Client{
		Transport:     silence.Transport(transport, silent),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a signature is for one host
	}
	cfg.Credentials = credentials{cfg.Credentials, silent}
	api := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = a.pathStyle
		if a.endpoint != "" {
			o.BaseEndpoint = aws.String(a.endpoint)
		}
		// The signature covers the SHA-256 of the body. Other checksums are unknown to many servers.
		o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	where := "bucket " + a.bucket
	if a.endpoint != "" {
		where += " at " + a.endpoint
	}
	return &store{api: api, bucket: a.bucket, prefix: a.prefix, where: where}, nil
}

// address is what an address says.
type address struct {
	bucket, prefix, region, endpoint string
	pathStyle                        bool
}

// parse reads an address. What it does not know is an error.
func parse(text string) (a address, err error) {
	wrong := func(format string, args ...any) (address, error) {
		return address{}, fmt.Errorf("%w: %q: "+format, append([]any{bucket.ErrRefused, text}, args...)...)
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" || u.Port() != "" {
		return wrong("an address is s3://BUCKET/PREFIX?region=REGION&endpoint=URL&path_style=BOOL")
	}
	a.bucket = u.Host
	if a.prefix = strings.Trim(u.Path, "/"); a.prefix != "" {
		a.prefix += "/"
	}
	if len(a.prefix) > mostPrefix || strings.Contains(a.prefix, "//") {
		return wrong("a prefix has at most %d bytes, and no empty part", mostPrefix)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return wrong("what follows the question mark is no query")
	}
	a.endpoint = query.Get("endpoint")
	a.pathStyle = a.endpoint != ""
	for name, values := range query {
		switch {
		case len(values) > 1:
			return wrong("%s is there twice", name)
		case name == "region":
			a.region = values[0]
		case name == "endpoint":
			if e, err := url.Parse(a.endpoint); err != nil || e.Scheme != "http" && e.Scheme != "https" || e.Host == "" {
				return wrong("endpoint is no URL, as https://host:port")
			}
		case name == "path_style":
			if a.pathStyle, err = strconv.ParseBool(values[0]); err != nil {
				return wrong("path_style is true or false")
			}
		default:
			return wrong("no parameter %s; there are region, endpoint and path_style", name)
		}
	}
	return a, nil
}

// Put implements bucket.Bucket.
func (s *store) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	if err := bucket.CheckPut(key, cond); err != nil {
		return "", err
	}
	in := &s3.PutObjectInput{Bucket: &s.bucket, Key: aws.String(s.prefix + key),
		Body: io.NewSectionReader(body, 0, body.Size()), ContentLength: aws.Int64(body.Size())}
	var opts []func(*s3.Options)
	if cond != (bucket.Condition{}) {
		if cond.IfAbsent {
			in.IfNoneMatch = aws.String("*")
		} else {
			in.IfMatch = aws.String(string(cond.IfMatch))
		}
		// A second one would be refused because of the first.
		opts = append(opts, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	}
	out, err := s.api.PutObject(ctx, in, opts...)
	if err != nil {
		return "", s.failed("put", key, cond, err)
	}
	return bucket.ETag(aws.ToString(out.ETag)), nil
}

// Get implements bucket.Bucket.
func (s *store) Get(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	if err := bucket.CheckGet(key, o); err != nil {
		return nil, err
	}
	in := &s3.GetObjectInput{Bucket: &s.bucket, Key: aws.String(s.prefix + key)}
	if o.IfNoneMatch != "" {
		in.IfNoneMatch = aws.String(string(o.IfNoneMatch))
	}
	part := o.Offset > 0 || o.Length > 0
	if part {
		in.Range = aws.String(rangeOf(o))
	}
	out, err := s.api.GetObject(ctx, in)
	if status(err) == http.StatusRequestedRangeNotSatisfiable {
		return s.behind(ctx, key, in)
	}
	if err != nil {
		return nil, s.failed("get", key, bucket.Condition{}, err)
	}
	size := aws.ToInt64(out.ContentLength)
	if part {
		if size, err = total(aws.ToString(out.ContentRange), o.Offset); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %s: get %s: the server does not know ranges: %w", bucket.ErrRefused, s.where, key, err), out.Body.Close())
		}
	}
	return &bucket.Object{Body: body{out.Body}, Size: size, ETag: bucket.ETag(aws.ToString(out.ETag))}, nil
}

// rangeOf is the header that asks for a part.
func rangeOf(o bucket.GetOptions) string {
	if o.Length == 0 {
		return fmt.Sprintf("bytes=%d-", o.Offset)
	}
	return fmt.Sprintf("bytes=%d-%d", o.Offset, o.Offset+o.Length-1)
}

// total is the size of the whole, from a header like "bytes 3-4/10" that begins at from.
func total(contentRange string, from int64) (int64, error) {
	begin, whole, ok := strings.Cut(strings.TrimPrefix(contentRange, "bytes "), "/")
	first, _, _ := strings.Cut(begin, "-")
	size, err := strconv.ParseInt(whole, 10, 64)
	if at, aerr := strconv.ParseInt(first, 10, 64); !ok || err != nil || aerr != nil || at != from || size <= from {
		return 0, fmt.Errorf("it answers with the range %q", contentRange)
	}
	return size, nil
}

// behind is what there is at or behind the end of an object: nothing.
func (s *store) behind(ctx context.Context, key string, in *s3.GetObjectInput) (*bucket.Object, error) {
	out, err := s.api.HeadObject(ctx, &s3.HeadObjectInput{Bucket: in.Bucket, Key: in.Key, IfNoneMatch: in.IfNoneMatch})
	if err != nil {
		return nil, s.failed("get", key, bucket.Condition{}, err)
	}
	return &bucket.Object{Body: http.NoBody, Size: aws.ToInt64(out.ContentLength), ETag: bucket.ETag(aws.ToString(out.ETag))}, nil
}

// body is the body of an object. Whatever cuts it is io.ErrUnexpectedEOF, as net/http makes it of an
// answer that is too short.
type body struct{ io.ReadCloser }

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	return n, err
}

// List implements bucket.Bucket. What others have put under names that are no keys is left out.
func (s *store) List(ctx context.Context, prefix, after string) (page []bucket.Entry, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &s.bucket, Prefix: aws.String(s.prefix + prefix)}
	if after != "" {
		in.StartAfter = aws.String(s.prefix + after)
	}
	for {
		out, err := s.api.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, s.failed("list", prefix, bucket.Condition{}, err)
		}
		for _, o := range out.Contents {
			key, ok := strings.CutPrefix(aws.ToString(o.Key), s.prefix)
			if ok && bucket.CheckKey(key) == nil {
				page = append(page, bucket.Entry{Key: key, Size: aws.ToInt64(o.Size), ETag: bucket.ETag(aws.ToString(o.ETag))})
			}
		}
		if len(page) > 0 || !aws.ToBool(out.IsTruncated) {
			return page, nil
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}

// Delete implements bucket.Bucket. It deletes one by one: many servers do not understand the
// checksum of S3's request for many.
func (s *store) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := bucket.CheckKey(key); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	next := make(chan string)
	for range min(deletions, len(keys)) {
		all.Go(func() {
			for key := range next {
				_, err := s.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: aws.String(s.prefix + key)})
				if err = s.failed("delete", key, bucket.Condition{}, err); err != nil && !errors.Is(err, bucket.ErrNotFound) {
					cancel(err) // the first one counts
				}
			}
		})
	}
	for _, key := range keys {
		if ctx.Err() == nil {
			next <- key
		}
	}
	close(next)
	all.Wait()
	return context.Cause(ctx)
}
