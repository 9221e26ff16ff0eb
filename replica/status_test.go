package replica

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// lineage makes two epochs with chunks of one to three batches, points at the border of a chunk and within
// one, and a floor within a chunk. It returns the files that points have.
func lineage(t *testing.T, s *buckettest.Sim) (m *machine, l *Leader, files []File) {
	t.Helper()
	m = newMachine(t, s, "a")
	l = m.begin(Sync)
	o := m.o.withDefaults()
	point := func(at base.LSN) {
		t.Helper()
		name := fmt.Sprint("f", at)
		if _, err := o.create(t.Context(), l.FileKey(name), []byte(name)); err != nil {
			t.Fatal(err)
		}
		files = append(files, File{Name: name, Key: l.FileKey(name), Size: int64(len(name))})
		if _, err := l.CreatePoint(t.Context(), at, files[max(0, len(files)-2):]); err != nil {
			t.Fatal(err)
		}
	}
	m.commit(l, "one", "two", "three")
	m.ship(l, "four")
	point(4) // within a chunk
	point(8)
	if err := l.Retain(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	m = m.again()
	l = m.force(m.follow())
	m.ship(l, "five")
	m.ship(l, "six", "seven")
	point(12)
	return m, l, files
}

// TestVerify: a whole lineage, with a leader of another epoch, that of a store with keys for its chain, and
// what people see of it.
func TestVerify(t *testing.T) {
	s := buckettest.NewSim(nil)
	m, l, _ := lineage(t, s)
	v, err := Verify(t.Context(), Options{Bucket: m.o.Bucket, Store: testStore})
	if err != nil || len(v.Damage) > 0 {
		t.Fatalf("%+v; %v", v, err)
	}
	if v.From.LSN != 4 || v.To.LSN != 14 || v.Records != 10 || v.Chunks != 4 || v.Points != 3 || v.Files != 3 || v.To.Chain != m.d.chains[14] {
		t.Errorf("%+v", v)
	}
	st, err := ReadStatus(t.Context(), Options{Bucket: m.o.Bucket})
	if err != nil || st.Store != testStore || st.Epoch != 2 || st.Dir != "a" || st.Mode != Sync || st.Released || st.Floor.LSN != 4 || len(st.Points) != 3 || st.TTL != m.o.TTL {
		t.Errorf("%+v; %v", st, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err = ReadStatus(t.Context(), Options{Bucket: m.o.Bucket}); err != nil || !st.Released || st.End.LSN != 14 {
		t.Errorf("%+v; %v", st, err)
	}
	_, err = ReadStatus(t.Context(), Options{Bucket: buckettest.NewSim(nil).Client("r")})
	wants(t, "the status of an empty bucket", err, ErrNoLineage)
	_, err = Verify(t.Context(), Options{Bucket: m.o.Bucket, Store: testStore + 1})
	wants(t, "as another store", err, ErrOtherStore)
}

// TestVerifyFindsDamage takes each object of a lineage away, and damages it: Verify says so for all that a restore
// would read, but for what is within files.
func TestVerifyFindsDamage(t *testing.T) {
	whole := buckettest.NewSim(nil)
	m, _, _ := lineage(t, whole)
	var keys []string
	o := m.o.withDefaults()
	if err := o.list(t.Context(), "", func(e bucket.Entry) error { keys = append(keys, e.Key); return nil }); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		for _, what := range []string{"is gone", "is shorter", "has another byte"} {
			t.Run(key+" "+what, func(t *testing.T) {
				s := buckettest.NewSim(nil)
				m, _, _ := lineage(t, s)
				o := m.o.withDefaults()
				b, _, err := o.get(t.Context(), key, maxChunk, "")
				if err != nil {
					t.Fatal(err)
				}
				switch what {
				case "is gone":
					err = o.remove(t.Context(), key)
				case "is shorter":
					_, err = o.put(t.Context(), key, b[:len(b)-1], bucket.Condition{})
				default:
					b = slices.Clone(b)
					b[len(b)/2] ^= 1
					_, err = o.put(t.Context(), key, b, bucket.Condition{})
				}
				if err != nil {
					t.Fatal(err)
				}
				v, err := Verify(t.Context(), Options{Bucket: m.o.Bucket, Store: testStore})
				switch {
				case key[:4] == "file" && what == "has another byte": // for the store, when it is restored
					if err != nil || len(v.Damage) > 0 {
						t.Errorf("%v; %v", err, v.Damage)
					}
				case key == headKey:
					if !errors.Is(err, ErrNoLineage) && !errors.Is(err, fault.ErrCorrupt) {
						t.Errorf("HEAD %s: %v", what, err)
					}
				case err == nil && len(v.Damage) == 0:
					t.Errorf("nothing was found: %+v", v)
				case err != nil && !errors.Is(err, fault.ErrCorrupt) || err == nil && !errors.Is(errors.Join(v.Damage...), fault.ErrCorrupt):
					t.Errorf("%v; %v", err, v.Damage)
				}
			})
		}
	}
}

// TestVerifyComparesPoints: a point says a chain that its records do not have.
func TestVerifyComparesPoints(t *testing.T) {
	s := buckettest.NewSim(nil)
	m, _, _ := lineage(t, s)
	o := m.o.withDefaults()
	for _, ref := range m.head().Points[1:] {
		p, err := ReadPoint(t.Context(), o, ref)
		if err != nil {
			t.Fatal(err)
		}
		p.Chain[3]++
		body, err := encodeText(p)
		if err == nil {
			_, err = o.put(t.Context(), ref.key(), body, bucket.Condition{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := Verify(t.Context(), Options{Bucket: m.o.Bucket, Store: testStore})
	if err != nil || len(v.Damage) != 2 || v.Points != 1 {
		t.Errorf("%+v; %v", v, err)
	}
}
