// Package buckettest has what tests of object storage and of what stands on it need: [Test], the
// tests that every bucket.Bucket passes, and [Sim], a bucket in memory that fails as it is told.
//
// It is for this repository, and makes no promise to others.
package buckettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/replica/bucket"
)

// patience bounds every call.
const patience = 2 * time.Minute

// Test runs the tests that every Bucket passes. open returns an empty bucket, which may be one part
// of a larger one.
func Test(t *testing.T, open func(t *testing.T) bucket.Bucket) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, b bucket.Bucket)
	}{
		{"conditions", testConditions}, {"one creates", testOneCreates}, {"one overwrites", testOneOverwrites}, {"appends", testAppends},
		{"ranges", testRanges}, {"not modified", testNotModified}, {"sizes", testSizes}, {"overwritten often", testOverwrittenOften},
		{"keys", testKeys}, {"order", testOrder}, {"pages", testPages}, {"deleted", testDeleted}, {"ended contexts", testEndedContexts},
		{"probe", func(t *testing.T, b bucket.Bucket) { check(t, bucket.Probe(deadline(t), b)) }},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%s: got %v, want %v", what, err, want)
	}
}

// put stores a text.
func put(ctx context.Context, b bucket.Bucket, key, text string, cond bucket.Condition) (bucket.ETag, error) {
	return b.Put(ctx, key, bucket.NewBody([]byte(text)), cond)
}

func mustPut(t *testing.T, b bucket.Bucket, key, text string, cond bucket.Condition) bucket.ETag {
	t.Helper()
	tag, err := put(deadline(t), b, key, text, cond)
	check(t, err)
	if tag == "" {
		t.Fatalf("%s: no tag", key)
	}
	return tag
}

// get returns a text, its tag, and the size of the whole.
func get(ctx context.Context, b bucket.Bucket, key string, o bucket.GetOptions) (string, *bucket.Object, error) {
	obj, err := b.Get(ctx, key, o)
	if err != nil {
		return "", nil, err
	}
	text, err := io.ReadAll(obj.Body)
	return string(text), obj, errors.Join(err, obj.Body.Close())
}

func mustGet(t *testing.T, b bucket.Bucket, key string, want string) bucket.ETag {
	t.Helper()
	text, obj, err := get(deadline(t), b, key, bucket.GetOptions{})
	check(t, err)
	if text != want || obj.Size != int64(len(want)) {
		t.Fatalf("%s: got %.40q of %d bytes, want %.40q", key, text, obj.Size, want)
	}
	return obj.ETag
}

// keys are all keys behind a prefix, page by page.
func keys(t *testing.T, b bucket.Bucket, prefix string) (all []bucket.Entry) {
	t.Helper()
	for after := ""; ; after = all[len(all)-1].Key {
		page, err := b.List(deadline(t), prefix, after)
		check(t, err)
		if len(page) > 1000 {
			t.Fatalf("a page of %d", len(page))
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
	}
}

func testConditions(t *testing.T, b bucket.Bucket) {
	ctx := deadline(t)
	absent, never := bucket.Condition{IfAbsent: true}, bucket.Condition{IfMatch: `"00000000000000000000000000000000"`}
	_, err := b.Get(ctx, "a/b", bucket.GetOptions{})
	wants(t, "get of none", err, bucket.ErrNotFound)
	_, err = put(ctx, b, "a/b", "0", never)
	wants(t, "overwrite of none", err, bucket.ErrCondition)
	first := mustPut(t, b, "a/b", "1", absent)
	_, err = put(ctx, b, "a/b", "x", absent)
	wants(t, "second create", err, bucket.ErrCondition)
	_, err = put(ctx, b, "a/b", "x", never)
	wants(t, "overwrite of another", err, bucket.ErrCondition)
	if tag := mustGet(t, b, "a/b", "1"); tag != first {
		t.Fatalf("got tag %s, want %s", tag, first)
	}
	second := mustPut(t, b, "a/b", "2", bucket.Condition{IfMatch: first})
	if second == first {
		t.Fatal("two contents have one tag")
	}
	_, err = put(ctx, b, "a/b", "x", bucket.Condition{IfMatch: first})
	wants(t, "overwrite of an old version", err, bucket.ErrCondition)
	mustGet(t, b, "a/b", "2")
	third := mustPut(t, b, "a/b", "3", bucket.Condition{})
	_, err = put(ctx, b, "a/b", "x", bucket.Condition{IfMatch: second})
	wants(t, "overwrite of an old version", err, bucket.ErrCondition)
	mustPut(t, b, "a/b", "4", bucket.Condition{IfMatch: third})
	mustGet(t, b, "a/b", "4")
	_, err = put(ctx, b, "a/b", "x", bucket.Condition{IfAbsent: true, IfMatch: third})
	wants(t, "two conditions", err, bucket.ErrRefused)
	check(t, b.Delete(ctx, "a/b"))
	_, err = put(ctx, b, "a/b", "x", bucket.Condition{IfMatch: third})
	wants(t, "overwrite of what was deleted", err, bucket.ErrCondition)
	mustPut(t, b, "a/b", "5", absent)
	mustGet(t, b, "a/b", "5")
}

// race lets n put at a time, and returns who won. The others' condition must not hold, or the
// outcome be unknown, which reading back settles.
func race(t *testing.T, b bucket.Bucket, key string, n int, cond bucket.Condition) string {
	t.Helper()
	ctx := deadline(t)
	// A content that was there before would have its tag, and the condition hold again.
	racer := func(i int) string { return fmt.Sprintf("racer %d after %s", i, cond.IfMatch) }
	errs, start := make([]error, n), make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-start
			_, errs[i] = put(ctx, b, key, racer(i), cond)
		})
	}
	close(start)
	all.Wait()
	text, _, err := get(ctx, b, key, bucket.GetOptions{})
	check(t, err)
	for i, err := range errs {
		won := text == racer(i)
		if won && errors.Is(err, bucket.ErrCondition) || !won && err == nil {
			t.Fatalf("%s has %q, and racer %d got %v", key, text, i, err)
		}
	}
	return text
}

