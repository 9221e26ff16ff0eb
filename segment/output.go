package segment

import (
	"fmt"
	"io"

	"github.com/stele-go/stele/base/vfs"
)

const outputBuffer = 64 << 10

// output writes a file from front to back, syncEvery bytes at a time; see slice. It gathers
// small pieces in a buffer and writes large ones from the caller's memory. After the first
// error the state of the file is unknown, and all further calls return that error.
type output struct {
	f         vfs.File
	name      string
	written   int64 // bytes handed to the kernel
	buf       []byte
	syncEvery int64
	unsynced  int64 // of written, those since the last slice
	syncs     func() int64
	seen      int64 // what syncs said at the last slice
	limiter   func(n int)
	err       error
}

// off is where the next byte handed to write will stand.
func (o *output) off() int64 { return o.written + int64(len(o.buf)) }

// write appends parts to the file. It keeps no reference to them.
func (o *output) write(parts ...[]byte) error {
	for _, p := range parts {
		if len(o.buf)+len(p) > outputBuffer {
			o.flush()
		}
		if len(p) >= outputBuffer/2 {
			o.flush()
			o.device(p)
		} else {
			o.buf = append(o.buf, p...)
		}
		if o.err != nil {
			return o.err
		}
	}
	return nil
}

// flush hands the gathered bytes to the kernel.
func (o *output) flush() {
	o.device(o.buf)
	o.buf = o.buf[:0]
}

// device writes p in pieces that end where a sync is due.
func (o *output) device(p []byte) {
	for len(p) > 0 && o.err == nil {
		n := int(min(int64(len(p)), o.syncEvery-o.unsynced))
		if o.limiter != nil {
			o.limiter(n)
		}
		err := o.whole() // or the write would leave a hole where the file was cut
		m := 0
		if err == nil {
			m, err = o.f.WriteAt(p[:n], o.written)
		}
		if err == nil && m != n {
			err = io.ErrShortWrite
		}
		if err != nil {
			o.err = fmt.Errorf("write segment %s at offset %d: %w", o.name, o.written, err)
			return
		}
		p = p[n:]
		o.written += int64(n)
		if o.unsynced += int64(n); o.unsynced < o.syncEvery {
			continue
		}
		if err := o.slice(); err != nil {
			o.err = fmt.Errorf("sync segment %s: %w", o.name, err)
			return
		}
		o.unsynced = 0
	}
}

// slice keeps the unsynced bytes of this file below syncEvery, so that a commit whose sync
// comes in between waits for no more than these.
//
// Syncing this file allocates blocks, so it waits for the journal and flushes the device
// twice, and a commit that is synced meanwhile waits for all that. So while there are
// commits, slice only writes back and leaves it to their syncs to flush the device's
// cache.
func (o *output) slice() error {
	w, ok := o.f.(vfs.WriteBacker)
	if !ok || o.syncs == nil {
		return o.f.SyncData()
	}
	if err := w.WriteBack(o.written-o.unsynced, o.unsynced); err != nil {
		return err
	}
	before := o.seen
	o.seen = o.syncs()
	if o.seen != before {
		return nil
	}
	return o.f.SyncData()
}

// finish makes everything durable, the size included.
func (o *output) finish() error {
	if o.err == nil {
		o.flush()
	}
	if o.err != nil {
		return o.err
	}
	if err := o.f.Sync(); err != nil {
		o.err = fmt.Errorf("sync segment %s: %w", o.name, err)
	} else if err := o.whole(); err != nil {
		o.err = fmt.Errorf("segment %s: %w", o.name, err)
	}
	return o.err
}

// whole returns an error if the file is not as long as what was written. Somebody changed it in
// place, and what a segment replaces must not be removed for it.
func (o *output) whole() error {
	size, err := o.f.Size()
	if err == nil && size != o.written {
		err = fmt.Errorf("the file has %d bytes, %d were written: it was changed in place", size, o.written)
	}
	return err
}
