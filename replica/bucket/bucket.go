// Package bucket is stele's only way to object storage: a small interface, [Bucket], and
// its implementation over a directory, [Dir]. S3 is in the module replica/s3.
//
// Who implements a Bucket tests it with package buckettest.
package bucket

import (
	"context"
	"errors"
	"io"
)

// Errors of a Bucket. Callers match them with errors.Is.
var (
	// ErrNotFound says that there is no object with the key.
	ErrNotFound = errors.New("no such object")
	// ErrNotModified is returned by Get if the object still has the ETag that the caller knows.
	ErrNotModified = errors.New("object is not modified")
	// ErrCondition says that a Put was refused because its condition does not hold, and that
	// what stands there instead is durable. The Put will have no effect any more. Where something on the way to the bucket may have sent it
	// twice, as proxies do with what they take for idempotent, it may have had its effect,
	// and that be the reason: who must know reads the object back.
	ErrCondition = errors.New("condition of the put does not hold")
	// ErrRefused says that the bucket refused a call for good: rights, region, clock, a bucket
	// that does not exist, a full one. It had no effect. The text says what to do.
	ErrRefused = errors.New("the bucket refuses the call")
)

// ETag names one version of an object. Two contents of one key have different tags. It is
// opaque.
type ETag string

// Condition is what must hold for a Put. The zero Condition always holds.
type Condition struct {
	// IfAbsent: there is no object with the key.
	IfAbsent bool
	// IfMatch, unless empty: the object has this ETag.
	IfMatch ETag
}

// Object is what Get found.
type Object struct {
	// Body yields the bytes that were asked for. It ends with io.ErrUnexpectedEOF if the
	// connection was cut. The caller closes it.
	Body io.ReadCloser
	// Size is the number of bytes of the whole object.
	Size int64
	ETag ETag
}

// GetOptions says what part of an object to get, and when.
type GetOptions struct {
	// Offset is where to begin. An offset at or behind the end yields no bytes.
	Offset int64
	// Length is the most bytes to get. 0: all to the end.
	Length int64
	// IfNoneMatch: if the object has this ETag, Get returns ErrNotModified.
	IfNoneMatch ETag
}

// Entry is one object of a listing.
type Entry struct {
	Key  string
	Size int64
	ETag ETag
}

// Bucket stores objects under keys. Each call reads what every earlier successful call
// wrote, whoever made it (strong consistency, listings included). All methods may be called
// concurrently, and end when ctx does.
//
// Keys are as CheckKey says; with another a call is refused. A caller puts no object a beside
// an a/b, since some buckets are file systems, where a cannot be both.
//
// A call that fails with another error than those of this package has an unknown outcome: it
// may have had its effect, or may still have it after it has returned, as a request that a
// network delays. The caller settles a Put with a condition by putting again, and, if that is
// refused, by reading the object back: what is read after another error may not be durable. An
// implementation may repeat a Put without condition and reads by itself, but never a Put with a condition,
// since the second would be refused because of the first.
type Bucket interface {
	// Put stores an object, whole or not at all, and returns its tag. Once it has returned
	// without error the object is as durable as the bucket makes it.
	Put(ctx context.Context, key string, body *io.SectionReader, cond Condition) (ETag, error)
	// Get returns an object or a part of it: ErrNotFound, ErrNotModified.
	Get(ctx context.Context, key string, o GetOptions) (*Object, error)
	// List returns up to 1,000 entries whose keys begin with prefix and are greater than
	// after, in order of their bytes. Fewer than 1,000 does not mean that there are no more:
	// an empty list does.
	List(ctx context.Context, prefix, after string) ([]Entry, error)
	// Delete removes objects. A key without an object is no error. If it fails, any of them
	// may be gone. Beside a Put with IfMatch of the same key either may come first, and
	// that Put may fail with an unknown outcome.
	Delete(ctx context.Context, keys ...string) error
}