const racers = 8

func testOneCreates(t *testing.T, b bucket.Bucket) {
	for i := range 20 {
		if text := race(t, b, fmt.Sprint("race/", i), racers, bucket.Condition{IfAbsent: true}); !strings.HasPrefix(text, "racer ") {
			t.Fatalf("nobody won: %q", text)
		}
	}
}

func testOneOverwrites(t *testing.T, b bucket.Bucket) {
	tag := mustPut(t, b, "head", "0", bucket.Condition{})
	for range 20 {
		if text := race(t, b, "head", racers, bucket.Condition{IfMatch: tag}); !strings.HasPrefix(text, "racer ") {
			t.Fatalf("nobody won: %q", text)
		}
		_, obj, err := get(deadline(t), b, "head", bucket.GetOptions{})
		check(t, err)
		tag = obj.ETag
	}
}

// testAppends: of what several add to one object by IfMatch, what succeeded is there once, what was
// refused is not, and what is unknown at most once.
func testAppends(t *testing.T, b bucket.Bucket) {
	ctx := deadline(t)
	mustPut(t, b, "list", "", bucket.Condition{IfAbsent: true})
	var all sync.WaitGroup
	var mu sync.Mutex
	fates := map[string]error{}
	for i := range 4 {
		all.Go(func() {
			for n, done := 0, 0; done < 25 && ctx.Err() == nil; n++ {
				text, obj, err := get(ctx, b, "list", bucket.GetOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				id := fmt.Sprintf("%d.%d ", i, n)
				_, err = put(ctx, b, "list", text+id, bucket.Condition{IfMatch: obj.ETag})
				mu.Lock()
				fates[id] = err
				mu.Unlock()
				if err == nil {
					done++
				}
			}
		})
	}
	all.Wait()
	text, _, err := get(ctx, b, "list", bucket.GetOptions{})
	check(t, err)
	ids := strings.SplitAfter(text, " ")
	for id, err := range fates {
		there := 0
		for _, other := range ids {
			if other == id {
				there++
			}
		}
		if there > 1 || err == nil && there == 0 || errors.Is(err, bucket.ErrCondition) && there > 0 {
			t.Fatalf("%q is there %d times, and its put returned %v", id, there, err)
		}
	}
}

func testRanges(t *testing.T, b bucket.Bucket) {
	const text = "0123456789"
	mustPut(t, b, "r", text, bucket.Condition{})
	for _, o := range []bucket.GetOptions{{}, {Offset: 3}, {Offset: 3, Length: 2}, {Length: 10}, {Length: 11}, {Offset: 9},
		{Offset: 9, Length: 5}, {Offset: 10}, {Offset: 10, Length: 1}, {Offset: 400, Length: 1}} {
		want := text[min(o.Offset, 10):]
		if o.Length > 0 {
			want = want[:min(o.Length, int64(len(want)))]
		}
		got, obj, err := get(deadline(t), b, "r", o)
		check(t, err)
		if got != want || obj.Size != 10 || obj.ETag == "" {
			t.Errorf("%+v: got %q of %d, tag %s, want %q", o, got, obj.Size, obj.ETag, want)
		}
	}
	for _, o := range []bucket.GetOptions{{Offset: -1}, {Length: -1}} {
		_, err := b.Get(deadline(t), "r", o)
		wants(t, fmt.Sprint(o), err, bucket.ErrRefused)
	}
	_, err := b.Get(deadline(t), "none", bucket.GetOptions{Offset: 4, Length: 2})
	wants(t, "a part of none", err, bucket.ErrNotFound)
}

func testNotModified(t *testing.T, b bucket.Bucket) {
	ctx := deadline(t)
	tag := mustPut(t, b, "h", "1", bucket.Condition{})
	_, err := b.Get(ctx, "h", bucket.GetOptions{IfNoneMatch: tag})
	wants(t, "the same", err, bucket.ErrNotModified)
	_, err = b.Get(ctx, "none", bucket.GetOptions{IfNoneMatch: tag})
	wants(t, "none", err, bucket.ErrNotFound)
	mustPut(t, b, "h", "2", bucket.Condition{IfMatch: tag})
	if text, _, err := get(ctx, b, "h", bucket.GetOptions{IfNoneMatch: tag}); err != nil || text != "2" {
		t.Fatalf("got %q, %v", text, err)
	}
}

func testSizes(t *testing.T, b bucket.Bucket) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 256 << 10, 256<<10 + 1, 20<<20 + 7} {
		body := make([]byte, size)
		for i := range body {
			body[i] = byte(random.Uint32())
		}
		tag := mustPut(t, b, "big", string(body), bucket.Condition{})
		if got := mustGet(t, b, "big", string(body)); got != tag {
			t.Fatalf("%d bytes: got tag %s, want %s", size, got, tag)
		}
		if from := int64(size / 2); from > 0 {
			text, _, err := get(deadline(t), b, "big", bucket.GetOptions{Offset: from, Length: 300 << 10})
			check(t, err)
			if !bytes.Equal([]byte(text), body[from:min(int64(size), from+300<<10)]) {
				t.Fatalf("%d bytes: the part is another", size)
			}
		}
	}
	// A body is a section: what lies around it is not part of it.
	_, err := b.Put(deadline(t), "section", io.NewSectionReader(strings.NewReader("abcdef"), 2, 3), bucket.Condition{})
	check(t, err)
	mustGet(t, b, "section", "cde")
}

