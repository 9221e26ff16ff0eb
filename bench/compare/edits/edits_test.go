package edits

import (
	"errors"
	"testing"
)

// TestSteleNotices holds stele to the right outcome of every edit.
func TestSteleNotices(t *testing.T) {
	got, err := outcomes(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(all) {
		t.Errorf("%d outcomes of %d edits", len(got), len(all))
	}
	for _, e := range all {
		t.Logf("%s: %s", e.name, got[e.name].Text)
		if o := got[e.name]; !o.Right {
			t.Errorf("%s: %s", e.name, o.Text)
		}
	}
}

// TestLossIsSeen gives classify logs that lie.
func TestLossIsSeen(t *testing.T) {
	want := makePayloads()
	torn, damage := edit{torn: true}, edit{}
	changed := append([][]byte{flip(append([]byte(nil), want[0]...), 3)}, want[1:]...)
	failed := errors.New("x: damaged")
	for _, tc := range []struct {
		name  string
		edit  edit
		got   [][]byte
		err   error
		text  string
		right bool
	}{
		{"all there", damage, want, nil, "all", true},
		{"one missing", damage, want[:99], nil, "99, 1 lost, no error", false},
		{"the torn one missing", torn, want[:99], nil, "99", true},
		{"two missing after a tear", torn, want[:98], nil, "98, 2 lost, no error", false},
		{"changed", damage, changed, nil, "100, #0 wrong, no error", false},
		{"error", damage, nil, failed, "error: damaged", true},
		{"a tear that is fatal", torn, nil, failed, "error: damaged", false},
	} {
		l := log{read: func(string) ([][]byte, error) { return tc.got, tc.err }}
		if o := classify(tc.edit, want, l, ""); o.Text != tc.text || o.Right != tc.right {
			t.Errorf("%s: %+v", tc.name, o)
		}
	}
}
