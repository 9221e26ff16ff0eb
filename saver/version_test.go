package saver

import (
	"errors"
	"math"
	"slices"
	"testing"
)

// The wanted strings are what Python prints for f"{n:032}.{h:016}".
func TestNextVersionPrintsAsPython(t *testing.T) {
	for h, want := range map[float64]string{
		0.5:                    "00000000000000000000000000000007.00000000000000.5",
		0.3174924500871408:     "00000000000000000000000000000007.0.3174924500871408",
		1e-05:                  "00000000000000000000000000000007.000000000001e-05",
		0:                      "00000000000000000000000000000007.00000000000000.0",
		0.0001:                 "00000000000000000000000000000007.00000000000.0001",
		0.00012345:             "00000000000000000000000000000007.0000000.00012345",
		5e-324:                 "00000000000000000000000000000007.00000000005e-324",
		0.9999999999999999:     "00000000000000000000000000000007.0.9999999999999999",
		1.2345678901234566e-07: "00000000000000000000000000000007.1.2345678901234566e-07",
	} {
		got, err := NextVersion(IntVersion(6), func() float64 { return h })
		if err != nil || got.String() != want {
			t.Errorf("random %v: got %s, %v; want %s", h, got, err, want)
		}
	}
}

func TestNextVersionOfEveryKind(t *testing.T) {
	half := func() float64 { return 0.5 }
	for _, c := range []struct {
		current Version
		seq     int64 // 0: refused
	}{
		{Version{}, 1}, {IntVersion(0), 1}, {IntVersion(41), 42}, {FloatVersion(2.9), 3}, {StringVersion("9"), 10},
		{StringVersion("00000000000000000000000000000002.0.3174924500871408"), 3},
		{StringVersion("x.1"), 0}, {StringVersion(""), 0}, {StringVersion("99999999999999999999.5"), 0}, {IntVersion(math.MaxInt64), 0},
	} {
		got, err := NextVersion(c.current, half)
		if seq, _ := got.Seq(); seq != c.seq || (err == nil) != (c.seq > 0) || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("after %q: %s, %v; want sequence %d", c.current, got, err, c.seq)
		}
	}
}

func TestFloatVersionsPrintAsPython(t *testing.T) {
	for f, want := range map[float64]string{
		1: "1.0", 1.5: "1.5", -2: "-2.0", 1e16: "1e+16", 1.5e16: "1.5e+16", 123456789012345680: "1.2345678901234568e+17",
		9999999999999998: "9999999999999998.0", 1e-5: "1e-05", 1e-4: "0.0001", math.Copysign(0, -1): "-0.0", 1e300: "1e+300",
	} {
		if got := FloatVersion(f).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestVersionOrder(t *testing.T) {
	ascending := []Version{{}, StringVersion(""), StringVersion("1"), StringVersion("10"), StringVersion("2"), IntVersion(-1), IntVersion(2), IntVersion(10), FloatVersion(-0.5), FloatVersion(9)}
	for i, a := range ascending {
		for j, b := range ascending {
			if got, want := a.Compare(b), compareInts(i, j); got != want {
				t.Errorf("compare %q with %q: %d, want %d", a, b, got, want)
			}
		}
	}
	shuffled := []Version{ascending[4], ascending[0], ascending[7], ascending[2]}
	slices.SortFunc(shuffled, Version.Compare)
	if !slices.Equal(shuffled, []Version{ascending[0], ascending[2], ascending[4], ascending[7]}) {
		t.Errorf("sorted %v", shuffled)
	}
}

func compareInts(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestVersionOf(t *testing.T) {
	for _, c := range []struct {
		in   any
		want Version
	}{
		{nil, Version{}}, {"1.5", StringVersion("1.5")}, {7, IntVersion(7)}, {int32(7), IntVersion(7)}, {uint64(7), IntVersion(7)},
		{1.5, FloatVersion(1.5)}, {float32(1.5), FloatVersion(1.5)}, {IntVersion(3), IntVersion(3)},
	} {
		if got, err := VersionOf(c.in); err != nil || got != c.want {
			t.Errorf("%#v: %v, %v", c.in, got, err)
		}
		if again, err := VersionOf(c.want.Any()); err != nil || again != c.want {
			t.Errorf("%v through Any: %v, %v", c.want, again, err)
		}
	}
	for _, bad := range []any{true, []int{1}, math.NaN(), uint64(math.MaxUint64)} {
		if _, err := VersionOf(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%#v: %v", bad, err)
		}
	}
}
