package backup

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

func sample() *Manifest {
	return &Manifest{StoreID: 7, Created: time.Unix(1_700_000_000, 0).UTC(), LSN: 42, State: []byte("state"), Files: []File{
		{Name: "000012.seg", Stored: storedName(12, 0xfeed, 880, ".seg"), Size: 880, Sum: "0123456789abcdef"},
		{Name: "000013.log", Stored: storedName(13, 1, 64, ".log"), Size: 64, Sum: "00000000000000ff"},
	}}
}

func encoded(t testing.TB, m *Manifest) []byte {
	t.Helper()
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// resum gives a list whose version or body was changed a checksum that fits.
func resum(version string, body []byte) []byte {
	prefix := magic + " " + version + " "
	sum := base.ChecksumParts(0, []byte(prefix), body)
	const digits = "0123456789abcdef"
	var hex [16]byte
	for i := range hex {
		hex[15-i] = digits[sum>>(4*i)&15]
	}
	return append([]byte(prefix+string(hex[:])+"\n"), body...)
}

func TestListRoundTrip(t *testing.T) {
	b := encoded(t, sample())
	m, err := Decode(b)
	if err != nil || !reflect.DeepEqual(m, sample()) {
		t.Fatalf("%+v, %v", m, err)
	}
}

// TestListRefusals: each class of what is wrong has its error.
func TestListRefusals(t *testing.T) {
	whole := encoded(t, sample())
	_, body, _ := bytes.Cut(whole, []byte("\n"))
	with := func(change func(*Manifest)) []byte {
		m := sample()
		change(m)
		return encoded(t, m)
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":               {nil, fault.ErrCorrupt},
		"other magic":         {[]byte("stele-restore 1 00\n{}"), fault.ErrCorrupt},
		"newer":               {resum("2", body), fault.ErrVersion},
		"damaged version":     {bytes.Replace(whole, []byte(" 1 "), []byte(" 2 "), 1), fault.ErrCorrupt},
		"version 0":           {resum("0", body), fault.ErrCorrupt},
		"padded version":      {resum("01", body), fault.ErrCorrupt},
		"no JSON":             {resum("1", []byte("{")), fault.ErrCorrupt},
		"path in name":        {with(func(m *Manifest) { m.Files[0].Name = "../000012.seg" }), fault.ErrCorrupt},
		"path in stored":      {with(func(m *Manifest) { m.Files[0].Stored = "/etc/000012.seg" }), fault.ErrCorrupt},
		"manifest as a file":  {with(func(m *Manifest) { m.Files[0].Name = "MANIFEST-000001" }), fault.ErrCorrupt},
		"name twice":          {with(func(m *Manifest) { m.Files[1].Name = m.Files[0].Name }), fault.ErrCorrupt},
		"negative size":       {with(func(m *Manifest) { m.Files[0].Size = -1 }), fault.ErrCorrupt},
		"short checksum":      {with(func(m *Manifest) { m.Files[0].Sum = "00" }), fault.ErrCorrupt},
		"capitals in the sum": {bytes.ToUpper(whole), fault.ErrCorrupt},
	} {
		if m, err := Decode(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v; want %v", name, m, err, c.want)
		}
	}
	for i := range whole {
		for bit := range 8 {
			b := bytes.Clone(whole)
			b[i] ^= 1 << bit
			if _, err := Decode(b); err == nil {
				t.Fatalf("bit %d of byte %d flipped: accepted", bit, i)
			}
		}
	}
}

// FuzzBackupList: any bytes give a list or an error, and a list is what its encoding
// decodes to.
func FuzzBackupList(f *testing.F) {
	f.Add(encoded(f, sample()))
	f.Add([]byte("stele-backup 1 0000000000000000\n{}"))
	f.Add([]byte(strings.Repeat("stele-backup ", 20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
				t.Fatal(err)
			}
			// Whatever the body is, with a checksum that fits it is read or refused.
			_, body, _ := bytes.Cut(b, []byte("\n"))
			if m, err = Decode(resum("1", body)); err != nil {
				return
			}
		}
		again, err := Decode(encoded(t, m))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v decodes to %+v, %v", m, again, err)
		}
	})
}
