package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// TestFloorIsRaisedFirst: a leader crashes at its first deletion.
func TestFloorIsRaisedFirst(t *testing.T) {
	dead := false
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if dead = dead || c.Client == "a" && c.Op == buckettest.Delete; dead && c.Client == "a" {
			if c.Op == buckettest.Delete {
				return buckettest.AnswerLost
			}
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	a.point(l, 2)
	a.point(l, 4)
	wants(t, "retain", l.Retain(t.Context(), 4), buckettest.ErrUnknown)
	b := a.newer(s, "b")
	if floor := b.head().Floor.LSN; floor != 4 {
		t.Errorf("something was deleted, and HEAD has the floor %d", floor)
	}
}

// TestFloorDoesNotFall: the write that raises the floor lands late, and the next retention wants a
// lower one.
func TestFloorDoesNotFall(t *testing.T) {
	late := false
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if late && c.Op == buckettest.Put && c.Key == headKey {
			return buckettest.Late
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	a.point(l, 2)
	a.point(l, 4)
	late = true
	wants(t, "retain", l.Retain(t.Context(), 4), buckettest.ErrUnknown)
	late = false
	s.Deliver()
	if err := l.Retain(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if floor := a.head().Floor.LSN; floor != 4 {
		t.Errorf("the floor fell from 4 to %d", floor)
	}
}

// TestPins: retention keeps what a pin needs, until the pin ends or lapses.
func TestPins(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two", "three")
	a.point(l, 2)
	a.point(l, 6)
	r := a.newer(s, "r")
	keys, err := Points(t.Context(), r.o)
	if err != nil || len(keys) != 3 {
		t.Fatalf("points %v; %v", keys, err)
	}
	p, err := ReadPoint(t.Context(), r.o, keys[1])
	if err != nil || p.LSN != 2 {
		t.Fatalf("point %+v; %v", p, err)
	}
	pin, err := TakePin(t.Context(), r.o, p.Position)
	if err != nil {
		t.Fatal(err)
	}
	retain := func() {
		t.Helper()
		if err := l.Retain(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
	}
	retain()
	if exists(t, s, chunkKey(1, 0)) || !exists(t, s, chunkKey(1, 1)) || !exists(t, s, keys[1].key()) {
		t.Error("a pin at record 2 keeps chunk 0, or does not keep chunk 1 and its point")
	}
	r.d.add(a.d.records[:2]...)
	f, err := Follow(t.Context(), r.o, r.d, p.Position)
	if err != nil {
		t.Fatal(err)
	}
	if batches, err := f.Next(t.Context()); err != nil || r.d.apply(batches) != nil || r.d.End() != 4 {
		t.Fatalf("%d records; %v", r.d.End(), err)
	}
	late := a.newer(s, "late")
	_, err = TakePin(t.Context(), late.o, p.Position)
	wants(t, "a pin below the floor", err, ErrPointGone)
	if pins, err := s.List(t.Context(), pinPrefix, ""); err != nil || len(pins) != 1 {
		t.Errorf("a pin that keeps nothing stays: %v; %v", pins, err)
	}
	a.c.pass(pinLapse - time.Second)
	retain()
	if err := pin.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.c.pass(pinLapse - time.Second)
	retain()
	if !exists(t, s, chunkKey(1, 2)) {
		t.Fatal("a pin that was renewed lapsed")
	}
	a.c.pass(pinLapse)
	retain()
	wants(t, "beat", pin.Beat(t.Context()), ErrPointGone)
	_, err = f.Next(t.Context())
	wants(t, "next", err, ErrPointGone)
	_, err = ReadPoint(t.Context(), r.o, keys[1])
	wants(t, "read the point", err, ErrPointGone)
	if keys, err := Points(t.Context(), r.o); err != nil || len(keys) != 1 {
		t.Errorf("points %v; %v", keys, err)
	}
}

// TestLateRelease: the deletion of a pin comes late, when its reader has another one.
func TestLateRelease(t *testing.T) {
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Client == "r" && c.Op == buckettest.Delete {
			return buckettest.Late
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	r := a.newer(s, "r")
	for range 2 {
		pin, err := TakePin(t.Context(), r.o, Position{Epoch: 1})
		if err != nil {
			t.Fatal(err)
		}
		wants(t, "release", pin.Release(t.Context()), buckettest.ErrUnknown)
	}
	if _, err := TakePin(t.Context(), r.o, Position{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	s.Deliver()
	a.point(l, 4)
	if err := l.Retain(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if !exists(t, s, chunkKey(1, 0)) {
		t.Error("a late release of one pin removed another")
	}
}

// TestPinWithinChunk: a pin keeps its point and its files though the floor lies in the same chunk.
func TestPinWithinChunk(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one")
	a.commit(l, "two", "three")
	if err := a.upload(l); err != nil {
		t.Fatal(err)
	}
	o := a.o.withDefaults()
	key := l.FileKey("state-2")
	if _, err := o.create(t.Context(), key, []byte("state")); err != nil {
		t.Fatal(err)
	}
	p, err := l.CreatePoint(t.Context(), 2, []File{{Name: "state", Key: key, Size: 5}})
	if err != nil {
		t.Fatal(err)
	}
	a.point(l, 4)
	r := a.newer(s, "r")
	pin, err := TakePin(t.Context(), r.o, p.Position)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Retain(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if floor := a.head().Floor; floor.LSN != 4 || floor.Seq != p.Seq {
		t.Fatalf("the floor is %+v, and the point is %+v", floor, p.Position)
	}
	if !exists(t, s, p.ref().key()) || !exists(t, s, key) {
		t.Error("a pinned point, or its file, is deleted")
	}
	if err := pin.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Retain(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if exists(t, s, p.ref().key()) || exists(t, s, key) {
		t.Error("nobody needs the point any more, and it is there")
	}
}

// TestRetainedFiles: with a point go the files that no later point has.
func TestRetainedFiles(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	var files []File
	o := a.o.withDefaults()
	for _, name := range []string{"old", "both", "new"} {
		key := l.FileKey(name)
		if _, err := o.create(t.Context(), key, []byte(name)); err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Name: name, Key: key, Size: int64(len(name))})
	}
	for i, at := range []base.LSN{2, 4} {
		if _, err := l.CreatePoint(t.Context(), at, files[i:i+2]); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Retain(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, true} {
		if exists(t, s, files[i].Key) != want {
			t.Errorf("%s is there: %v", files[i].Name, !want)
		}
	}
	b := a.newer(s, "b")
	b.d.add(a.d.records...)
	next := b.force(b.follow())
	b.ship(next, "three")
	if _, err := next.CreatePoint(t.Context(), 6, files[:1]); err == nil || errors.Is(err, ErrFenced) {
		t.Error("a point has a file of an earlier leader that no point has: ", err)
	}
	if _, err := next.CreatePoint(t.Context(), 6, files[1:2]); err != nil {
		t.Error(err)
	}
}

// TestFilesOfStray: a point fails at HEAD, and retention deletes it with its files. A second try with the
// same files does not make a point without files.
func TestFilesOfStray(t *testing.T) {
	cut := false
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if cut && c.Key == headKey {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	o := a.o.withDefaults()
	file := File{Name: "state", Key: l.FileKey("state"), Size: 5}
	upload := func() {
		t.Helper()
		if _, err := o.create(t.Context(), file.Key, []byte("state")); err != nil {
			t.Fatal(err)
		}
	}
	failed := func() {
		t.Helper()
		l.o.Bucket = &afterPoint{l.o.Bucket, func() { cut = true }}
		_, err := l.CreatePoint(t.Context(), 2, []File{file})
		wants(t, "point", err, buckettest.ErrUnknown)
		l.o.Bucket, cut = a.o.Bucket, false
	}
	upload()
	failed()
	if _, err := l.CreatePoint(t.Context(), 2, []File{file}); err != nil { // the files are there
		t.Fatal(err)
	}
	file.Key = l.FileKey("state-2")
	upload()
	failed()
	if err := l.Retain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if exists(t, s, file.Key) {
		t.Fatal("the file is there")
	}
	upload() // and a late deletion may come
	_, err := l.CreatePoint(t.Context(), 4, []File{file})
	wants(t, "point", err, ErrFileGone)
}

// afterPoint calls a function once a point is put.
type afterPoint struct {
	bucket.Bucket
	fn func()
}

func (b *afterPoint) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	tag, err := b.Bucket.Put(ctx, key, body, cond)
	if strings.HasPrefix(key, pointPrefix) {
		b.fn()
	}
	return tag, err
}

// TestStrayFiles: a leader leaves files without a point. The next one deletes them, and those that a point
// has stay.
func TestStrayFiles(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one")
	o := a.o.withDefaults()
	var files []File
	for _, name := range []string{"kept", "stray"} {
		files = append(files, File{Name: name, Key: l.FileKey(name), Size: 1})
		if _, err := o.create(t.Context(), l.FileKey(name), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.CreatePoint(t.Context(), 2, files[:1]); err != nil {
		t.Fatal(err)
	}
	if err := l.Retain(t.Context(), 0); err != nil || !exists(t, s, files[1].Key) {
		t.Fatal("a leader deletes its own file, which a point may get: ", err)
	}
	b := a.newer(s, "b")
	next := b.force(b.follow())
	if err := next.Retain(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if !exists(t, s, files[0].Key) || exists(t, s, files[1].Key) {
		t.Error("the stray file stays, or the other is gone")
	}
}

// TestDamagedPoint: a point that cannot be read keeps all files and its error, but no chunk, and goes
// with the floor.
func TestDamagedPoint(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two", "three")
	o := a.o.withDefaults()
	var keys []string
	for _, at := range []base.LSN{2, 4, 6} {
		file := File{Name: "state", Key: l.FileKey(fmt.Sprint("state-", at)), Size: 1}
		if _, err := o.create(t.Context(), file.Key, []byte("x")); err != nil {
			t.Fatal(err)
		}
		p, err := l.CreatePoint(t.Context(), at, []File{file})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, file.Key)
		if at == 4 {
			if _, err := s.Put(t.Context(), p.ref().key(), bucket.NewBody([]byte("?")), bucket.Condition{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	points := a.head().Points
	if _, err := TakePin(t.Context(), a.newer(s, "r").o, Position{LSN: 4, Epoch: 1, Seq: 2}); err != nil {
		t.Fatal(err)
	}
	wants(t, "retain", l.Retain(t.Context(), 4), fault.ErrCorrupt)
	if floor := a.head().Floor.LSN; floor != 2 {
		t.Errorf("the floor is %d", floor)
	}
	wants(t, "retain", l.Retain(t.Context(), 6), fault.ErrCorrupt)
	if exists(t, s, points[1].key()) || exists(t, s, chunkKey(1, 1)) || !exists(t, s, chunkKey(1, 2)) || !exists(t, s, keys[0]) {
		t.Error("the damaged point keeps more than files, or not them")
	}
	a.c.pass(2 * pinLapse)
	if err := l.Retain(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	if exists(t, s, points[2].key()) || !exists(t, s, points[3].key()) || !exists(t, s, keys[2]) {
		t.Error("the damaged point stays below the floor, or the floor goes")
	}
}

// TestLatePoint: the point of a leader that was deposed meanwhile does not count, and does not stay.
func TestLatePoint(t *testing.T) {
	s := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.Client == "a" && c.Op == buckettest.Put && strings.HasPrefix(c.Key, pointPrefix+"00000000000000000004") {
			return buckettest.Late
		}
		return buckettest.Applied
	})
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	_, err := l.CreatePoint(t.Context(), 4, nil)
	wants(t, "point", err, buckettest.ErrUnknown)
	b := a.newer(s, "b")
	next := b.force(b.follow())
	b.point(next, 2)
	s.Deliver()
	points, err := Points(t.Context(), b.o)
	if err != nil || len(points) != 2 || points[1].LSN != 2 {
		t.Errorf("points %v; %v", points, err)
	}
	if !exists(t, s, PointRef{LSN: 4, Epoch: 1, Nth: 2}.key()) {
		t.Fatal("the point has not come")
	}
	if err := next.Retain(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if exists(t, s, PointRef{LSN: 4, Epoch: 1, Nth: 2}.key()) || !exists(t, s, points[1].key()) {
		t.Error("the late point stays, or another goes")
	}
}

// TestSleepingRetention: a leader sleeps between the floor and its deletions, while another leads and
// makes a point.
func TestSleepingRetention(t *testing.T) {
	s := buckettest.NewSim(nil)
	a := newMachine(t, s, "a")
	l := a.begin(Sync)
	a.ship(l, "one", "two")
	a.point(l, 2)
	to, err := l.newFloor(t.Context(), 2)
	if err != nil || to.LSN != 2 {
		t.Fatalf("a floor at %d; %v", to.LSN, err)
	}
	if err := l.raiseFloor(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	b := a.newer(s, "b")
	b.d.add(a.d.records...)
	next := b.force(b.follow())
	b.ship(next, "three")
	b.point(next, 6)
	if err := l.dropPoints(t.Context(), to.LSN, true); err != nil {
		t.Fatal(err)
	}
	if err := l.dropChunks(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	points, err := Points(t.Context(), b.o)
	if err != nil || len(points) != 2 {
		t.Errorf("points %v; %v", points, err)
	}
	for _, p := range points {
		if _, err := ReadPoint(t.Context(), b.o, p); err != nil {
			t.Error(err)
		}
	}
}
