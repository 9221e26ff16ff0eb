package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// PointState is the name of the file of a point that has the manifest, as snapshot.EncodeManifest made it.
const PointState = "MANIFEST"

// makePoints makes a point now, if there is none, and then whenever the last is PointEvery old and there is something for
// another: a flush, or records, however few. Without points chunks would stay for ever. So it counts from the last point of whoever
// made it: processes that live for less than PointEvery, one after the other, make points as well. It returns when the leader stops.
func (r *replication) makePoints() {
	for seeded := false; r.points.Err() == nil && !seeded; {
		err := r.seed(r.points)
		seeded = err == nil
		r.note(err)
	}
	look := time.NewTicker(max(r.o.Interval, time.Millisecond))
	defer look.Stop()
	failed := time.Duration(math.MinInt64 / 2) // when the last one did
	for flushed := false; ; {
		if r.pointDue(flushed) && r.clock()-failed >= pointAgain {
			err := r.flushForPoint()
			if err == nil {
				err = r.makePoint(r.points)
			}
			if r.note(err); err == nil {
				flushed = false
			} else {
				failed = r.clock()
			}
		}
		select {
		case <-r.nudge:
			flushed, failed = true, math.MinInt64/2
		case <-look.C:
		case <-r.points.Done():
			return
		}
	}
}

// pointDue reports whether the newest point is old enough for another, and there is something for it: a flush was made, or there are
// records behind it.
func (r *replication) pointDue(flushed bool) bool {
	r.making.Lock()
	defer r.making.Unlock()
	return r.clock()-r.lastPoint >= r.o.PointEvery && (flushed || r.e.log.LastLSN() > r.pointLSN)
}

// pointLog is how much log a point stores without a flush before it.
const pointLog = 1 << 20

// flushForPoint flushes what the next point would store as log, if it is much: segments that are in one point are not stored again for
// the next, and the log is, each time as long as it is then.
func (r *replication) flushForPoint() error {
	if r.e.Opts.ManualWork || r.e.throttle.loggedBytes() <= pointLog {
		return nil
	}
	err := r.e.flusher.flush(r.points)
	select {
	case <-r.nudge: // the point has it
	default:
	}
	if err != nil {
		return fmt.Errorf("make a point: %w", err)
	}
	return nil
}

// pointAgain is after which time a point that failed is tried again, if no flush comes before.
const pointAgain = time.Minute

// seed makes the first point, unless there is one.
func (r *replication) seed(ctx context.Context) error {
	points, err := replica.Points(ctx, r.ro)
	switch n := len(points); {
	case err == nil && n == 0:
		err = r.makePoint(ctx)
	case err == nil:
		newest := points[n-1]
		r.making.Lock()
		age := min(max(r.e.Now()-newest.Stamp, 0), r.o.PointEvery.Microseconds())
		r.pointLSN, r.lastPoint = newest.LSN, r.clock()-time.Duration(age)*time.Microsecond
		r.making.Unlock()
	}
	if err == nil {
		close(r.seeded)
	}
	return err
}

// makePoint makes a point of the store as it is now, and drops what no moment within Replica.Keep needs.
func (r *replication) makePoint(ctx context.Context) error {
	r.making.Lock()
	defer r.making.Unlock()
	if err := r.makePointLocked(ctx); err != nil {
		return fmt.Errorf("make a point: %w", err)
	}
	return r.retain(ctx)
}

// makePointLocked makes a point; making is held.
func (r *replication) makePointLocked(ctx context.Context) error {
	p, err := r.e.capturePoint(ctx)
	if err != nil {
		return err
	}
	defer r.e.Files.unpin(p.pin)
	// Nothing that the store drops is removed meanwhile, so the wait has a bound.
	wait, cancel := context.WithTimeout(ctx, r.pointWait)
	err = r.await(wait, p.lsn)
	cancel()
	if err != nil {
		return err
	}
	r.pointsTried++
	files, err := r.uploadPoint(ctx, p)
	if err != nil {
		return err
	}
	_, err = r.leader.CreatePoint(ctx, p.lsn, files)
	if err == nil || errors.Is(err, replica.ErrFileGone) {
		clear(r.stored)
	}
	if err != nil {
		return err
	}
	r.pointLSN, r.lastPoint = p.lsn, r.clock()
	r.e.Opts.Logger.Info("point", "lsn", p.lsn, "files", len(files))
	return nil
}

// retain drops all before the newest point that is older than Replica.Keep.
func (r *replication) retain(ctx context.Context) error {
	points, err := replica.Points(ctx, r.ro)
	if err != nil {
		return err
	}
	var floor base.LSN
	for _, p := range points {
		if p.Stamp <= r.e.Opts.Clock().Add(-r.o.Keep).UnixMicro() {
			floor = p.LSN
		}
	}
	if floor == 0 {
		return nil
	}
	return r.leader.Retain(ctx, floor)
}

// capturedPoint is a store at one moment. Its files stay until pin is given back.
type capturedPoint struct {
	lsn base.LSN
	st  snapshot.State
	end wal.Position // where the log ends
	pin uint64
}

// capturePoint captures the store as it is now: the manifest, and the log up to its last record. While it does
// so, no flush or compaction ends.
func (e *Engine) capturePoint(ctx context.Context) (*capturedPoint, error) {
	e.images.mu.Lock()
	defer e.images.mu.Unlock()
	p := &capturedPoint{end: e.log.Position()}
	p.lsn = p.end.NextLSN - 1
	if err := e.log.Sync(ctx); err != nil {
		return nil, err
	}
	p.st = e.manifest.State()
	p.st.Clean = nil
	logs := p.st.Logs
	for len(logs) > 0 && logs[len(logs)-1].BaseLSN > p.lsn &&
		logs[len(logs)-1].Num != p.end.File { // begun since; the end of the log may be an empty file that a crash left
		logs = logs[:len(logs)-1]
	}
	for len(logs) > 0 && (len(logs) > 1 && logs[1].BaseLSN <= p.st.FloorLSN || p.st.FloorLSN > p.lsn) { // the bucket did not have it when it was flushed
		logs = logs[1:]
	}
	p.st.Logs = logs
	p.pin = e.Files.pin()
	return p, nil
}