func testOverwrittenOften(t *testing.T, b bucket.Bucket) {
	tag := mustPut(t, b, "head", "0", bucket.Condition{IfAbsent: true})
	old := []bucket.ETag{}
	for i := range 140 {
		old = append(old, tag)
		tag = mustPut(t, b, "head", fmt.Sprint(i), bucket.Condition{IfMatch: tag})
		if mustGet(t, b, "head", fmt.Sprint(i)) != tag {
			t.Fatal("another tag")
		}
	}
	for i, tag := range old {
		// Version 0 and the next have one content, and may have one tag.
		_, err := put(deadline(t), b, "head", "x", bucket.Condition{IfMatch: tag})
		wants(t, fmt.Sprint("version ", i), err, bucket.ErrCondition)
	}
	_, err := put(deadline(t), b, "head", "x", bucket.Condition{IfAbsent: true})
	wants(t, "create", err, bucket.ErrCondition)
	if got := keys(t, b, ""); len(got) != 1 || got[0] != (bucket.Entry{Key: "head", Size: 3, ETag: tag}) {
		t.Fatalf("listed %v", got)
	}
}

// Keys that are allowed, and that are not.
var (
	goodKeys = []string{"a", "0", "-", "_", "a.b", "b/b/c", "e00000007/000000000012", "seg/000123-0a", "b/b.c-d_e", strings.Repeat("k", 200),
		strings.Repeat("abc/", 127) + "abcd"}
	badKeys = []string{"", "/", "a/", "/a", "a//b", ".", "..", "a/../b", ".tmp", "a/.b", "A", "a b", "a@1", "a\\b", "ä", "a\x00", "a\n",
		"a%2f", strings.Repeat("k", 201), strings.Repeat("abc/", 128) + "a"}
)

