package bucket_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stele-go/stele/replica/bucket"
)

// TestReadOutlivesItsContext ends the context of a read while the system is asked: what the system answers later touches
// nothing that the reader has. The race detector is the judge.
func TestReadOutlivesItsContext(t *testing.T) {
	b, err := bucket.Dir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 1<<20)
	if _, err := b.Put(t.Context(), "a", bucket.NewBody(body), bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		obj, err := b.Get(ctx, "a", bucket.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		go cancel()
		if got, err := io.ReadAll(obj.Body); err == nil && !bytes.Equal(got, body) {
			t.Fatalf("read %d other bytes", len(got))
		}
		if err := obj.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
