package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

func TestDir(t *testing.T) {
	defer goleak.VerifyNone(t)
	buckettest.Test(t, func(t *testing.T) bucket.Bucket { return openDir(t, t.TempDir()) })
}

func openDir(t *testing.T, path string) bucket.Bucket {
	t.Helper()
	b, err := bucket.Dir(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDirs: several that have one directory open are one bucket.
func TestDirs(t *testing.T) {
	buckettest.Test(t, func(t *testing.T) bucket.Bucket {
		path := t.TempDir()
		return &alternating{all: []bucket.Bucket{openDir(t, path), openDir(t, path), openDir(t, path)}}
	})
}

// alternating is a bucket that several have open.
type alternating struct {
	mu  sync.Mutex
	all []bucket.Bucket
}

func (a *alternating) next() bucket.Bucket {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all[1:], a.all[0])
	return a.all[0]
}

func (a *alternating) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	return a.next().Put(ctx, key, body, cond)
}

func (a *alternating) Get(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	return a.next().Get(ctx, key, o)
}

func (a *alternating) List(ctx context.Context, prefix, after string) ([]bucket.Entry, error) {
	return a.next().List(ctx, prefix, after)
}

func (a *alternating) Delete(ctx context.Context, keys ...string) error {
	return a.next().Delete(ctx, keys...)
}

func put(t *testing.T, b bucket.Bucket, key, text string, cond bucket.Condition) bucket.ETag {
	t.Helper()
	tag, err := b.Put(t.Context(), key, bucket.NewBody([]byte(text)), cond)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

func get(t *testing.T, b bucket.Bucket, key string) (string, error) {
	t.Helper()
	o, err := b.Get(t.Context(), key, bucket.GetOptions{})
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(o.Body)
	return string(text), errors.Join(err, o.Body.Close())
}

func refuses(t *testing.T, err error, says string) {
	t.Helper()
	if !errors.Is(err, bucket.ErrRefused) || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want ErrRefused with %q", err, says)
	}
}

