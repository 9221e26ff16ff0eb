package s3_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/replica/s3"
	"github.com/stele-go/stele/replica/s3/s3test"
)

// open opens a bucket of a server.
func open(t *testing.T, endpoint, path string) bucket.Bucket {
	t.Helper()
	b, err := s3.Open(t.Context(), "s3://"+path+"?endpoint="+url.QueryEscape(endpoint))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// conforms runs the tests of a bucket on a server, each behind a prefix of its own.
func conforms(t *testing.T, endpoint string) {
	s3test.MakeBucket(t, endpoint, "stele")
	n := 0
	buckettest.Test(t, func(t *testing.T) bucket.Bucket {
		n++
		return open(t, endpoint, fmt.Sprintf("stele/at/%d", n))
	})
}

func TestGofakes3(t *testing.T) {
	s3test.Credentials(t)
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	defer server.Close()
	conforms(t, server.URL)
}

// TestCertificates: a server is trusted by the certificates of AWS_CA_BUNDLE, which most machines do not set.
func TestCertificates(t *testing.T) {
	s3test.Credentials(t)
	server := httptest.NewTLSServer(gofakes3.New(s3mem.New()).Server())
	defer server.Close()
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, known := range []bool{false, true} {
		if known {
			t.Setenv("AWS_CA_BUNDLE", bundle)
		}
		_, err := open(t, server.URL, "stele").Get(t.Context(), "k", bucket.GetOptions{})
		var unknown *tls.CertificateVerificationError
		if errors.As(err, &unknown) == known {
			t.Errorf("with the certificates %t: %v", known, err)
		}
	}
}

// answers is a server that answers every request with f.
func answers(t *testing.T, f http.HandlerFunc) bucket.Bucket {
	t.Helper()
	s3test.Credentials(t)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return open(t, server.URL, "stele/p")
}

// says answers with an error as S3 does.
func says(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if code != "" {
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>said the server</Message></Error>", code)
	}
}

func putOf(b bucket.Bucket, cond bucket.Condition) error {
	_, err := b.Put(context.Background(), "k", bucket.NewBody([]byte("text")), cond)
	return err
}

var (
	always = bucket.Condition{}
	absent = bucket.Condition{IfAbsent: true}
	match  = bucket.Condition{IfMatch: `"x"`}
	known  = []error{bucket.ErrRefused, bucket.ErrCondition, bucket.ErrNotFound, bucket.ErrNotModified}
)

// is reports an error that is another than want, of those that are known; nil is none of them.
func is(t *testing.T, what string, err, want error) {
	t.Helper()
	for _, k := range known {
		if errors.Is(err, k) != (k == want) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
	if err == nil {
		t.Errorf("%s: no error", what)
	}
}

// TestErrors: each answer of a server is the error that package bucket has for it, with advice where
// somebody has to do something.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status   int
		code     string
		cond     bucket.Condition
		put, get error
		says     string
	}{
		{412, "PreconditionFailed", absent, bucket.ErrCondition, bucket.ErrCondition, ""},
		{412, "", match, bucket.ErrCondition, bucket.ErrCondition, ""},
		{404, "NoSuchKey", match, bucket.ErrCondition, bucket.ErrNotFound, ""},
		{404, "NoSuchBucket", match, bucket.ErrRefused, bucket.ErrRefused, "there is no such bucket"},
		{404, "", always, bucket.ErrRefused, bucket.ErrNotFound, ""},
		{409, "ConditionalRequestConflict", absent, nil, nil, ""},
		{409, "OperationAborted", always, nil, nil, ""},
		{403, "AccessDenied", always, bucket.ErrRefused, bucket.ErrRefused, "s3:PutObject"},
		{403, "InvalidAccessKeyId", always, bucket.ErrRefused, bucket.ErrRefused, "valid credentials"},
		{403, "SignatureDoesNotMatch", always, bucket.ErrRefused, bucket.ErrRefused, "valid credentials"},
		{403, "RequestTimeTooSkewed", always, bucket.ErrRefused, bucket.ErrRefused, "clock"},
		{403, "SomethingElse", always, bucket.ErrRefused, bucket.ErrRefused, "credentials"},
		{403, "", always, bucket.ErrRefused, bucket.ErrRefused, "credentials"},
		{400, "ExpiredToken", always, bucket.ErrRefused, bucket.ErrRefused, "renew"},
		{301, "PermanentRedirect", always, bucket.ErrRefused, bucket.ErrRefused, "region=eu-test-7"},
		{400, "AuthorizationHeaderMalformed", always, bucket.ErrRefused, bucket.ErrRefused, "region=eu-test-7"},
		{507, "XMinioStorageFull", always, bucket.ErrRefused, bucket.ErrRefused, "make room"},
		{403, "QuotaExceeded", always, bucket.ErrRefused, bucket.ErrRefused, "quota"},
		{501, "NotImplemented", absent, bucket.ErrRefused, bucket.ErrRefused, "another one"},
		{400, "RequestTimeout", always, nil, nil, ""},
		{400, "IncompleteBody", always, nil, nil, ""},
		{500, "InternalError", absent, nil, nil, ""},
		{503, "SlowDown", absent, nil, nil, ""},
		{502, "", absent, nil, nil, ""},
	} {
		t.Run(fmt.Sprint(c.status, c.code, c.cond), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Amz-Bucket-Region", "eu-test-7")
				says(w, c.status, c.code)
			}))
			defer server.Close()
			b := open(t, server.URL, "stele")
			err := putOf(b, c.cond)
			is(t, "put", err, c.put)
			_, gerr := b.Get(t.Context(), "k", bucket.GetOptions{})
			is(t, "get", gerr, c.get)
			for _, err := range []error{err, gerr} {
				if !strings.Contains(fmt.Sprint(err), c.says) || !strings.Contains(fmt.Sprint(err), "stele at "+server.URL) {
					t.Errorf("it says %v, want %q", err, c.says)
				}
			}
		})
	}
}

