package transfer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/store"
)

// Write writes what o selects of src as NDJSON, and the items of o.Items behind it. It verifies
// nothing; WriteFile does.
func Write(ctx context.Context, src Source, w io.Writer, o Options) (Report, error) {
	x := &writer{w: bufio.NewWriterSize(w, 1<<20), o: o}
	err := x.write(ctx, src)
	return x.rep, err
}

// WriteFile is Write to a file, which must not exist unless o.Replace is set. It writes path.part,
// makes it durable, reads it back, and only then renames it to path: a file at path is whole.
// path.part stays if the call is killed, or if it reads back something other than it wrote. The
// next call writes it from the start.
func WriteFile(ctx context.Context, src Source, path string, o Options) (Report, error) {
	if _, err := os.Lstat(path); !o.Replace && !errors.Is(err, fs.ErrNotExist) {
		return Report{}, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return Report{}, err
	}
	x := &writer{w: bufio.NewWriterSize(f, 1<<20), o: o}
	err = x.write(ctx, src)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return x.rep, errors.Join(err, os.Remove(part))
	}
	if err := x.verify(ctx, part); err != nil {
		return x.rep, err
	}
	if err := os.Rename(part, path); err != nil {
		return x.rep, err
	}
	return x.rep, vfs.OS{}.SyncDir(filepath.Dir(path))
}

// writer writes one file.
type writer struct {
	w     *bufio.Writer
	o     Options
	rep   Report
	track tracker
	sums  []check

	itemSums [][sha256.Size]byte
}

func (x *writer) write(ctx context.Context, src Source) error {
	if err := x.line(headerLine{kindHeader, format}); err != nil {
		return err
	}
	if err := each(ctx, src, &x.o, &x.rep, x.tuple); err != nil {
		return err
	}
	if x.o.Items != nil {
		if err := x.items(ctx); err != nil {
			return err
		}
	}
	if err := x.line(endLine{kindEnd, x.rep.Checkpoints, len(x.itemSums)}); err != nil {
		return err
	}
	return x.w.Flush()
}

func (x *writer) line(v any) error {
	data, err := plainJSON(v)
	if err != nil {
		return err
	}
	if len(data) > MaxLine {
		return fmt.Errorf("%w: %d bytes, the limit is %d", errLongLine, len(data), MaxLine)
	}
	_, err = x.w.Write(append(data, '\n'))
	return err
}

func (x *writer) tuple(_ context.Context, tup *Tuple) error {
	x.track.begin(tup)
	begun := len(x.track.have) == 0
	rejected := func(err error) error {
		return &Rejected{Config: tup.Config, What: "checkpoint", Name: tup.Config.CheckpointID, Tuple: tup, Reason: err}
	}
	have, err := x.track.resolve(tup)
	if err != nil {
		return rejected(err)
	}
	s, err := tup.digest(have)
	if err != nil {
		return rejected(err)
	}
	small := x.track.shrink(tup, have)
	l, err := newCheckpointLine(small)
	if err != nil {
		return rejected(err)
	}
	if err := x.line(l); errors.Is(err, errLongLine) {
		return rejected(err)
	} else if err != nil {
		return err
	}
	x.track.done(tup, have)
	x.sums = append(x.sums, check{tup.Config, s})
	x.rep.Checkpoints++
	x.rep.Copied++
	x.rep.Writes += len(tup.Writes)
	if x.rep.Bytes += small.bytes(); begun {
		x.rep.Threads++
	}
	return nil
}

// items writes the items.
func (x *writer) items(ctx context.Context) error {
	for it, err := range x.o.Items.Items(ctx, x.o.Below) {
		var sum [sha256.Size]byte
		if err == nil {
			sum, err = x.item(it)
		}
		var r *Rejected
		switch {
		case errors.As(err, &r):
			if err := x.o.reject(&x.rep.Rejected, r); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		x.rep.Items++
		if x.itemSums = append(x.itemSums, sum); x.o.Progress != nil {
			x.o.Progress("items", len(x.itemSums))
		}
	}
	return ctx.Err()
}

// item writes an item, and returns the sum of its line.
func (x *writer) item(it *store.Item) (sum [sha256.Size]byte, err error) {
	l, err := newItemLine(it)
	if err != nil {
		return sum, rejectedItem(it, err)
	}
	if err := x.line(l); errors.Is(err, errLongLine) {
		return sum, rejectedItem(it, err)
	} else if err != nil {
		return sum, err
	}
	return sumOfItem(l)
}

func sumOfItem(l *itemLine) (sum [sha256.Size]byte, err error) {
	data, err := plainJSON(l)
	return sha256.Sum256(data), err
}

// verify reads the file back.
func (x *writer) verify(ctx context.Context, path string) error {
	file := FromNDJSON(func() (io.ReadCloser, error) { return os.Open(path) })
	if err := x.verifyItems(ctx, file, path); err != nil {
		return err
	}
	var t tracker
	for tup, err := range file.Tuples(ctx, Selection{}) {
		if err != nil {
			return fmt.Errorf("%s: %w: %w", path, ErrNotEqual, err)
		}
		t.begin(tup)
		have, err := t.resolve(tup)
		var got sum
		if err == nil {
			got, err = tup.digest(have)
		}
		if at := x.rep.Verified; err != nil || at >= len(x.sums) || got != x.sums[at].sum {
			return &NotEqualError{tup.Config, err}
		}
		t.done(tup, have)
		if x.rep.Verified++; x.o.Progress != nil {
			x.o.Progress("verify", x.rep.Verified)
		}
	}
	if x.rep.Verified != len(x.sums) {
		return fmt.Errorf("%s: %w: it has %d checkpoints of %d", path, ErrNotEqual, x.rep.Verified, len(x.sums))
	}
	return nil
}

// verifyItems reads the items back.
func (x *writer) verifyItems(ctx context.Context, file *NDJSON, path string) error {
	n := 0
	for it, err := range file.Items(ctx, nil) {
		var l *itemLine
		var got [sha256.Size]byte
		if err == nil {
			l, err = newItemLine(it)
		}
		if err == nil {
			got, err = sumOfItem(l)
		}
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w: %w", path, ErrNotEqual, err)
		case n >= len(x.itemSums) || got != x.itemSums[n]:
			return fmt.Errorf("%s: key %q in namespace %q: %w", path, it.Key, []string(it.Namespace), ErrNotEqual)
		}
		n++
	}
	if n != len(x.itemSums) {
		return fmt.Errorf("%s: %w: it has %d items of %d", path, ErrNotEqual, n, len(x.itemSums))
	}
	return nil
}
