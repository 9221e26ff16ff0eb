package base

import "testing"

// TestFileNames: each number has one name, and no other name stands for a file.
func TestFileNames(t *testing.T) {
	for _, k := range []FileKind{LogFile, LogTempFile, SegmentFile, ImageFile} {
		for digits, want := range map[string]FileNum{
			"000001": 1, "000123": 123, "12345678": 12345678, "18446744073709551615": 1<<64 - 1,
			"1": 0, "0000001": 0, "000000": 0, "-00001": 0, "+00001": 0, "": 0, "00000a": 0, "0x0012": 0,
			"18446744073709551616": 0, "99999999999999999999": 0, "a/000012": 0,
		} {
			name := digits + string(k)
			n, ok := k.Parse(name)
			if n != want || ok != (want != 0) {
				t.Errorf("%q parses to %d, %v", name, uint64(n), ok)
			}
			if ok && k.Name(n) != name {
				t.Errorf("%q is written %q", name, k.Name(n))
			}
		}
		for _, other := range []string{"", "000001", "000001.LOG", "000001" + string(k) + ".x", "000001" + string(LogFile) + string(k)} {
			if n, ok := k.Parse(other); ok {
				t.Errorf("%q parses to %d as a %s", other, uint64(n), k)
			}
		}
	}
}