func testKeys(t *testing.T, b bucket.Bucket) {
	ctx := deadline(t)
	for _, key := range goodKeys {
		mustPut(t, b, key, key, bucket.Condition{IfAbsent: true})
	}
	for _, key := range goodKeys {
		mustGet(t, b, key, key)
	}
	for _, key := range badKeys {
		_, err := put(ctx, b, key, "x", bucket.Condition{})
		wants(t, fmt.Sprintf("put %q", key), err, bucket.ErrRefused)
		_, err = b.Get(ctx, key, bucket.GetOptions{})
		wants(t, fmt.Sprintf("get %q", key), err, bucket.ErrRefused)
		wants(t, fmt.Sprintf("delete %q", key), b.Delete(ctx, goodKeys[0], key), bucket.ErrRefused)
	}
	mustGet(t, b, goodKeys[0], goodKeys[0])
}

func testOrder(t *testing.T, b bucket.Bucket) {
	want := []string{"a-b", "a-c/c", "a.b", "a/b-c", "a/b/a-b", "a/b/a/b", "a/b/a0", "a/b0", "a/bb", "a0", "a_", "aa", "b/a"}
	for _, i := range rand.New(rand.NewPCG(3, 4)).Perm(len(want)) {
		mustPut(t, b, want[i], want[i], bucket.Condition{})
		mustPut(t, b, want[i], want[i]+".", bucket.Condition{})
	}
	prefixes := []string{"", "a", "a/", "a/b", "a/b/", "a-", "b", "c", "a/b/c", "a/b/cc", "A", "a/b/c/d", "/", "."}
	for _, prefix := range prefixes {
		for _, after := range append([]string{"", "Z", "a/", "a//", "zz", "a/b/", "."}, want...) {
			var expected []string
			for _, key := range want {
				if strings.HasPrefix(key, prefix) && key > after {
					expected = append(expected, key)
				}
			}
			page, err := b.List(deadline(t), prefix, after)
			check(t, err)
			var got []string
			for _, e := range page {
				got = append(got, e.Key)
				if e.Size != int64(len(e.Key))+1 || mustGet(t, b, e.Key, e.Key+".") != e.ETag {
					t.Errorf("%+v", e)
				}
			}
			if !slices.Equal(got, expected) {
				t.Errorf("prefix %q after %q: got %q, want %q", prefix, after, got, expected)
			}
		}
	}
}

func testPages(t *testing.T, b bucket.Bucket) {
	const n = 1010
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for k := i; k < n; k += 8 {
				if _, err := put(deadline(t), b, fmt.Sprintf("p/%d/%06d", k%2, k), "", bucket.Condition{IfAbsent: true}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	got := keys(t, b, "p/")
	if len(got) != n || !slices.IsSortedFunc(got, func(x, y bucket.Entry) int { return strings.Compare(x.Key, y.Key) }) {
		t.Fatalf("listed %d, or in another order", len(got))
	}
	doomed := make([]string, n)
	for i, e := range got {
		doomed[i] = e.Key
	}
	check(t, b.Delete(deadline(t), doomed...))
	if got := keys(t, b, ""); len(got) != 0 {
		t.Fatalf("%d are left", len(got))
	}
}

func testDeleted(t *testing.T, b bucket.Bucket) {
	ctx := deadline(t)
	check(t, b.Delete(ctx))
	check(t, b.Delete(ctx, "none", "no/none"))
	for _, key := range []string{"a", "b/b", "c"} {
		mustPut(t, b, key, "1", bucket.Condition{})
		mustPut(t, b, key, "2", bucket.Condition{})
	}
	check(t, b.Delete(ctx, "a", "none", "c"))
	_, err := b.Get(ctx, "a", bucket.GetOptions{})
	wants(t, "get", err, bucket.ErrNotFound)
	if got := keys(t, b, ""); len(got) != 1 || got[0].Key != "b/b" {
		t.Fatalf("listed %v", got)
	}
	mustPut(t, b, "a", "3", bucket.Condition{IfAbsent: true})
	mustGet(t, b, "a", "3")
}

func testEndedContexts(t *testing.T, b bucket.Bucket) {
	mustPut(t, b, "a", "1", bucket.Condition{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := put(ctx, b, "b", "x", bucket.Condition{})
	wants(t, "put", err, context.Canceled)
	_, err = b.Get(ctx, "a", bucket.GetOptions{})
	wants(t, "get", err, context.Canceled)
	_, err = b.List(ctx, "", "")
	wants(t, "list", err, context.Canceled)
	wants(t, "delete", b.Delete(ctx, "a"), context.Canceled)
	if got := keys(t, b, ""); len(got) != 1 || got[0].Key != "a" {
		t.Fatalf("listed %v", got)
	}
}
