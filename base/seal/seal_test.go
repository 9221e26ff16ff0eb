package seal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

func testKey(b byte) []byte { return bytes.Repeat([]byte{b}, KeySize) }

func testStore(t testing.TB, current string) *Keyring {
	t.Helper()
	p, err := StaticKeys(current, map[string][]byte{"k1": testKey(1), "k2": testKey(2)})
	if err != nil {
		t.Fatal(err)
	}
	return New(p, nil).Keyring(77, 0)
}

func testHead(b byte) []byte { return bytes.Repeat([]byte{b}, FileHeaderSize) }

func testFile(t testing.TB) *File {
	t.Helper()
	f, _, err := testStore(t, "k1").Create("000001.log", testHead(9))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// lengths are on both sides of every boundary of chunks.
var lengths = []int{0, 1, 15, 100, chunkSize - 1, chunkSize, chunkSize + 1, 2*chunkSize - 1, 2 * chunkSize, 3*chunkSize + 5}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func TestSealOpens(t *testing.T) {
	f := testFile(t)
	for _, n := range lengths {
		plain := random(n)
		parts := [][]byte{plain[:n/3], nil, plain[n/3 : n/2], plain[n/2:]}
		keep := slices.Clone(parts)
		sealed := f.Seal([]byte("before"), []byte("aad"), parts...)
		if !slices.EqualFunc(parts, keep, func(a, b []byte) bool { return bytes.Equal(a, b) }) {
			t.Fatal("Seal changed its parts")
		}
		body := sealed[6:]
		if string(sealed[:6]) != "before" || int64(len(body)) != SealedLen(int64(n)) {
			t.Fatalf("%d bytes seal to %d, want %d", n, len(body), SealedLen(int64(n)))
		}
		if m, ok := OpenedLen(int64(len(body))); !ok || m != int64(n) {
			t.Fatalf("OpenedLen(%d) = %d, %v", len(body), m, ok)
		}
		got, err := f.Open([]byte("x"), []byte("aad"), body)
		if err != nil || !bytes.Equal(got[1:], plain) {
			t.Fatalf("%d bytes do not open: %v", n, err)
		}
		if n >= 15 && bytes.Contains(body, plain[:15]) {
			t.Fatal("the plaintext is there")
		}
		for _, off := range []int{0, 1, n / 2, n - 1, n, chunkSize - 1, chunkSize, 2 * chunkSize} {
			for _, k := range []int{0, 1, 10, chunkSize, n - off} {
				if off < 0 || k < 0 || off+k > n {
					continue
				}
				from, to, begins, ok := Span(int64(len(body)), int64(off), int64(k))
				if !ok {
					t.Fatalf("Span of %d+%d in %d fails", off, k, n)
				}
				part, err := f.OpenSpan(nil, []byte("aad"), from, body[from:to])
				if err != nil || !bytes.Equal(part[off-int(begins):][:k], plain[off:off+k]) {
					t.Fatalf("span %d+%d of %d: %v", off, k, n, err)
				}
			}
		}
	}
}

// TestLengths: OpenedLen accepts exactly what SealedLen makes.
func TestLengths(t *testing.T) {
	made := map[int64]int64{}
	for n := range int64(3*chunkSize + 200) {
		made[SealedLen(n)] = n
	}
	for m := int64(-3); m < SealedLen(3*chunkSize+199); m++ {
		n, ok := OpenedLen(m)
		want, is := made[m]
		if ok != is || ok && n != want {
			t.Fatalf("OpenedLen(%d) = %d, %v; want %d, %v", m, n, ok, want, is)
		}
	}
}

func TestSealRefuses(t *testing.T) {
	f := testFile(t)
	other := testFile(t) // the same header, another salt
	plain := random(2*chunkSize + 100)
	sealed := f.Seal(nil, []byte("aad"), plain)
	refuse := func(what string, g *File, aad string, b []byte) {
		t.Helper()
		if got, err := g.Open(nil, []byte(aad), b); !errors.Is(err, ErrSeal) || got != nil {
			t.Errorf("%s: opens to %d bytes, %v", what, len(got), err)
		}
	}
	refuse("another file", other, "aad", sealed)
	refuse("other additional data", f, "aae", sealed)
	refuse("additional data cut", f, "aa", sealed)
	refuse("nothing", f, "aad", nil)
	refuse("plaintext", f, "aad", plain)
	for _, n := range []int{1, 27, 28, 1000, sealedChunk - 1, sealedChunk, sealedChunk + 27, sealedChunk + 28, len(sealed) - 1} {
		if n == sealedChunk {
			continue // a whole chunk opens; that it is not all, aad must say
		}
		refuse(fmt.Sprint("cut to ", n), f, "aad", sealed[:n])
	}
	swapped := slices.Concat(sealed[sealedChunk:2*sealedChunk], sealed[:sealedChunk], sealed[2*sealedChunk:])
	refuse("chunks swapped", f, "aad", swapped)
	doubled := slices.Concat(sealed[:sealedChunk], sealed[:sealedChunk], sealed[2*sealedChunk:])
	refuse("chunk twice", f, "aad", doubled)
	for range 2000 {
		b := bytes.Clone(sealed)
		bit := int(random(1)[0])
		at := (int(random(1)[0])<<16 | int(random(1)[0])<<8 | int(random(1)[0])) % len(b)
		b[at] ^= 1 << (bit % 8)
		refuse(fmt.Sprintf("byte %d", at), f, "aad", b)
	}
	small := f.Seal(nil, nil, []byte("small"))
	for i := range len(small) * 8 {
		b := bytes.Clone(small)
		b[i/8] ^= 1 << (i % 8)
		refuse(fmt.Sprintf("bit %d", i), f, "", b)
	}
}

// TestNonces: no two chunks of a file have one nonce, the same bytes sealed in
// the same place included.
func TestNonces(t *testing.T) {
	f := testFile(t)
	seen := map[string]bool{}
	for range 2000 {
		b := f.Seal(nil, []byte("same"), make([]byte, chunkSize+1))
		for _, at := range []int{0, sealedChunk} {
			nonce := string(b[at : at+nonceSize])
			if seen[nonce] {
				t.Fatal("a nonce occurs twice")
			}
			seen[nonce] = true
		}
	}
}

func TestStoreOpens(t *testing.T) {
	s := testStore(t, "k2")
	head := testHead(4)
	f, ext, err := s.Create("x", head)
	if err != nil || f.KeyID() != "k2" || len(ext) != HeaderSize {
		t.Fatalf("%v, key %q, %d bytes", err, f.KeyID(), len(ext))
	}
	g, err := testStore(t, "k1").Open("x", 1, true, head, ext)
	if err != nil || g.KeyID() != "k2" {
		t.Fatalf("open: %v", err)
	}
	got, err := g.Open(nil, nil, f.Seal(nil, nil, []byte("hello")))
	if err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	if info, err := Inspect("x", head, ext); err != nil || info != (Info{KeyID: "k2", StoreID: 77}) {
		t.Fatalf("%+v, %v", info, err)
	}
	if f, err := (*Keyring)(nil).Open("x", 1, false, nil, nil); f != nil || err != nil {
		t.Errorf("a plain file in a plain store: %v", err)
	}
	if f, err := s.keys.Keyring(77, 6).Open("x", 5, false, nil, nil); f != nil || err != nil {
		t.Errorf("a plain file older than the encryption: %v", err)
	}
}

func TestStoreRefuses(t *testing.T) {
	s := testStore(t, "k1")
	head := testHead(4)
	_, ext, err := s.Create("x", head)
	if err != nil {
		t.Fatal(err)
	}
	wrong, _ := StaticKeys("k1", map[string][]byte{"k1": testKey(3)})
	missing, _ := StaticKeys("k2", map[string][]byte{"k2": testKey(2)})
	for _, c := range []struct {
		what   string
		store  *Keyring
		num    base.FileNum
		sealed bool
		want   fault.KeyProblem
	}{
		{"no keys", nil, 1, true, fault.KeyRequired},
		{"another key", New(wrong, nil).Keyring(77, 0), 1, true, fault.KeyWrong},
		{"a key that is not there", New(missing, nil).Keyring(77, 0), 1, true, fault.KeyUnavailable},
		{"a plain file", s, 1, false, fault.NotEncrypted},
		{"a plain file made since", s.keys.Keyring(77, 5), 5, false, fault.NotEncrypted},
	} {
		_, err := c.store.Open("x", c.num, c.sealed, head, ext)
		var k *fault.KeyError
		if !errors.As(err, &k) || k.Problem != c.want || k.File != "x" || !errors.Is(err, fault.ErrKey) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if _, err := s.keys.Keyring(78, 0).Open("x", 1, true, head, ext); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("another store: %v", err)
	}
	// Every bit of both headers: the checksum finds it, and where somebody made
	// that fit, the key does.
	for i := range (len(head) + len(ext)) * 8 {
		both := slices.Concat(head, ext)
		both[i/8] ^= 1 << (i % 8)
		h, e := both[:len(head)], both[len(head):]
		if _, err := s.Open("x", 1, true, h, e); !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("bit %d of the headers: %v", i, err)
		}
		finish(e, h, [checkSize]byte(e[atCheck:]))
		if _, err := s.Open("x", 1, true, h, e); err == nil && i/8 < len(head)+atSum {
			t.Fatalf("bit %d of the headers, with its checksum put right, opens", i)
		}
	}
}

