package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// disk knows what of a directory a power loss leaves for certain: of a file what it had when it was
// synced, of a directory the names that it had then.
type disk struct {
	t     *testing.T
	root  string
	files []savedFile
	dirs  map[string][]savedName
	check func() error // from the goroutine that syncs
}

type savedFile struct {
	info fs.FileInfo
	text []byte
}

type savedName struct {
	name string
	info fs.FileInfo
}

// watch makes d say what it syncs.
func watch(t *testing.T, d *dir) *disk {
	w := &disk{t: t, root: d.root, dirs: map[string][]savedName{}}
	d.syncFile = func(f *os.File) error {
		w.cut("before the sync of a file")
		text, err := os.ReadFile(f.Name())
		info, serr := f.Stat()
		w.files = append(w.files, savedFile{info, text})
		w.cut("after the sync of a file")
		return errors.Join(err, serr)
	}
	d.syncDir = func(path string) error {
		w.cut("before the sync of " + path)
		names, err := w.names(path)
		if err == nil {
			w.dirs[path] = names
		}
		w.cut("after the sync of " + path)
		return err
	}
	return w
}

func (w *disk) names(path string) (names []savedName, err error) {
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		names = append(names, savedName{e.Name(), info})
	}
	return names, err
}

func (w *disk) cut(after string) {
	if w.check == nil {
		return
	}
	if err := w.check(); err != nil {
		w.t.Errorf("%s: %v", after, err)
	}
}

// materialize makes the directory that a power loss leaves: with the names that are durable, or, if
// now, with those that are there now. What a file has that was not synced is lost.
func (w *disk) materialize(at string, now bool) error { return w.make(w.root, at, now) }

