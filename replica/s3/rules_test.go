package s3_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/s3/s3test"
)

// checkRules asks for the rules that reach head, or what is below file/.
func checkRules(ctx context.Context, b bucket.Bucket) error {
	return b.(bucket.Ruler).CheckRules(ctx, "head", "file/")
}

// TestRules: of each rule of a lifecycle, whether it takes objects of the store away, and what is said of it.
func TestRules(t *testing.T) {
	const on, off = "<Status>Enabled</Status>", "<Status>Disabled</Status>"
	const month = "<Expiration><Days>30</Days></Expiration>"
	const expires, unreadable = "deletes objects of the store 30 days after they are made", ", where they cannot be read at once, "
	filter := func(what string) string { return "<Filter>" + what + "</Filter>" }
	and := func(what string) string { return filter("<And>" + what + "</And>") }
	of := func(prefix string) string { return "<Prefix>" + prefix + "</Prefix>" }
	moves := func(class, when string) string {
		return "<Transition>" + when + "<StorageClass>" + class + "</StorageClass></Transition>"
	}
	const tag, other = "<Tag><Key>a</Key><Value>b</Value></Tag>", "<Tag><Key>c</Key><Value>d</Value></Tag>"
	const large, small = "<ObjectSizeGreaterThan>9</ObjectSizeGreaterThan>", "<ObjectSizeLessThan>900000</ObjectSizeLessThan>"
	const days, date = "<Days>0</Days>", "<Date>2031-05-06T00:00:00Z</Date>"
	for name, c := range map[string]struct{ rule, want string }{
		"all":                       {filter("") + on + month, expires},
		"all, by an old rule":       {of("") + on + month, expires},
		"disabled":                  {filter("") + off + month, ""},
		"the prefix":                {filter(of("p/")) + on + month, expires},
		"the prefix, by an old one": {of("p/") + on + month, expires},
		"a part of the prefix":      {filter(of("p")) + on + month, expires},
		"one object":                {filter(of("p/head")) + on + month, expires},
		"some files":                {filter(of("p/file/0000000001/x")) + on + month, expires},
		"another prefix":            {filter(of("q/")) + on + month, ""},
		"another, by an old rule":   {of("q/") + on + month, ""},
		"a neighbour":               {filter(of("p/probe/")) + on + month, ""},
		"a name that is longer":     {filter(of("pp/")) + on + month, ""},
		"a tag":                     {filter(tag) + on + month, ""},
		"a tag and a prefix":        {and(of("p/")+tag) + on + month, ""},
		"two tags":                  {and(tag+other) + on + month, ""},
		"large ones":                {filter(large) + on + month, expires},
		"small ones":                {filter(small) + on + month, expires},
		"sizes of a prefix":         {and(of("p/")+large+small) + on + month, expires},
		"sizes of another prefix":   {and(of("q/")+large+small) + on + month, ""},
		"sizes and a tag":           {and(large+tag) + on + month, ""},
		"from a day on":             {filter("") + on + "<Expiration>" + date + "</Expiration>", "deletes objects of the store from 2031-05-06 on"},
		"marks":                     {filter("") + on + "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>", ""},
		"versions": {filter("") + on + "<NoncurrentVersionExpiration><NoncurrentDays>7</NoncurrentDays></NoncurrentVersionExpiration>" +
			"<NoncurrentVersionTransition><NoncurrentDays>7</NoncurrentDays><StorageClass>GLACIER</StorageClass></NoncurrentVersionTransition>", ""},
		"uploads": {filter("") + on +
			"<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>", ""},
		"readable": {filter("") + on + moves("STANDARD_IA", days) + moves("ONEZONE_IA", days) +
			moves("INTELLIGENT_TIERING", days) + moves("GLACIER_IR", days), ""},
		"an archive": {filter("") + on + moves("STANDARD_IA", days) + moves("GLACIER", days),
			"moves objects of the store to GLACIER" + unreadable + "0 days after they are made"},
		"a deep one":  {filter("") + on + moves("DEEP_ARCHIVE", date), "moves objects of the store to DEEP_ARCHIVE" + unreadable + "from 2031-05-06 on"},
		"tagged ones": {filter(tag) + on + moves("GLACIER", days), ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := answers(t, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, "<LifecycleConfiguration><Rule><ID>fine</ID>"+on+"<Filter/></Rule><Rule><ID>why</ID>"+c.rule+"</Rule></LifecycleConfiguration>")
			})
			err := checkRules(t.Context(), b)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			want := `rule "why" ` + c.want + ": limit the rule to another prefix, or remove it"
			if !errors.Is(err, bucket.ErrUnfit) || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

// TestRulesUntold: a bucket without rules is fit, one that does not tell says so, and one that gives no answer is asked again.
func TestRulesUntold(t *testing.T) {
	for code, c := range map[string]struct {
		status        int
		fails, untold bool
	}{
		"NoSuchLifecycleConfiguration": {http.StatusNotFound, false, false},
		"NotImplemented":               {http.StatusNotImplemented, true, true},
		"MethodNotAllowed":             {http.StatusMethodNotAllowed, true, true},
		"AccessDenied":                 {http.StatusForbidden, true, true},
		"InternalError":                {http.StatusInternalServerError, true, false},
	} {
		b := answers(t, func(w http.ResponseWriter, r *http.Request) { says(w, c.status, code) })
		err := checkRules(t.Context(), b)
		if (err != nil) != c.fails || errors.Is(err, bucket.ErrRefused) != c.untold || errors.Is(err, bucket.ErrUnfit) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// deletesAll gives a server's bucket a rule, and looks whether the store is told.
func deletesAll(t *testing.T, endpoint string) {
	t.Helper()
	s3test.MakeBucket(t, endpoint, "ruled")
	b := open(t, endpoint, "ruled/at")
	if err := checkRules(t.Context(), b); err != nil {
		t.Errorf("without a rule: %v", err)
	}
	for prefix, reaches := range map[string]bool{"at/": true, "other/": false} {
		if _, err := s3test.API(endpoint).PutBucketLifecycleConfiguration(t.Context(), &awss3.PutBucketLifecycleConfigurationInput{Bucket: aws.String("ruled"),
			LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: []types.LifecycleRule{{ID: aws.String("clean up"),
				Status: types.ExpirationStatusEnabled, Filter: &types.LifecycleRuleFilter{Prefix: &prefix},
				Expiration: &types.LifecycleExpiration{Days: aws.Int32(30)}}}}}); err != nil {
			t.Fatal(err)
		}
		err := checkRules(t.Context(), b)
		if errors.Is(err, bucket.ErrUnfit) != reaches || !reaches && err != nil || reaches && !strings.Contains(err.Error(), `"clean up" deletes`) {
			t.Errorf("with a rule for %s: %v", prefix, err)
		}
	}
}
