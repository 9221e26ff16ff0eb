package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/s3/s3test"
)

const day = 24 * time.Hour

// keeps makes a server's bucket one that keeps versions, and compares what it then says with that before.
func keeps(t *testing.T, endpoint string) bucket.Bucket {
	t.Helper()
	s3test.MakeBucket(t, endpoint, "kept")
	b := open(t, endpoint, "kept/at")
	if k := bucket.KeptBy(t.Context(), b); k != (bucket.Kept{}) {
		t.Errorf("before: %+v", k)
	}
	if _, err := s3test.API(endpoint).PutBucketVersioning(t.Context(), &awss3.PutBucketVersioningInput{Bucket: aws.String("kept"),
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}}); err != nil {
		t.Fatal(err)
	}
	if k := bucket.KeptBy(t.Context(), b); !k.Versions || k.Locks || k.Expires != 0 {
		t.Errorf("with versions: %+v", k)
	}
	return b
}

// TestKept: a bucket says what it keeps of deleted objects, on gofakes3 and by each answer of a server.
func TestKept(t *testing.T) {
	s3test.Credentials(t)
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	defer server.Close()
	keeps(t, server.URL)

	const enabled, suspended = `<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>`, `<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>`
	lock := func(retention string) string {
		return "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>COMPLIANCE</Mode>" + retention + "</DefaultRetention></Rule></ObjectLockConfiguration>"
	}
	rule := func(filter, status, more string) string {
		return "<Rule>" + filter + "<Status>" + status + "</Status><NoncurrentVersionExpiration>" + more + "</NoncurrentVersionExpiration></Rule>"
	}
	rules := func(all ...string) string {
		return "<LifecycleConfiguration>" + strings.Join(all, "") + "</LifecycleConfiguration>"
	}
	of := func(prefix string) string { return "<Filter><Prefix>" + prefix + "</Prefix></Filter>" }
	const week = "<NoncurrentDays>7</NoncurrentDays>"
	for name, c := range map[string]struct {
		versioning, lock, lifecycle string // XML, or the code of an error
		want                        bucket.Kept
	}{
		"off":                  {"<VersioningConfiguration/>", "AccessDenied", "AccessDenied", bucket.Kept{}},
		"denied":               {"AccessDenied", "", "", bucket.Kept{Unknown: "whether it keeps versions (s3:GetBucketVersioning: AccessDenied)"}},
		"without a rule":       {enabled, "ObjectLockConfigurationNotFoundError", "NoSuchLifecycleConfiguration", bucket.Kept{Versions: true}},
		"suspended":            {suspended, "ObjectLockConfigurationNotFoundError", "NoSuchLifecycleConfiguration", bucket.Kept{Versions: true}},
		"locked for days":      {enabled, lock("<Days>3</Days>"), "NoSuchLifecycleConfiguration", bucket.Kept{Versions: true, Locks: true, Default: "COMPLIANCE, 3 days from when they are made"}},
		"locked for years":     {enabled, lock("<Years>1</Years>"), rules(rule(of(""), "Enabled", week)), bucket.Kept{Versions: true, Locks: true, Default: "COMPLIANCE, 1 years from when they are made", Expires: 7 * day}},
		"locked by somebody":   {enabled, "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>", "NoSuchLifecycleConfiguration", bucket.Kept{Versions: true, Locks: true}},
		"expire":               {enabled, "ObjectLockConfigurationNotFoundError", rules(rule(of("p"), "Enabled", week)), bucket.Kept{Versions: true, Expires: 7 * day}},
		"by an old rule":       {enabled, "ObjectLockConfigurationNotFoundError", rules(rule("<Prefix>p/</Prefix>", "Enabled", week)), bucket.Kept{Versions: true, Expires: 7 * day}},
		"elsewhere":            {enabled, "ObjectLockConfigurationNotFoundError", rules(rule(of("q/"), "Enabled", week), rule(of("p/e"), "Enabled", week)), bucket.Kept{Versions: true}},
		"disabled":             {enabled, "ObjectLockConfigurationNotFoundError", rules(rule(of(""), "Disabled", week)), bucket.Kept{Versions: true}},
		"but the newest stay":  {enabled, "ObjectLockConfigurationNotFoundError", rules(rule(of(""), "Enabled", week+"<NewerNoncurrentVersions>2</NewerNoncurrentVersions>")), bucket.Kept{Versions: true}},
		"of those with a tag":  {enabled, "ObjectLockConfigurationNotFoundError", rules(rule("<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>", "Enabled", week)), bucket.Kept{Versions: true}},
		"the rest is not said": {enabled, "AccessDenied", "NotImplemented", bucket.Kept{Versions: true, Unknown: "whether they are locked (s3:GetBucketObjectLockConfiguration: AccessDenied), nor whether they expire (s3:GetLifecycleConfiguration: NotImplemented)"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := answers(t, func(w http.ResponseWriter, r *http.Request) {
				for param, text := range map[string]string{"versioning": c.versioning, "object-lock": c.lock, "lifecycle": c.lifecycle} {
					switch {
					case !r.URL.Query().Has(param):
					case strings.HasPrefix(text, "<"):
						fmt.Fprint(w, text)
					default:
						says(w, http.StatusForbidden, text)
					}
				}
			})
			if got := bucket.KeptBy(t.Context(), b); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