func (w *disk) make(from, to string, now bool) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	names := w.dirs[from]
	if now {
		names, _ = w.names(from)
	}
	for _, n := range names {
		if n.info.IsDir() {
			if err := w.make(filepath.Join(from, n.name), filepath.Join(to, n.name), now); err != nil {
				return err
			}
			continue
		}
		var text []byte
		for _, f := range slices.Backward(w.files) {
			if os.SameFile(f.info, n.info) {
				text = f.text
				break
			}
		}
		if err := os.WriteFile(filepath.Join(to, n.name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// TestDirPowerLoss: whenever the power goes, what was acknowledged is there, what was deleted is
// not, and what is read was put, whole. The bucket goes on.
func TestDirPowerLoss(t *testing.T) {
	ctx := t.Context()
	b, err := Dir(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, b.(*dir))
	put := map[string][]string{} // all that was ever put, in order; "" for a deletion
	acked := map[string]int{}    // how many of those returned
	states := 0
	w.check = func() error {
		for _, now := range []bool{false, true} {
			states++
			at := t.TempDir()
			if err := w.materialize(at, now); err != nil {
				return err
			}
			found, err := Dir(ctx, at)
			if err != nil {
				return err
			}
			found.(*dir).syncFile = func(*os.File) error { return nil } // it takes most of the time
			found.(*dir).syncDir = func(string) error { return nil }
			for key, texts := range put {
				text, err := read(t, found, key)
				if err != nil {
					return fmt.Errorf("names of now %v: %s: %w", now, key, err)
				}
				if from := max(acked[key]-1, 0); !slices.Contains(texts[from:], text) && (acked[key] > 0 || text != "") {
					return fmt.Errorf("names of now %v: %s has %q, of %q %d are acknowledged", now, key, text, texts, acked[key])
				}
				tag, err := found.Put(ctx, key, NewBody([]byte("more")), Condition{IfAbsent: text == ""})
				if err == nil {
					_, err = found.Put(ctx, key, NewBody([]byte("and more")), Condition{IfMatch: tag})
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	}
	for i := range 4 {
		for _, key := range []string{"head", fmt.Sprintf("e%d/1", i), fmt.Sprintf("e%d/2", i), "a/b/c"} {
			text := fmt.Sprintf("%s %d", key, i)
			put[key] = append(put[key], text)
			if _, err := b.Put(ctx, key, NewBody([]byte(text)), Condition{}); err != nil {
				t.Fatal(err)
			}
			acked[key] = len(put[key])
		}
		if i%2 == 1 {
			put["a/b/c"] = append(put["a/b/c"], "")
			if err := b.Delete(ctx, "a/b/c"); err != nil {
				t.Fatal(err)
			}
			acked["a/b/c"] = len(put["a/b/c"])
		}
	}
	t.Logf("%d states", states)
}

// read returns a text, or "" if there is no object.
func read(t *testing.T, b Bucket, key string) (string, error) {
	t.Helper()
	o, err := b.Get(t.Context(), key, GetOptions{})
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(o.Body)
	return string(text), errors.Join(err, o.Body.Close())
}

// TestDirFails: an error of the device before the link is none of an unknown outcome where it is
// known to stay, and a failed sync of a directory is one, since the object may be there.
func TestDirFails(t *testing.T) {
	ctx := t.Context()
	b, err := Dir(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := b.(*dir)
	for _, c := range []struct {
		err  error
		says string
	}{
		{syscall.ENOSPC, "make room"}, {syscall.EDQUOT, "make room"}, {syscall.EROFS, "read-only"}, {syscall.EACCES, "rights"},
	} {
		d.syncFile = func(f *os.File) error { return &fs.PathError{Op: "sync", Path: f.Name(), Err: c.err} }
		_, err := b.Put(ctx, "a", NewBody(nil), Condition{})
		if !errors.Is(err, ErrRefused) || !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: got %v", c.err, err)
		}
	}
	d.syncFile = func(*os.File) error { return syscall.EIO }
	if _, err := b.Put(ctx, "a", NewBody(nil), Condition{}); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
	if _, err := b.Get(ctx, "a", GetOptions{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if names, _ := os.ReadDir(filepath.Join(d.root, tempDir)); len(names) > 0 {
		t.Errorf("left %v", names)
	}
	d.syncFile, d.syncDir = (*os.File).Sync, func(string) error { return syscall.ENOSPC }
	if _, err := b.Put(ctx, "a", NewBody(nil), Condition{}); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("got %v", err)
	}
	if text, err := read(t, b, "a"); text != "" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestDirSleeper: a Put that was asleep between its look at the object and its link does not
// succeed with a number that was used and removed meanwhile, nor bring a deleted object back.
func TestDirSleeper(t *testing.T) {
	for _, c := range []struct {
		name      string
		old       int // versions before
		cond      func(tag ETag) Condition
		meanwhile func(t *testing.T, b Bucket)
		left      string
	}{
		{"overwritten for long", 3, func(tag ETag) Condition { return Condition{IfMatch: tag} }, overwrite(300), "299"},
		{"overwritten for long, had one version", 1, func(tag ETag) Condition { return Condition{IfMatch: tag} }, overwrite(300), "299"},
		{"overwritten once", 3, func(tag ETag) Condition { return Condition{IfMatch: tag} }, overwrite(1), "0"},
		{"deleted", 3, func(tag ETag) Condition { return Condition{IfMatch: tag} }, remove, ""},
		{"deleted, and had one version", 1, func(tag ETag) Condition { return Condition{IfMatch: tag} }, remove, ""},
		{"created and overwritten", 0, func(ETag) Condition { return Condition{IfAbsent: true} }, overwrite(2), "1"},
		{"created", 0, func(ETag) Condition { return Condition{IfAbsent: true} }, overwrite(300), "299"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Dir(t.Context(), t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			d := b.(*dir)
			var tag ETag
			for i := range c.old {
				if tag, err = b.Put(t.Context(), "head", NewBody(fmt.Append(nil, "old ", i)), Condition{}); err != nil {
					t.Fatal(err)
				}
			}
			temp, _, err := d.write(&source{r: NewBody([]byte("late"))})
			if err != nil {
				t.Fatal(err)
			}
			v, err := d.holds("head", c.cond(tag))
			if err != nil {
				t.Fatal(err)
			}
			c.meanwhile(t, b)
			if err = d.link(temp, "head", v.top+1); err == nil {
				err = d.settle("head", v, c.cond(tag))
			}
			if err == nil {
				t.Error("the sleeper's put succeeded")
			}
			if text, err := read(t, b, "head"); err != nil || text != c.left {
				t.Errorf("left %q, %v; want %q", text, err, c.left)
			}
		})
	}
}

func overwrite(n int) func(t *testing.T, b Bucket) {
	return func(t *testing.T, b Bucket) {
		for i := range n {
			if _, err := b.Put(t.Context(), "head", NewBody(fmt.Append(nil, i)), Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func remove(t *testing.T, b Bucket) {
	if err := b.Delete(t.Context(), "head"); err != nil {
		t.Fatal(err)
	}
}

// TestDirHangs: a call ends with its context, though the file system does not answer. The put has
// an unknown outcome, and reads no byte of its body later.
func TestDirHangs(t *testing.T) {
	b, err := Dir(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := b.(*dir)
	hung, answer := make(chan struct{}), make(chan struct{})
	d.syncDir = func(path string) error {
		close(hung)
		<-answer
		return vfs.OS{}.SyncDir(path)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-hung
		cancel()
	}()
	if _, err := b.Put(ctx, "a", NewBody([]byte("1")), Condition{}); err == nil || errors.Is(err, ErrRefused) || errors.Is(err, ErrCondition) || !errors.Is(err, ctx.Err()) {
		t.Errorf("got %v", err)
	}
	if text, err := read(t, b, "a"); err != nil || text != "1" {
		t.Errorf("got %q, %v", text, err) // as it may have had its effect
	}
	close(answer)
	for range mostCalls { // and it counts no longer once the system has answered
		d.calls <- struct{}{}
	}

	src := &source{r: NewBody([]byte("text"))}
	src.end()
	if n, err := src.Read(make([]byte, 4)); n != 0 || !errors.Is(err, errReturned) {
		t.Errorf("got %d, %v", n, err)
	}
}

// FuzzHeader: whatever a header has, it is refused or says what it is made of.
func FuzzHeader(f *testing.F) {
	f.Add(header{size: 5, sum: [16]byte{1, 2}}.encode())
	f.Add([]byte(headerMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, ok := parseHeader(b); ok && (h.size < 0 || string(h.encode()) != string(b)) {
			t.Errorf("%x is %+v", b, h)
		}
	})
}

// FuzzNames: a name in a directory that stands for a key is one that the key has.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"a@1", "a@", "a", "a.b-c_d@1", ".tmp", "@1", "a@2", "a@1@", "2", "02", "18446744073709551615"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, ok := parseVersion(s); ok && (n < 2 || versionName(n) != s) {
			t.Errorf("%q is version %d", s, n)
		}
		part, ok := parseName(s)
		if !ok {
			return
		}
		key, isDir := strings.CutSuffix(part, "/")
		if err := CheckKey(key); err != nil {
			t.Error(err)
		}
		d := &dir{root: "r"}
		if there := filepath.Join("r", s); isDir != (there == filepath.Join("r", key)) || !isDir && there != d.first(key) && there != d.later(key) {
			t.Errorf("%q is %q", s, part)
		}
	})
}

// FuzzKey: the files of a key lie in the bucket's directory, and no two keys share one.
func FuzzKey(f *testing.F) {
	for _, s := range []string{"a", "a/b", "../a", "a/../../b", "/a", "a\x00", "a\\b", "c:/a", "con", strings.Repeat("a/", 300)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if CheckKey(key) != nil {
			return
		}
		d := &dir{root: "r"}
		for suffix, name := range map[string]string{firstSuffix: d.first(key), laterSuffix: d.later(key)} {
			back, err := filepath.Rel("r", name)
			if err != nil || filepath.ToSlash(back) != key+suffix || !filepath.IsLocal(back) {
				t.Errorf("%q is at %q", key, name)
			}
		}
	})
}
