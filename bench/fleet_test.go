package bench

import (
	"bytes"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

var (
	uuidForm    = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[456][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	versionForm = regexp.MustCompile(`^[0-9]{32}\.[0-9]\.[0-9e-]+$`)
)

func between(t *testing.T, what string, n, least, most int) {
	t.Helper()
	if n < least || n > most {
		t.Errorf("%s: %d, want %d to %d", what, n, least, most)
	}
}

// TestFleetShape: every step has the counts and lengths that Fleet promises.
func TestFleetShape(t *testing.T) {
	const threads, steps = 40, 30
	f := NewFleet(1, threads, steps)
	counts := map[int]int{} // by changed channels
	total, later := 0, 0
	for th := range threads {
		for n := range steps {
			s := f.Step(th, n)
			cp := s.Checkpoint
			between(t, "channels", len(cp.Versions), 9, 14)
			between(t, "nodes", len(cp.Seen), 4, 6)
			for _, seen := range cp.Seen {
				between(t, "channels seen", len(seen), 3, 8)
			}
			between(t, "metadata", len(s.Metadata), 6, 6)
			between(t, "writes", len(s.Writes), 1, 1)
			for _, v := range cp.Versions {
				if !versionForm.MatchString(v.String()) {
					t.Fatalf("version %q", v)
				}
			}
			if n == 0 {
				continue
			}
			counts[len(s.Changed)]++
			total, later = total+checkChange(t, f.Step(th, n-1), s), later+1
		}
	}
	between(t, "bytes changed a step", total/later, 1900, 2200)
	if got := slices.Sorted(maps.Keys(counts)); !slices.Equal(got, []int{2, 3, 4}) {
		t.Errorf("steps by channels changed: %v", counts)
	}
}

// checkChange checks what a step changes: one channel emptied, one a scalar, and maps. It
// returns how many bytes they are.
func checkChange(t *testing.T, before, s Step) int {
	t.Helper()
	scalars, emptied, size := 0, 0, 0
	for channel, version := range s.Changed {
		if s.Checkpoint.Versions[channel] != version || before.Checkpoint.Versions[channel] == version {
			t.Errorf("version of %s", channel)
		}
		v, ok := s.Checkpoint.Values[channel]
		if !ok {
			emptied++
			if _, was := before.Checkpoint.Values[channel]; !was {
				t.Errorf("%s was empty before", channel)
			}
			continue
		}
		native, err := v.Any()
		must(t, err)
		if _, isMap := native.(map[string]any); !isMap {
			scalars++
		}
		typed, err := v.Typed()
		must(t, err)
		size += len(typed.Data)
	}
	if scalars != 1 || emptied != 1 {
		t.Errorf("%d scalars and %d emptied of %d", scalars, emptied, len(s.Changed))
	}
	for channel, version := range before.Checkpoint.Versions {
		if _, isNew := s.Changed[channel]; !isNew && s.Checkpoint.Versions[channel] != version {
			t.Errorf("%s changed without saying so", channel)
		}
	}
	return size
}

// TestFleetIDs: ids are UUIDs, all different, and those of checkpoints grow with the steps.
func TestFleetIDs(t *testing.T) {
	const threads, steps = 50, 20
	f := NewFleet(1, threads, steps)
	ids := map[string]bool{}
	for th := range threads {
		ids[f.Thread(th)] = true
		for n := range steps {
			ids[f.ID(th, n)], ids[f.Task(th, n)] = true, true
			if f.ID(th, n) <= f.ID(th, n-1) || f.ID(th, n) != f.Step(th, n).Checkpoint.ID || f.ID(th, n)[14] != '6' {
				t.Fatalf("step %d is %s after %s", n, f.ID(th, n), f.ID(th, n-1))
			}
		}
	}
	for id := range ids {
		if !uuidForm.MatchString(id) {
			t.Fatalf("%q is no UUID", id)
		}
	}
	if want := threads * (1 + 2*steps); len(ids) != want {
		t.Errorf("%d different ids, want %d", len(ids), want)
	}
}

// TestFleetRepeats: equal seeds give equal data, also where a fleet is longer, and others
// give others.
func TestFleetRepeats(t *testing.T) {
	a, b, other := NewFleet(1, 20, 5), NewFleet(1, 20, 9), NewFleet(2, 20, 5)
	for th := range 20 {
		if a.Thread(th) != b.Thread(th) || a.Thread(th) == other.Thread(th) {
			t.Fatalf("thread %d is %s, %s and %s", th, a.Thread(th), b.Thread(th), other.Thread(th))
		}
		for n := range 5 {
			x, y, z := a.Step(th, n).Typed(), b.Step(th, n).Typed(), other.Step(th, n).Typed()
			if !reflect.DeepEqual(x, y) || a.Task(th, n) != b.Task(th, n) {
				t.Fatalf("step %d of thread %d differs", n, th)
			}
			if reflect.DeepEqual(x.Checkpoint.Values, z.Checkpoint.Values) {
				t.Fatalf("step %d of thread %d is that of another seed", n, th)
			}
		}
	}
}

// TestFleetDecodes: what a serialized step decodes to is serialized to the same bytes again,
// and a fleet may be asked by many at once.
func TestFleetDecodes(t *testing.T) {
	f := NewFleet(1, 4, 5)
	var wg sync.WaitGroup
	for th := range 4 {
		wg.Go(func() {
			for n := range 5 {
				s := f.Step(th, n).Typed()
				values := append(slices.Collect(maps.Values(s.Checkpoint.Values)), s.Writes[0].Value)
				for _, v := range values {
					if !sameAgain(v) {
						t.Errorf("a value of step %d of thread %d is another after decoding", n, th)
					}
				}
			}
		})
	}
	wg.Wait()
}

func sameAgain(v saver.Value) bool {
	first, err := v.Typed()
	if err != nil {
		return false
	}
	native, err := v.Any()
	if err != nil {
		return false
	}
	again, err := serde.Default().Encode(native)
	return err == nil && again.Kind == first.Kind && bytes.Equal(again.Data, first.Data)
}
