package bucket

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

const (
	fileMode = 0o640
	dirMode  = 0o750

	tempDir = ".tmp"
	// tempAge is how old a temporary file is that nobody writes any more. If somebody does
	// all the same, the Put fails.
	tempAge = time.Hour
	// kept is the least number of overwritten versions that stay. A reader, and a Put that
	// looks back at what it replaced, would have to sleep through as many to lose them.
	kept = 64
	// mostCalls is how many calls wait for the file system at a time. One whose context
	// ended counts until the system has answered.
	mostCalls = 64
)

// dir is a directory as a Bucket.
type dir struct {
	root  string
	calls chan struct{}
	// marked: the directory for temporary files is there. If it is not any more, then another
	// directory is: the disk was unmounted.
	marked bool
	// What makes files and names durable: tests look on.
	syncFile func(*os.File) error
	syncDir  func(string) error
}

// Dir is the bucket in a directory that is there: of a disk, or of a file server that several
// machines have mounted. The file system must have hard links.
//
// Version 1 of the object a/b is the file a/b@1, version n the file a/b@/n: a header, and the
// bytes. The highest valid one counts. A Put writes a temporary file, syncs it, and links it to
// the number behind the newest, which fails if the name is taken. So of all processes and
// machines one succeeds, whatever else they know of the directory, and no part of an object is
// ever seen. Then it syncs the directories. Old versions are removed in the order of their
// numbers, but never the first, which keeps IfAbsent exclusive: a Put that was asleep while
// its number was used and removed finds what it replaced gone, and so does not succeed.
//
// A mounted file server must not answer from a cache (NFS: actimeo=0, lookupcache=none): reads
// and listings would be late. Conditions hold even then. What a Get returns may not be durable
// yet if its Put has not returned.
//
// What root makes belongs to the owner of the directory, who goes on with it. If root is killed when it has just made a directory
// below, that may stay root's: chown it.
//
// A file system that hangs ends no call. A call whose context ends returns, with an unknown
// outcome, while the system may still do what it was asked for.
func Dir(ctx context.Context, path string) (Bucket, error) {
	d := &dir{root: filepath.Clean(path), calls: make(chan struct{}, mostCalls), syncFile: (*os.File).Sync, syncDir: vfs.OS{}.SyncDir}
	_, err := within(ctx, d, func() (any, error) { return nil, d.open() }, nil)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// open looks at the directory, and removes temporary files that a crash left.
func (d *dir) open() error {
	info, err := os.Stat(d.root)
	if err != nil {
		return refused(err)
	}
	if !info.IsDir() {
		return refused(&fs.PathError{Op: "open", Path: d.root, Err: syscall.ENOTDIR})
	}
	// Who may only read needs none.
	made := os.Mkdir(filepath.Join(d.root, tempDir), dirMode)
	if made == nil || errors.Is(made, fs.ErrExist) { // a crash of root may have left it before it was given away
		if err := vfs.KeepOwner(filepath.Join(d.root, tempDir), d.root); err != nil {
			return refused(err)
		}
	}
	if made == nil {
		d.marked = true
		return d.syncDir(d.root)
	}
	names, err := vfs.OS{}.List(filepath.Join(d.root, tempDir))
	if d.marked = err == nil; len(names) == 0 {
		return nil
	}
	// Both times are of the clock that the files have.
	f, now, err := d.temp()
	if err != nil {
		return nil
	}
	_ = f.Close()           // empty
	_ = os.Remove(f.Name()) // or the next one does
	for _, name := range names {
		name = filepath.Join(d.root, tempDir, name)
		if info, err := os.Lstat(name); err == nil && now.Sub(info.ModTime()) > tempAge {
			_ = os.Remove(name) // or the next one does
		}
	}
	return nil
}

// inPlace returns an error if another directory has the path: nothing is found there.
func (d *dir) inPlace() error {
	if !d.marked {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(d.root, tempDir)); err != nil {
		return refused(err)
	}
	return nil
}

// temp makes a temporary file, and says when, by the clock of the file system.
func (d *dir) temp() (*os.File, time.Time, error) {
	f, err := os.OpenFile(filepath.Join(d.root, tempDir, rand.Text()), os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, time.Time{}, refused(err)
	}
	info, err := f.Stat()
	if err == nil {
		err = vfs.KeepFileOwner(f, d.root)
	}
	if err != nil {
		_ = f.Close()           // nothing was written
		_ = os.Remove(f.Name()) // or an open does
		return nil, time.Time{}, refused(err)
	}
	return f, info.ModTime(), nil
}

// mkdirs makes a directory below the root, and those above it.
func (d *dir) mkdirs(at string) error {
	err := d.mkdir(at)
	if errors.Is(err, fs.ErrNotExist) && at != d.root {
		if err = d.mkdirs(filepath.Dir(at)); err == nil {
			err = d.mkdir(at)
		}
	}
	return err
}

// mkdir makes a directory, unless it is there. Its owner is that of the root: whoever made the one above may not have
// given that away yet.
func (d *dir) mkdir(at string) error {
	err := os.Mkdir(at, dirMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = vfs.KeepOwner(at, d.root)
	}
	return err
}

// first is the file of the first version of an object.
func (d *dir) first(key string) string {
	return filepath.Join(d.root, filepath.FromSlash(key)+firstSuffix)
}

// later is the directory of the later versions.
func (d *dir) later(key string) string {
	return filepath.Join(d.root, filepath.FromSlash(key)+laterSuffix)
}

// file is the file of a version.
func (d *dir) file(key string, n uint64) string {
	if n == 1 {
		return d.first(key)
	}
	return filepath.Join(d.later(key), versionName(n))
}

// numbers are those of the later versions that are there, in order.
func (d *dir) numbers(key string) ([]uint64, error) {
	names, err := vfs.OS{}.List(d.later(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var numbers []uint64
	for _, name := range names {
		if n, ok := parseVersion(name); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// newest is an object as it is found.
type newest struct {
	top uint64 // the highest number; 0: there is no object
	n   uint64 // the highest valid one; 0: there is none
	header
	f *os.File // of version n, nil if there is none
}

func (v *newest) tag() ETag { return v.header.tag(v.n) }

func (v *newest) close() {
	if v.f != nil {
		_ = v.f.Close() // read only
	}
}

// find opens the newest version of an object.
func (d *dir) find(key string) (v newest, err error) {
	for range 100 {
		numbers, err := d.numbers(key)
		if err != nil {
			return newest{}, refused(err)
		}
		v, gone, err := d.highest(key, append([]uint64{1}, numbers...))
		if err == nil && v.top == 0 && !gone {
			err = d.inPlace()
		}
		if !gone || err != nil {
			return v, err
		}
	}
	return newest{}, fmt.Errorf("object %q is overwritten faster than it can be read", key)
}

// highest opens the highest valid version of numbers. It is gone if a number of a later version is.
func (d *dir) highest(key string, numbers []uint64) (v newest, gone bool, err error) {
	for _, n := range slices.Backward(numbers) {
		f, err := openVersion(d.file(key, n))
		switch {
		case errors.Is(err, fs.ErrNotExist) && n == 1:
			return v, false, nil // unless others are damaged there is no object
		case errors.Is(err, fs.ErrNotExist):
			return newest{}, true, nil
		case err != nil:
			return newest{}, false, refused(err)
		}
		v.top = max(v.top, n)
		h, err := readHeader(f)
		if err == nil {
			v.n, v.header, v.f = n, h, f
			return v, false, nil
		}
		_ = f.Close() // read only
		if !errors.Is(err, fault.ErrCorrupt) {
			return newest{}, false, err
		}
	}
	return v, false, nil
}

// Put implements Bucket.
func (d *dir) Put(ctx context.Context, key string, body *io.SectionReader, cond Condition) (ETag, error) {
	if err := CheckPut(key, cond); err != nil {
		return "", err
	}
	src := &source{r: body}
	defer src.end()
	return within(ctx, d, func() (ETag, error) {
		tag, err := d.put(ctx, key, src, cond)
		if errors.Is(err, ErrCondition) {
			// Whoever put what stands there may not have synced it, and the caller may
			// read back what it put itself and had no answer for.
			serr := d.syncNames(d.later(key))
			if errors.Is(serr, fs.ErrNotExist) {
				serr = d.syncNames(filepath.Dir(d.first(key)))
			}
			if serr != nil && !errors.Is(serr, fs.ErrNotExist) {
				return "", fmt.Errorf("object %q may not be durable: %w", key, serr)
			}
		}
		return tag, err
	}, nil)
}

// syncNames makes the names in a directory durable, and those of the directories above it: another
// process may have made them, and not have synced yet.
func (d *dir) syncNames(at string) error {
	for ; ; at = filepath.Dir(at) {
		if err := d.syncDir(at); err != nil || at == d.root {
			return err
		}
	}
}

// put is Put, as long as the system takes.
func (d *dir) put(ctx context.Context, key string, src *source, cond Condition) (ETag, error) {
	if v, err := d.holds(key, cond); err != nil { // before anything is written
		return "", err
	} else if v.top == 0 {
		if err := d.mkdirs(filepath.Dir(d.first(key))); err != nil {
			return "", refused(err)
		}
	}
	temp, h, err := d.write(src)
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(temp) }() // what stays is removed by an open
	for range 100 {
		v, err := d.holds(key, cond)
		if err != nil {
			return "", err
		}
		if err := ctx.Err(); err != nil {
			return "", err // nobody waits, and the body may have changed
		}
		switch err := d.link(temp, key, v.top+1); {
		case err == nil:
			if err := d.settle(key, v, cond); err != nil {
				return "", err
			}
			d.collect(key, v.top+1)
			return h.tag(v.top + 1), nil
		case !errors.Is(err, fs.ErrExist):
			return "", err
		case cond != (Condition{}):
			return "", fmt.Errorf("%w: object %q", ErrCondition, key)
		}
	}
	return "", fmt.Errorf("object %q is overwritten faster than it can be", key)
}

// holds looks at an object, and returns ErrCondition if the condition does not hold.
func (d *dir) holds(key string, cond Condition) (newest, error) {
	v, err := d.find(key)
	if err != nil {
		return v, err
	}
	v.close()
	if cond.IfAbsent && v.top > 0 || cond.IfMatch != "" && (v.n == 0 || v.tag() != cond.IfMatch) {
		return v, fmt.Errorf("%w: object %q", ErrCondition, key)
	}
	return v, nil
}

// write writes a body into a temporary file.
func (d *dir) write(src *source) (name string, h header, err error) {
	f, _, err := d.temp()
	if err != nil {
		return "", h, err
	}
	if h, err = writeObject(f, src); err == nil {
		err = d.syncFile(f)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(f.Name()) // what stays is removed by an open
		return "", h, refused(err)
	}
	return f.Name(), h, nil
}

// link gives a temporary file the name of a version: fs.ErrExist if it is taken.
func (d *dir) link(temp, key string, n uint64) error {
	name := d.file(key, n)
	if n == 2 {
		// Only the second version makes the directory. A later one that does not find it
		// comes too late.
		if err := d.mkdir(d.later(key)); err != nil {
			return refused(err)
		}
	}
	err := os.Link(temp, name)
	if errors.Is(err, fs.ErrExist) {
		// A file server may do what it was asked for, lose the answer, and be asked again.
		if ours, err := os.Lstat(temp); err == nil {
			if there, err := os.Lstat(name); err == nil && os.SameFile(ours, there) {
				return nil
			}
		}
		return err
	}
	if errors.Is(err, syscall.EPERM) || errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w: the file system of %s has no hard links, or forbids them (FAT, and some file servers); use another one: %w", ErrRefused, d.root, err)
	}
	if err != nil && n > 2 && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("object %q was deleted meanwhile: %w", key, err)
	}
	if err != nil {
		return refused(err)
	}
	return nil
}

// settle makes the version behind v durable, unless its number was used and removed before.
func (d *dir) settle(key string, v newest, cond Condition) error {
	if cond != (Condition{}) {
		if err := d.lookBack(key, v); err != nil {
			return err
		}
	}
	if err := d.syncNames(filepath.Dir(d.file(key, v.top+1))); err != nil {
		return fmt.Errorf("object %q is written, and may not be durable: %w", key, err)
	}
	return nil
}

// lookBack returns an error unless what a Put replaced is still there. Since versions are removed
// in order, that shows that the number of the Put was never used before. The first version is not
// removed, and shows nothing: there the number must be the newest. The Put had its effect, so that no
// error is ErrRefused.
func (d *dir) lookBack(key string, v newest) error {
	if v.n <= 1 {
		now, err := d.find(key)
		if now.close(); err != nil {
			return fmt.Errorf("look for what replaced object %q: %v", key, err)
		}
		if now.top > v.top+1 {
			return fmt.Errorf("object %q was overwritten or deleted meanwhile", key)
		}
	}
	if v.n == 0 {
		return nil
	}
	f, err := openVersion(d.file(key, v.n))
	if err == nil {
		h, herr := readHeader(f)
		_ = f.Close() // read only
		if herr == nil && h == v.header {
			return nil
		}
		err = herr
	}
	now, ferr := d.find(key)
	if now.close(); ferr == nil && now.top == v.top+1 {
		_ = os.Remove(d.file(key, v.top+1)) // the object was deleted, and stays so
	}
	return fmt.Errorf("object %q was deleted or overwritten many times meanwhile: %v", key, errors.Join(err, ferr))
}

// collect removes old versions from time to time. What fails is tried again by a later Put.
func (d *dir) collect(key string, n uint64) {
	if n%kept != 0 {
		return
	}
	numbers, _ := d.numbers(key)
	for _, old := range numbers {
		if old+kept >= n || os.Remove(d.file(key, old)) != nil {
			return
		}
	}
}

// Get implements Bucket.
func (d *dir) Get(ctx context.Context, key string, o GetOptions) (*Object, error) {
	if err := CheckGet(key, o); err != nil {
		return nil, err
	}
	return within(ctx, d, func() (*Object, error) {
		v, err := d.find(key)
		switch {
		case err != nil:
			return nil, err
		case v.top == 0:
			return nil, fmt.Errorf("%w: %q", ErrNotFound, key)
		case v.n == 0:
			return nil, &fault.CorruptionError{File: d.file(key, v.top), Kind: "header of an object", Offset: 0}
		case o.IfNoneMatch != "" && v.tag() == o.IfNoneMatch:
			v.close()
			return nil, fmt.Errorf("%w: %q", ErrNotModified, key)
		}
		from := min(o.Offset, v.size)
		n := v.size - from
		if o.Length > 0 {
			n = min(n, o.Length)
		}
		return &Object{Body: &dirBody{ctx: ctx, d: d, f: v.f, off: headerSize + from, left: n}, Size: v.size, ETag: v.tag()}, nil
	}, func(o *Object) { _ = o.Body.Close() })
}

// Delete implements Bucket.
func (d *dir) Delete(ctx context.Context, keys ...string) error {
	for _, key := range keys {
		if err := CheckKey(key); err != nil {
			return err
		}
	}
	_, err := within(ctx, d, func() (any, error) {
		dirs := map[string]bool{}
		for _, key := range keys {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := d.remove(key); err != nil {
				return nil, refused(err)
			}
			dirs[filepath.Dir(d.first(key))] = true
		}
		for at := range dirs {
			if err := d.syncDir(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
		}
		return nil, nil
	}, nil)
	return err
}

// remove removes the versions of an object, the newest last, and only when the others are gone for
// good: an older one must not become it.
func (d *dir) remove(key string) error {
	numbers, err := d.numbers(key)
	if err != nil {
		return err
	}
	numbers = append([]uint64{1}, numbers...)
	for i, n := range numbers {
		if i > 0 && i == len(numbers)-1 {
			for _, at := range []string{d.later(key), filepath.Dir(d.first(key))} {
				if err := d.syncDir(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
		if err := os.Remove(d.file(key, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(numbers) > 1 {
		if err := d.syncDir(d.later(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = os.Remove(d.later(key)) // unless a Put came in between
	}
	return nil
}

// List implements Bucket.
func (d *dir) List(ctx context.Context, prefix, after string) ([]Entry, error) {
	return within(ctx, d, func() ([]Entry, error) {
		l := &listing{ctx: ctx, d: d, prefix: prefix, after: after}
		if err := l.walk(""); err != nil {
			return nil, refused(err)
		}
		if len(l.entries) == 0 {
			return nil, d.inPlace()
		}
		return l.entries, nil
	}, nil)
}

// maxEntries is how many entries a List returns.
const maxEntries = 1000

// listing is a List under way.
type listing struct {
	ctx           context.Context
	d             *dir
	prefix, after string
	entries       []Entry
}

// walk lists what lies in the directory of at, which is empty or ends with a slash. A directory
// sorts as its name with the slash does, between the objects of its parent.
func (l *listing) walk(at string) error {
	names, err := vfs.OS{}.List(filepath.Join(l.d.root, filepath.FromSlash(at)))
	if at != "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		return nil // it is gone, or none of ours
	}
	if err != nil {
		return err
	}
	var found []string
	for _, name := range names {
		if name, ok := parseName(name); ok && l.wants(at+name) {
			found = append(found, at+name)
		}
	}
	slices.Sort(found)
	for _, key := range slices.Compact(found) { // an object may have both of its names
		if len(l.entries) == maxEntries {
			return nil
		}
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if strings.HasSuffix(key, "/") {
			err = l.walk(key)
		} else {
			err = l.add(key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wants reports whether a key is listed, or whether one below it can be if it ends with a slash.
func (l *listing) wants(key string) bool {
	if strings.HasSuffix(key, "/") {
		return (strings.HasPrefix(key, l.prefix) || strings.HasPrefix(l.prefix, key)) && (key > l.after || strings.HasPrefix(l.after, key))
	}
	return strings.HasPrefix(key, l.prefix) && key > l.after && len(key) <= maxKey
}

// add lists an object, a damaged one too.
func (l *listing) add(key string) error {
	v, err := l.d.find(key)
	if err != nil || v.top == 0 {
		return err
	}
	v.close()
	l.entries = append(l.entries, Entry{Key: key, Size: v.size, ETag: v.tag()})
	return nil
}

// refused adds what to do to an error that will not go by itself.
func refused(err error) error {
	var advice string
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "the disk or its quota is full; make room"
	case errors.Is(err, syscall.EROFS):
		advice = "the file system is mounted read-only; mount it for writing"
	case errors.Is(err, fs.ErrPermission):
		advice = "this user may not do that; give it rights to read, write and search the directory and all below it"
	case errors.Is(err, syscall.ENOTDIR):
		advice = "that is no directory; name one"
	case errors.Is(err, fs.ErrNotExist):
		advice = "nothing is there; mount the disk, or make the directory"
	case errors.Is(err, syscall.EXDEV):
		advice = "a directory below the bucket is on another file system; the bucket must be on one"
	default:
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrRefused, advice, err)
}