// TestDirRefuses: what is no directory, or is not there any more, is refused with advice.
func TestDirRefuses(t *testing.T) {
	path := t.TempDir()
	_, err := bucket.Dir(t.Context(), filepath.Join(path, "none"))
	refuses(t, err, "mount the disk")
	if err := os.WriteFile(filepath.Join(path, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = bucket.Dir(t.Context(), filepath.Join(path, "file"))
	refuses(t, err, "no directory")

	// A disk that is unmounted leaves an empty directory.
	path = t.TempDir()
	b := openDir(t, path)
	put(t, b, "a/b", "1", bucket.Condition{})
	if err := os.Rename(path, path+".gone"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = get(t, b, "a/b")
	refuses(t, err, "mount the disk")
	_, err = b.List(t.Context(), "", "")
	refuses(t, err, "mount the disk")
	_, err = b.Put(t.Context(), "a/b", bucket.NewBody(nil), bucket.Condition{IfAbsent: true})
	refuses(t, err, "mount the disk")
	if names, _ := os.ReadDir(path); len(names) > 0 {
		t.Errorf("it made %v in another directory", names)
	}
}

// TestDirLeavesStrangers: files that are none of the bucket's are no objects, and stay.
func TestDirLeavesStrangers(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{"a", "README", "lost+found/x", ".snapshot/b@1", "c@2", "d@/1", "d@/02", "d@/x", "e@1@1", "f/.g@1"} {
		at := filepath.Join(path, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	b := openDir(t, path)
	if page, err := b.List(t.Context(), "", ""); err != nil || len(page) > 0 {
		t.Fatalf("listed %v, %v", page, err)
	}
	for _, key := range []string{"a", "b", "d"} {
		put(t, b, key, key, bucket.Condition{IfAbsent: true})
	}
	if page, err := b.List(t.Context(), "", ""); err != nil || len(page) != 3 {
		t.Fatalf("listed %v, %v", page, err)
	}
	if text, err := os.ReadFile(filepath.Join(path, "a")); err != nil || string(text) != "x" {
		t.Errorf("a stranger's file is %q: %v", text, err)
	}
}

// TestDirDamaged: of the versions of an object the highest valid one counts, and the next Put has a
// number behind all. One without a valid version is damaged, and not absent.
func TestDirDamaged(t *testing.T) {
	path := t.TempDir()
	b := openDir(t, path)
	put(t, b, "h", "1", bucket.Condition{})
	second := put(t, b, "h", "22", bucket.Condition{})
	put(t, b, "h", "333", bucket.Condition{})
	if err := os.Truncate(filepath.Join(path, "h@", "3"), 42); err != nil {
		t.Fatal(err)
	}
	if text, err := get(t, b, "h"); err != nil || text != "22" {
		t.Fatalf("got %q, %v", text, err)
	}
	put(t, b, "h", "4444", bucket.Condition{IfMatch: second})
	if text, err := get(t, b, "h"); err != nil || text != "4444" {
		t.Fatalf("got %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(path, "h@", "4")); err != nil {
		t.Fatal(err)
	}

	put(t, b, "one", "1", bucket.Condition{})
	if err := os.WriteFile(filepath.Join(path, "one@1"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, b, "one"); err == nil || errors.Is(err, bucket.ErrNotFound) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("got %v", err)
	}
	if _, err := b.Put(t.Context(), "one", bucket.NewBody(nil), bucket.Condition{IfAbsent: true}); !errors.Is(err, bucket.ErrCondition) {
		t.Errorf("got %v", err)
	}
	if page, err := b.List(t.Context(), "", ""); err != nil || len(page) != 2 {
		t.Errorf("listed %v, %v", page, err)
	}
}

// TestDirSweeps: temporary files that a crash left go with the next open, others stay.
func TestDirSweeps(t *testing.T) {
	path := t.TempDir()
	openDir(t, path)
	for name, age := range map[string]time.Duration{"old": 2 * time.Hour, "new": 0} {
		at := filepath.Join(path, ".tmp", name)
		if err := errors.Join(os.WriteFile(at, nil, 0o600), os.Chtimes(at, time.Time{}, time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	put(t, openDir(t, path), "a", "1", bucket.Condition{})
	names, err := os.ReadDir(filepath.Join(path, ".tmp"))
	if err != nil || len(names) != 1 || names[0].Name() != "new" {
		t.Errorf("left %v, %v", names, err)
	}
}

// TestDirForgetsVersions: of an object that is overwritten for ever only some versions stay.
func TestDirForgetsVersions(t *testing.T) {
	path := t.TempDir()
	b := openDir(t, path)
	for i := range 400 {
		put(t, b, "head", fmt.Sprint(i), bucket.Condition{})
	}
	names, err := os.ReadDir(filepath.Join(path, "head@"))
	if err != nil || len(names) > 130 || len(names) < 64 {
		t.Errorf("%d versions, %v", len(names), err)
	}
	if err := b.Delete(t.Context(), "head"); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(path); err != nil || len(names) != 1 {
		t.Errorf("left %v, %v", names, err)
	}
}

// liar is a bucket that breaks one thing.
type liar struct {
	bucket.Bucket
	put  func(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error)
	get  func(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error)
	list func(ctx context.Context, prefix, after string) ([]bucket.Entry, error)
}

func (l *liar) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	if l.put != nil {
		return l.put(ctx, key, body, cond)
	}
	return l.Bucket.Put(ctx, key, body, cond)
}

func (l *liar) Get(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	if l.get != nil {
		return l.get(ctx, key, o)
	}
	return l.Bucket.Get(ctx, key, o)
}

func (l *liar) List(ctx context.Context, prefix, after string) ([]bucket.Entry, error) {
	if l.list != nil {
		return l.list(ctx, prefix, after)
	}
	return l.Bucket.List(ctx, prefix, after)
}

// checksFirst looks whether a condition holds, waits for as many others as race, and puts.
func checksFirst(b bucket.Bucket, if1 func(bucket.Condition) bool) *liar {
	var mu sync.Mutex
	waiting, open := 0, make(chan struct{})
	return &liar{Bucket: b, put: func(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
		if !if1(cond) {
			return b.Put(ctx, key, body, cond)
		}
		o, err := b.Get(ctx, key, bucket.GetOptions{})
		if err == nil {
			_ = o.Body.Close()
		}
		if cond.IfAbsent && err == nil || cond.IfMatch != "" && (err != nil || o.ETag != cond.IfMatch) {
			return "", bucket.ErrCondition
		}
		mu.Lock()
		waiting++
		gate := open
		if waiting == 8 {
			close(open)
			waiting, open = 0, make(chan struct{})
		}
		mu.Unlock()
		<-gate
		return b.Put(ctx, key, body, bucket.Condition{})
	}}
}

// TestProbeRefusesLiars: each thing that a bucket may break is found.
func TestProbeRefusesLiars(t *testing.T) {
	for name, make := range map[string]func(b bucket.Bucket) *liar{
		"create ignores its condition": func(b bucket.Bucket) *liar {
			return &liar{Bucket: b, put: func(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
				return b.Put(ctx, key, body, bucket.Condition{IfMatch: cond.IfMatch})
			}}
		},
		"overwrite ignores its condition": func(b bucket.Bucket) *liar {
			return &liar{Bucket: b, put: func(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
				return b.Put(ctx, key, body, bucket.Condition{IfAbsent: cond.IfAbsent})
			}}
		},
		"create checks first": func(b bucket.Bucket) *liar {
			return checksFirst(b, func(c bucket.Condition) bool { return c.IfAbsent })
		},
		"overwrite checks first": func(b bucket.Bucket) *liar {
			return checksFirst(b, func(c bucket.Condition) bool { return c.IfMatch != "" })
		},
		"all win and the first stays": func(b bucket.Bucket) *liar {
			return &liar{Bucket: b, put: func(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
				tag, err := b.Put(ctx, key, body, cond)
				if errors.Is(err, bucket.ErrCondition) && cond.IfAbsent {
					return "x", nil
				}
				return tag, err
			}}
		},
		"refuses and stores": func(b bucket.Bucket) *liar {
			return &liar{Bucket: b, put: func(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
				tag, err := b.Put(ctx, key, body, cond)
				if err == nil && cond.IfAbsent {
					return "", bucket.ErrCondition
				}
				return tag, err
			}}
		},
		"overwrites nothing": func(b bucket.Bucket) *liar {
			return &liar{Bucket: b, put: func(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
				if strings.HasSuffix(key, "missing") {
					cond = bucket.Condition{}
				}
				return b.Put(ctx, key, body, cond)
			}}
		},
		"never not modified": func(b bucket.Bucket) *liar {
			return &liar{Bucket: b, get: func(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
				return b.Get(ctx, key, bucket.GetOptions{Offset: o.Offset, Length: o.Length})
			}}
		},
		"tags differ": func(b bucket.Bucket) *liar {
			return &liar{Bucket: b, put: func(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
				tag, err := b.Put(ctx, key, body, cond)
				return tag + "-", err
			}}
		},
		"gets are late": func(b bucket.Bucket) *liar {
			return &liar{Bucket: b, get: func(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
				return nil, bucket.ErrNotFound
			}}
		},
		"listings are late": func(b bucket.Bucket) *liar {
			var mu sync.Mutex
			var before []bucket.Entry
			return &liar{Bucket: b, list: func(ctx context.Context, prefix, after string) ([]bucket.Entry, error) {
				mu.Lock()
				defer mu.Unlock()
				page, err := b.List(ctx, prefix, after)
				page, before = before, page
				return page, err
			}}
		},
		"listings follow directories": func(b bucket.Bucket) *liar {
			return &liar{Bucket: b, list: func(ctx context.Context, prefix, after string) ([]bucket.Entry, error) {
				page, err := b.List(ctx, prefix, after)
				slices.SortFunc(page, func(x, y bucket.Entry) int {
					return slices.Compare(strings.Split(x.Key, "/"), strings.Split(y.Key, "/"))
				})
				return page, err
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			honest := buckettest.NewSim(nil)
			err := bucket.Probe(t.Context(), make(honest))
			if !errors.Is(err, bucket.ErrUnfit) {
				t.Fatalf("got %v", err)
			}
			t.Log(err)
		})
	}
}

// TestProbe: an honest bucket passes, and nothing is left of the probe. One that is away, or
// refuses, is not called unfit.
func TestProbe(t *testing.T) {
	s := buckettest.NewSim(nil)
	if err := bucket.Probe(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if page, _ := s.List(t.Context(), "", ""); len(page) > 0 {
		t.Errorf("left %v", page)
	}
	s.Disconnect("a")
	if err := bucket.Probe(t.Context(), s.Client("a")); err == nil || errors.Is(err, bucket.ErrUnfit) {
		t.Errorf("got %v", err)
	}
	err := bucket.Probe(t.Context(), &liar{Bucket: s, put: func(context.Context, string, *io.SectionReader, bucket.Condition) (bucket.ETag, error) {
		return "", fmt.Errorf("%w: no rights", bucket.ErrRefused)
	}})
	refuses(t, err, "no rights")
	if errors.Is(err, bucket.ErrUnfit) {
		t.Errorf("got %v", err)
	}
}