func TestMain(m *testing.M) {
	// For tests that run in parallel and cannot set them.
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "steletest", "AWS_SECRET_ACCESS_KEY": "stelesecret", "AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestSentOnce: a put with a condition is sent once, whatever becomes of it; others, and reads, three times.
func TestSentOnce(t *testing.T) {
	for name, fail := range map[string]http.HandlerFunc{
		"500":                func(w http.ResponseWriter, r *http.Request) { says(w, 500, "InternalError") },
		"503":                func(w http.ResponseWriter, r *http.Request) { says(w, 503, "SlowDown") },
		"connection is shut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			b := answers(t, func(w http.ResponseWriter, r *http.Request) {
				n.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				fail(w, r)
			})
			for _, c := range []struct {
				what string
				call func() error
				want int32
			}{
				{"create", func() error { return putOf(b, absent) }, 1},
				{"overwrite", func() error { return putOf(b, match) }, 1},
				{"put", func() error { return putOf(b, always) }, 3},
				{"get", func() error { _, err := b.Get(t.Context(), "k", bucket.GetOptions{}); return err }, 3},
				{"list", func() error { _, err := b.List(t.Context(), "", ""); return err }, 3},
				{"delete", func() error { return b.Delete(t.Context(), "k") }, 3},
			} {
				n.Store(0)
				is(t, c.what, c.call(), nil)
				if got := n.Load(); got != c.want {
					t.Errorf("%s: sent %d times, want %d", c.what, got, c.want)
				}
			}
		})
	}
}

// TestLateTwin: a second copy of a create, which a proxy sends, is refused because of the first, and what
// lies there is the caller's.
func TestLateTwin(t *testing.T) {
	s3test.Credentials(t)
	fake := gofakes3.New(s3mem.New()).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == "*" {
			text, _ := io.ReadAll(r.Body)
			first := r.Clone(r.Context())
			first.Body, r.Body = io.NopCloser(strings.NewReader(string(text))), io.NopCloser(strings.NewReader(string(text)))
			fake.ServeHTTP(httptest.NewRecorder(), first)
		}
		fake.ServeHTTP(w, r)
	}))
	defer server.Close()
	s3test.MakeBucket(t, server.URL, "stele")
	b := open(t, server.URL, "stele")
	is(t, "create", putOf(b, absent), bucket.ErrCondition)
	if text, err := textOf(b); text != "text" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
}

func textOf(b bucket.Bucket) (string, error) {
	o, err := b.Get(context.Background(), "k", bucket.GetOptions{})
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(o.Body)
	return string(text), errors.Join(err, o.Body.Close())
}