// uploadPoint stores the files of a point that the newest one does not have.
func (r *replication) uploadPoint(ctx context.Context, p *capturedPoint) ([]replica.File, error) {
	u := pointUpload{r: r, have: map[string]string{}}
	if err := u.known(ctx); err != nil {
		return nil, err
	}
	for _, s := range p.st.Segments {
		salt := func(h *FileHandle) uint64 { return h.Segment.Props().Salt }
		if err := u.immutable(ctx, s.Num, s.Size, salt); err != nil {
			return nil, err
		}
	}
	for _, im := range p.st.Images {
		salt := func(h *FileHandle) uint64 { return h.Image.Header().Salt }
		if err := u.immutable(ctx, im.Num, im.Size, salt); err != nil {
			return nil, err
		}
	}
	if err := u.logs(ctx, p); err != nil {
		return nil, err
	}
	state, err := snapshot.EncodeManifest(p.st, snapshot.Options{Rand: r.e.Opts.Rand, Keys: r.e.Keys})
	if err != nil {
		return nil, err
	}
	return u.files, u.put(ctx, PointState, fmt.Sprintf("manifest-%d", p.lsn), strings.NewReader(string(state)), int64(len(state)))
}

// pointUpload collects the files of a point.
type pointUpload struct {
	r     *replication
	have  map[string]string // keys of the newest point, by the name that says which bytes it is
	files []replica.File
}

// known learns which files the newest point has. The name in a key says which bytes they are: behind the number of the
// attempt that stored it stand number, salt and size.
func (u *pointUpload) known(ctx context.Context) error {
	refs, err := replica.Points(ctx, u.r.ro)
	if err != nil || len(refs) == 0 {
		return err
	}
	p, err := replica.ReadPoint(ctx, u.r.ro, refs[len(refs)-1])
	if errors.Is(err, replica.ErrPointGone) || errors.Is(err, fault.ErrCorrupt) {
		return nil // all is stored again
	}
	if err != nil {
		return err
	}
	for _, f := range p.Files {
		_, name, ok := strings.Cut(f.Key[strings.LastIndexByte(f.Key, '/')+1:], "-")
		if ok && f.Name != PointState {
			u.have[name] = f.Key
		}
	}
	return nil
}

// immutable adds a segment or an image.
func (u *pointUpload) immutable(ctx context.Context, num base.FileNum, size int64, salt func(*FileHandle) uint64) error {
	h, err := u.r.e.Files.Acquire(num)
	if err != nil {
		return err
	}
	defer u.r.e.Files.Release(h)
	return u.put(ctx, h.Kind.Name(num), fmt.Sprintf("%s-%016x-%d", num, salt(h), size), h.file, size)
}

// logs adds the files of the log, each as far as its records go.
func (u *pointUpload) logs(ctx context.Context, p *capturedPoint) error {
	e := u.r.e
	for i, l := range p.st.Logs {
		h, err := e.Files.Acquire(l.Num)
		if err != nil {
			return err
		}
		end := p.end.Offset
		if i+1 < len(p.st.Logs) {
			next, nerr := e.Files.Acquire(p.st.Logs[i+1].Num)
			if err = nerr; err == nil {
				var hdr wal.HeaderInfo
				if hdr, err = wal.Inspect(next.file, base.LogFile.Name(next.Num), nil); err == nil {
					end = hdr.Prev.Offset
				}
				e.Files.Release(next)
			}
		} else if p.end.File != l.Num {
			err = fmt.Errorf("the log ends in file %s, and the last one is %s", p.end.File, l.Num)
		}
		if err == nil {
			err = u.put(ctx, base.LogFile.Name(l.Num), fmt.Sprintf("%s-%016x-%d", l.Num, l.Salt, end), h.file, end)
		}
		e.Files.Release(h)
		if err != nil {
			return err
		}
	}
	return nil
}

// put adds a file, and stores it unless the newest point has it, or an earlier try of this one has stored it. id says
// which bytes it is.
func (u *pointUpload) put(ctx context.Context, name, id string, f io.ReaderAt, size int64) error {
	key, ok := u.have[id]
	if !ok {
		key, ok = u.r.stored[id]
	}
	if !ok {
		key = u.r.leader.FileKey(fmt.Sprintf("%d-%s", u.r.pointsTried, id))
		if err := u.r.store(ctx, key, f, size); err != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		if name != PointState { // each of these is another one
			u.r.stored[id] = key
		}
	}
	u.files = append(u.files, replica.File{Name: name, Key: key, Size: size})
	return nil
}

// store puts a file under a key that nobody else uses.
func (r *replication) store(ctx context.Context, key string, f io.ReaderAt, size int64) (err error) {
	for range 3 {
		call, cancel := context.WithTimeout(ctx, time.Minute+time.Duration(size>>20)*time.Second)
		_, err = r.o.Bucket.Put(call, key, io.NewSectionReader(f, 0, size), bucket.Condition{IfAbsent: true})
		cancel()
		if errors.Is(err, bucket.ErrCondition) { // an earlier try
			return nil
		}
		if err == nil || errors.Is(err, bucket.ErrRefused) || ctx.Err() != nil {
			return err
		}
	}
	return err
}