// failing is a provider without keys.
type failing struct{ err error }

func (f failing) CurrentKeyID() (string, error) { return "k", f.err }
func (f failing) Key(string) ([]byte, error)    { return testKey(1)[:5], nil }

func TestProviders(t *testing.T) {
	cause := errors.New("service is down")
	_, _, err := New(failing{cause}, nil).Keyring(1, 0).Create("x", testHead(1))
	if !errors.Is(err, fault.ErrKey) || !errors.Is(err, cause) {
		t.Errorf("a provider that fails: %v", err)
	}
	if _, _, err := New(failing{}, nil).Keyring(1, 0).Create("x", testHead(1)); !errors.Is(err, fault.ErrKey) {
		t.Errorf("a key of five bytes: %v", err)
	}
	for what, c := range map[string]struct {
		current string
		keys    map[string][]byte
	}{
		"no current key": {"a", map[string][]byte{"b": testKey(1)}},
		"short key":      {"a", map[string][]byte{"a": testKey(1)[1:]}},
		"zero key":       {"a", map[string][]byte{"a": make([]byte, KeySize)}},
		"empty id":       {"", map[string][]byte{"": testKey(1)}},
		"space in id":    {"a b", map[string][]byte{"a b": testKey(1)}},
		"long id":        {strings.Repeat("x", 129), map[string][]byte{strings.Repeat("x", 129): testKey(1)}},
	} {
		if _, err := StaticKeys(c.current, c.keys); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	own := testKey(1)
	p, err := StaticKeys("a", map[string][]byte{"a": own})
	if err != nil {
		t.Fatal(err)
	}
	clear(own)
	if k, err := p.Key("a"); err != nil || !bytes.Equal(k, testKey(1)) {
		t.Error("the provider shares its caller's memory")
	}
	if _, err := p.Key("b"); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key that is not there: %v", err)
	}
}