// TestCutBody: a body that ends early is io.ErrUnexpectedEOF, however the connection ends.
func TestCutBody(t *testing.T) {
	for name, end := range map[string]func(){"shut": func() { panic(http.ErrAbortHandler) }, "ended": func() {}} {
		t.Run(name, func(t *testing.T) {
			b := answers(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "100")
				w.Header().Set("ETag", `"x"`)
				_, _ = io.WriteString(w, "half")
				w.(http.Flusher).Flush()
				end()
			})
			if text, err := textOf(b); text != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
}

// TestNoRanges: a server that answers with another part than was asked for is refused.
func TestNoRanges(t *testing.T) {
	for _, header := range []string{"", "bytes 0-3/4", "bytes 1-3/*", "bytes 1-3/1", "x"} {
		b := answers(t, func(w http.ResponseWriter, r *http.Request) {
			if header != "" {
				w.Header().Set("Content-Range", header)
			}
			_, _ = io.WriteString(w, "text")
		})
		_, err := b.Get(t.Context(), "k", bucket.GetOptions{Offset: 1, Length: 3})
		is(t, header, err, bucket.ErrRefused)
	}
}

// TestSilence: a server that says nothing ends no call for ever, before or within its answer.
func TestSilence(t *testing.T) {
	s3test.Credentials(t)
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
		}
		<-over
	}))
	defer server.Close()
	defer close(over)
	b, err := s3.OpenSilent(t.Context(), "s3://stele?endpoint="+server.URL, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	is(t, "create", putOf(b, absent), nil)
	if text, err := textOf(b); text != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestNoCredentials: who has none is told how to give some.
func TestNoCredentials(t *testing.T) {
	s3test.Credentials(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	server := httptest.NewServer(nil)
	defer server.Close()
	err := putOf(open(t, server.URL, "stele"), absent)
	is(t, "put", err, bucket.ErrRefused)
	if !strings.Contains(fmt.Sprint(err), "AWS_PROFILE") {
		t.Error(err)
	}
}

// TestAway: a server that is away is no reason to refuse: it may come back.
func TestAway(t *testing.T) {
	s3test.Credentials(t)
	server := httptest.NewServer(nil)
	server.Close()
	is(t, "put", putOf(open(t, server.URL, "stele"), absent), nil)
}

// TestProbeRefuses: a server that lets several racers win is refused.
func TestProbeRefuses(t *testing.T) {
	fake := gofakes3.New(s3mem.New()).Server()
	for name, lie := range map[string]func(r *http.Request){
		"create":    func(r *http.Request) { r.Header.Del("If-None-Match") },
		"overwrite": func(r *http.Request) { r.Header.Del("If-Match") },
	} {
		t.Run(name, func(t *testing.T) {
			s3test.Credentials(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					lie(r)
				}
				fake.ServeHTTP(w, r)
			}))
			defer server.Close()
			s3test.MakeBucket(t, server.URL, "stele-"+name)
			if err := bucket.Probe(t.Context(), open(t, server.URL, "stele-"+name)); !errors.Is(err, bucket.ErrUnfit) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestListLeavesStrangers: names of others are left out, and a page of them is not the end.
func TestListLeavesStrangers(t *testing.T) {
	s3test.Credentials(t)
	backend := s3mem.New()
	server := httptest.NewServer(gofakes3.New(backend).Server())
	defer server.Close()
	s3test.MakeBucket(t, server.URL, "stele")
	for i := range 1001 {
		if _, err := backend.PutObject("stele", fmt.Sprintf("p/A%04d", i), nil, strings.NewReader(""), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, server.URL, "stele/p")
	if err := putOf(b, absent); err != nil {
		t.Fatal(err)
	}
	if page, err := b.List(t.Context(), "", ""); err != nil || len(page) != 1 || page[0].Key != "k" {
		t.Errorf("listed %v, %v", page, err)
	}
}

// TestAddresses: what an address may say, and what is refused.
func TestAddresses(t *testing.T) {
	s3test.Credentials(t)
	for address, says := range map[string]string{
		"s3://b?region=eu-1":                               "",
		"s3://b/p/q/?region=eu-1":                          "",
		"s3://b?endpoint=http://127.0.0.1:1":               "",
		"s3://b?endpoint=http://127.0.0.1:1&path_style=no": "true or false",
		"s3://b?region=eu-1&path_style=true":               "",
		"s3://b":                                           "?region=",
		"s3://":                                            "s3://BUCKET",
		"b":                                                "s3://BUCKET",
		"http://b":                                         "s3://BUCKET",
		"s3://user:secret@b?region=eu-1":                   "s3://BUCKET",
		"s3://b:1?region=eu-1":                             "s3://BUCKET",
		"s3://b#x":                                         "s3://BUCKET",
		"s3://b?regoin=eu-1":                               "no parameter regoin",
		"s3://b?region=a&region=b":                         "twice",
		"s3://b?endpoint=127.0.0.1":                        "no URL",
		"s3://b?region=%zz":                                "no query",
		"s3://b/a//b?region=eu-1":                          "empty part",
		"s3://b/" + strings.Repeat("p", 501) + "?region=eu": "500 bytes",
	} {
		_, err := s3.Open(t.Context(), address)
		if says == "" && err != nil || says != "" && (!errors.Is(err, bucket.ErrRefused) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, want %q", address, err, says)
		}
	}
	// Without an endpoint the region is that of the configuration.
	t.Setenv("AWS_REGION", "eu-1")
	if _, err := s3.Open(t.Context(), "s3://b"); err != nil {
		t.Error(err)
	}
}

// FuzzAddress: an address is refused, or names a bucket.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"s3://b/p?region=r&endpoint=http://h:1&path_style=0", "s3://", "s3://%", "s3://b?endpoint"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		name, prefix, err := s3.Parse(address)
		if err == nil && (name == "" || prefix != "" && (prefix[0] == '/' || prefix[len(prefix)-1] != '/')) || err != nil && !errors.Is(err, bucket.ErrRefused) {
			t.Errorf("%q: %q, %q, %v", address, name, prefix, err)
		}
	})
}

// FuzzContentRange: a header of a part gives a size that has it, or an error.
func FuzzContentRange(f *testing.F) {
	f.Add("bytes 3-4/10", int64(3))
	f.Add("bytes */10", int64(0))
	f.Fuzz(func(t *testing.T, header string, from int64) {
		if size, err := s3.Total(header, from); err == nil && size <= from {
			t.Errorf("%q: %d", header, size)
		}
	})
}