func TestKeyFile(t *testing.T) {
	one, two := strings.Repeat("01", 32), strings.Repeat("02", 32)
	name := filepath.Join(t.TempDir(), "keys")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	write("# keys\n\nold "+one+"\n  new\t"+two+" \n", 0o600)
	p, err := LoadKeyFile(name)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := p.CurrentKeyID()
	k1, _ := p.Key("old")
	k2, _ := p.Key("new")
	if id != "new" || !bytes.Equal(k1, testKey(1)) || !bytes.Equal(k2, testKey(2)) {
		t.Errorf("current %q, keys %x, %x", id, k1, k2)
	}
	for what, text := range map[string]string{
		"empty": "# none\n", "one word": one + "\n", "three words": "a " + one + " b\n", "not hex": "a " + strings.Repeat("zz", 32) + "\n",
		"short": "a " + one[2:] + "\n", "twice": "a " + one + "\na " + two + "\n",
	} {
		write(text, 0o600)
		_, err := LoadKeyFile(name)
		if err == nil {
			t.Errorf("%s: accepted", what)
		} else if strings.Contains(err.Error(), "0101") || strings.Contains(err.Error(), "zzzz") {
			t.Errorf("%s: the error shows the key: %v", what, err)
		}
	}
	write("a "+one+"\n", 0o640)
	if _, err := LoadKeyFile(name); runtime.GOOS != "windows" && !errors.Is(err, ErrKeyFileOpen) {
		t.Errorf("a file the group may read: %v", err)
	}
	if _, err := LoadKeyFile(name + ".no"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// FuzzSeal: arbitrary bytes never open, and never panic; neither do headers.
func FuzzSeal(f *testing.F) {
	// The same bytes in every process: fuzzing runs in several.
	n := byte(0)
	s := New(testStore(f, "k1").keys.provider, func(b []byte) {
		for i := range b {
			n++
			b[i] = n
		}
	}).Keyring(77, 0)
	file, _, err := s.Create("y", testHead(9))
	if err != nil {
		f.Fatal(err)
	}
	head := testHead(3)
	_, ext, err := s.Create("x", head)
	if err != nil {
		f.Fatal(err)
	}
	good := file.Seal(nil, []byte("a"), []byte("hello"))
	f.Add(good, []byte("b"), uint32(0))
	f.Add(good[:20], []byte("a"), uint32(3))
	f.Add(ext, head, uint32(1<<31))
	f.Add([]byte{}, []byte{}, uint32(64<<10))
	f.Fuzz(func(t *testing.T, b, aad []byte, at uint32) {
		if got, err := file.Open(nil, aad, b); err == nil && !(bytes.Equal(b, good) && string(aad) == "a") {
			t.Fatalf("%d bytes open to %q", len(b), got)
		}
		if from, to, begins, ok := Span(int64(len(b)), int64(at), 10); ok {
			if from < 0 || to > int64(len(b)) || from > to || begins > int64(at) {
				t.Fatalf("span %d to %d of %d", from, to, len(b))
			}
		}
		if _, err := s.Open("x", 1, true, head, b); err == nil && !bytes.Equal(b, ext) {
			t.Fatal("a made-up header is accepted")
		} else if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) && !errors.Is(err, fault.ErrKey) {
			t.Fatal(err)
		}
		if p, err := ParseKeys(b); err == nil {
			if id, err := p.CurrentKeyID(); err != nil || checkKeyID(id) != nil {
				t.Fatal("keys without a current one")
			}
		}
	})
}

func BenchmarkSeal(b *testing.B) {
	f := testFile(b)
	for _, n := range []int{100, 4 << 10, 64 << 10, 1 << 20} {
		plain := random(n)
		sealed := f.Seal(nil, []byte("aad"), plain)
		b.Run(fmt.Sprintf("seal/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			var dst []byte
			for b.Loop() {
				dst = f.Seal(dst[:0], []byte("aad"), plain)
			}
		})
		b.Run(fmt.Sprintf("open/%d", n), func(b *testing.B) {
			b.SetBytes(int64(n))
			var dst []byte
			for b.Loop() {
				var err error
				if dst, err = f.Open(dst[:0], []byte("aad"), sealed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	s, head := testStore(b, "k1"), testHead(1)
	_, ext, _ := s.Create("x", head)
	b.Run("open file", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Open("x", 1, true, head, ext); err != nil {
				b.Fatal(err)
			}
		}
	})
}
