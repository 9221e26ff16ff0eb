package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/wal"
)

// turningKeys names another of three keys each time it is asked for the current
// one, so that neighbouring files are under different keys.
type turningKeys struct {
	mu    sync.Mutex
	n     int
	fixed string // if set, the current key
	err   error  // if set, of CurrentKeyID
}

func (k *turningKeys) CurrentKeyID() (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fixed != "" || k.err != nil {
		return k.fixed, k.err
	}
	k.n++
	return fmt.Sprint("key", k.n%3), nil
}

func (k *turningKeys) Key(id string) ([]byte, error) {
	if len(id) != 4 {
		return nil, seal.ErrNoKey
	}
	return bytes.Repeat([]byte(id), seal.KeySize/4), nil
}

func (k *turningKeys) set(id string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fixed, k.err = id, err
}

func sealedOptions(fsys vfs.FS, keys seal.KeyProvider) Options {
	return Options{FS: fsys, ManualWork: true, Inline: true, LogFileSize: 64 << 10, CompactRate: -1, Keys: keys}
}

// fillSealed makes a store with every kind of file, and closes it.
func fillSealed(t *testing.T, o Options) map[string]string {
	t.Helper()
	e := mustOpen(t, o)
	want := map[string]string{}
	put := func(n int) {
		for i := range n {
			key, v := fmt.Sprintf("key%03d", len(want)), strings.Repeat(fmt.Sprintf("MARKER %d ", len(want)*7+i), 20)
			mustPut(t, e, "MARKER thread", key, v)
			want[key] = v
		}
	}
	put(4)
	must(t, e.Flush(t.Context()))
	put(3)
	must(t, e.WriteImage(t.Context()))
	put(2)
	must(t, e.Close())
	return want
}

func checkSealed(t *testing.T, e *Engine, want map[string]string) {
	t.Helper()
	for key, v := range want {
		if got, err := read(e, "MARKER thread", key); err != nil || got != v {
			t.Fatalf("%s: %.20q, %v", key, got, err)
		}
	}
}

// filesOf are the files of the store and their bytes, the lock file aside.
func filesOf(t *testing.T, fsys vfs.FS) map[string]string {
	t.Helper()
	names, err := fsys.List("store")
	must(t, err)
	out := map[string]string{}
	for _, n := range names {
		if n != LockName {
			out[n] = string(fileBytes(t, fsys, n))
		}
	}
	return out
}

func fileBytes(t *testing.T, fsys vfs.FS, name string) []byte {
	t.Helper()
	f, err := fsys.Open(filepath.Join("store", name))
	must(t, err)
	defer func() { _ = f.Close() }()
	n, err := f.Size()
	must(t, err)
	b := make([]byte, n)
	if _, err := f.ReadAt(b, 0); n > 0 && err != nil {
		t.Fatal(err)
	}
	return b
}

func putBytes(t *testing.T, fsys vfs.FS, name string, b []byte) {
	t.Helper()
	path := filepath.Join("store", name)
	must(t, fsys.Remove(path))
	f, err := fsys.Create(path)
	must(t, err)
	_, err = f.WriteAt(b, 0)
	must(t, errors.Join(err, f.Close()))
}

func TestNothingInClear(t *testing.T) {
	mem, plain := vfs.NewMem(vfs.MemOptions{}), vfs.NewMem(vfs.MemOptions{})
	fillSealed(t, sealedOptions(plain, nil))
	want := fillSealed(t, sealedOptions(mem, &turningKeys{}))
	clear := 0
	for _, b := range filesOf(t, plain) {
		clear += strings.Count(b, "MARKER")
	}
	if clear == 0 {
		t.Fatal("the test sees nothing: no marker in a store without encryption")
	}
	for name, b := range filesOf(t, mem) {
		if i := strings.Index(b, "MARKER"); i >= 0 {
			t.Errorf("%s has a marker in clear at %d", name, i)
		}
	}
	for _, readOnly := range []bool{false, true} {
		o := sealedOptions(mem, &turningKeys{})
		o.ReadOnly = readOnly
		e := mustOpen(t, o)
		checkSealed(t, e, want)
		must(t, e.Close())
	}
}

// TestKeysThatDoNotFit: a store is refused, and left as it was, if its keys are
// missing or wrong, and if one of its files is not encrypted.
func TestKeysThatDoNotFit(t *testing.T) {
	wrong, err := seal.StaticKeys("key0", map[string][]byte{"key0": bytes.Repeat([]byte{9}, 32), "key1": bytes.Repeat([]byte{9}, 32), "key2": bytes.Repeat([]byte{9}, 32)})
	must(t, err)
	none, err := seal.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{9}, 32)})
	must(t, err)
	mem, plain := vfs.NewMem(vfs.MemOptions{}), vfs.NewMem(vfs.MemOptions{})
	fillSealed(t, sealedOptions(plain, nil))
	fillSealed(t, sealedOptions(mem, &turningKeys{}))
	refuse := func(what string, fsys vfs.FS, keys seal.KeyProvider, want fault.KeyProblem) {
		t.Helper()
		before := filesOf(t, fsys)
		for _, readOnly := range []bool{false, true} {
			o := sealedOptions(fsys, keys)
			o.ReadOnly = readOnly
			_, err := Open("store", o)
			var k *fault.KeyError
			if !errors.As(err, &k) || k.Problem != want || k.File == "" {
				t.Errorf("%s, read-only %v: %v", what, readOnly, err)
			}
		}
		if after := filesOf(t, fsys); !maps.Equal(before, after) {
			t.Errorf("%s: refused, and changed files", what)
		}
		if _, _, err := VerifyStore(t.Context(), sealedOptions(fsys, keys)); !errors.Is(err, fault.ErrKey) {
			t.Errorf("%s, verified: %v", what, err)
		}
	}
	refuse("no keys", mem, nil, fault.KeyRequired)
	refuse("other keys of the same ids", mem, wrong, fault.KeyWrong)
	refuse("keys of other ids", mem, none, fault.KeyUnavailable)
	refuse("keys for a plain store", plain, &turningKeys{}, fault.NotEncrypted)
	// One file of each kind, of a store without encryption and with the same content,
	// in place of the encrypted one.
	plainFiles := filesOf(t, plain)
	for name, b := range filesOf(t, mem) {
		if name == wal.MarkName {
			continue // numbers alone, and never encrypted
		}
		if plainFiles[name] == "" {
			t.Fatalf("the stores have different files: no %s", name)
		}
		putBytes(t, mem, name, []byte(plainFiles[name]))
		refuse("a plain "+name, mem, &turningKeys{}, fault.NotEncrypted)
		putBytes(t, mem, name, []byte(b))
	}
}

// TestOneMissingKey: a store is refused if the key of only one of its files is not
// to be had, whichever kind of file that is.
func TestOneMissingKey(t *testing.T) {
	mem, keys := vfs.NewMem(vfs.MemOptions{}), &turningKeys{}
	fillSealed(t, sealedOptions(mem, keys))
	for missing := range 3 {
		have := map[string][]byte{}
		for i := range 3 {
			id := fmt.Sprint("key", i)
			if i != missing {
				have[id], _ = keys.Key(id)
			}
		}
		p, err := seal.StaticKeys(fmt.Sprint("key", (missing+1)%3), have)
		must(t, err)
		before := filesOf(t, mem)
		_, err = Open("store", sealedOptions(mem, p))
		var k *fault.KeyError
		if !errors.As(err, &k) || k.Problem != fault.KeyUnavailable || k.KeyID != fmt.Sprint("key", missing) {
			t.Errorf("without key %d: %v", missing, err)
		}
		if !maps.Equal(before, filesOf(t, mem)) {
			t.Errorf("without key %d: refused, and changed files", missing)
		}
	}
}

// TestKeyRotation: Compact brings every file under the current key, after which the
// old one is needed no more.
func TestKeyRotation(t *testing.T) {
	mem, keys := vfs.NewMem(vfs.MemOptions{}), &turningKeys{}
	o := sealedOptions(mem, keys)
	want := fillSealed(t, o)
	keys.set("key0", nil)
	e := mustOpen(t, o)
	before := e.Stats().Encryption
	if len(before.Files) != 3 || before.Plain+before.Unknown > 0 {
		t.Errorf("before: %+v", before)
	}
	keys.set("key9", nil)
	must(t, e.Compact(t.Context()))
	after := e.Stats().Encryption
	if !slices.Equal(slices.Collect(maps.Keys(after.Files)), []string{"key9"}) {
		t.Errorf("after: %+v", after)
	}
	checkSealed(t, e, want)
	must(t, e.Compact(t.Context())) // nothing to do, and nothing goes wrong
	must(t, e.Close())
	only, err := seal.StaticKeys("key9", map[string][]byte{"key9": bytes.Repeat([]byte("key9"), 8)})
	must(t, err)
	e = mustOpen(t, sealedOptions(mem, only))
	checkSealed(t, e, want)
	must(t, e.Close())
	// A store in which nothing changed since is brought along as well.
	keys.set("key7", nil)
	e = mustOpen(t, o)
	must(t, e.Compact(t.Context()))
	if c := e.Stats().Encryption; !slices.Equal(slices.Collect(maps.Keys(c.Files)), []string{"key7"}) {
		t.Errorf("once more: %+v", c)
	}
	must(t, e.Close())
}

// TestEncryptExisting: a store without encryption is encrypted only if that was
// asked for, and from then on takes no other file than the old ones without it.
func TestEncryptExisting(t *testing.T) {
	mem, keys := vfs.NewMem(vfs.MemOptions{}), &turningKeys{}
	want := fillSealed(t, sealedOptions(mem, nil))
	plain := filesOf(t, mem)
	o := sealedOptions(mem, keys)
	o.EncryptExisting = true
	e := mustOpen(t, o)
	checkSealed(t, e, want)
	if c := e.Stats().Encryption; c.Plain == 0 {
		t.Errorf("at first: %+v", c)
	}
	mustPut(t, e, "MARKER thread", "new", "MARKER since")
	want["new"] = "MARKER since"
	must(t, e.Close())
	o.EncryptExisting = false
	e = mustOpen(t, o)
	checkSealed(t, e, want)
	must(t, e.Compact(t.Context()))
	checkSealed(t, e, want)
	if c := e.Stats().Encryption; c.Plain > 0 || c.Unknown > 0 {
		t.Errorf("after Compact: %+v", c)
	}
	must(t, e.Close())
	for name, b := range filesOf(t, mem) {
		if strings.Contains(b, "MARKER") {
			t.Errorf("%s has a marker in clear", name)
		}
	}
	for name, b := range plain {
		if filepath.Ext(name) == ".seg" {
			for now := range filesOf(t, mem) {
				if filepath.Ext(now) == ".seg" {
					putBytes(t, mem, now, []byte(b))
				}
			}
		}
	}
	e, err := Open("store", o)
	if err == nil {
		_, err = read(e, "MARKER thread", "key000")
		must(t, e.Close())
	}
	if !errors.Is(err, fault.ErrKey) && !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("an old plain segment under a new name: %v", err)
	}
	if err := (Options{EncryptExisting: true}).Validate(); err == nil {
		t.Error("EncryptExisting without keys is accepted")
	}
}

// TestKeyServiceDown: while the current key cannot be had, what needs a new file is
// refused with its error and nothing else; then the store goes on.
func TestKeyServiceDown(t *testing.T) {
	mem, keys := vfs.NewMem(vfs.MemOptions{}), &turningKeys{fixed: "key1"}
	e := mustOpen(t, sealedOptions(mem, keys))
	mustPut(t, e, "a", "k1", "one")
	must(t, e.Flush(t.Context()))
	cause := errors.New("key service is down")
	keys.set("", cause)
	v, err := NewValue([]byte("two"))
	must(t, err)
	put := func() error {
		return e.Commit(context.Background(), []string{"a"}, func(tx *Tx) error {
			return tx.Put("a", "k2", 0, []SlotIn{{Name: "v", Value: &v}})
		})
	}
	if err := put(); !errors.Is(err, fault.ErrKey) || !errors.Is(err, cause) || errors.Is(err, fault.ErrPoisoned) {
		t.Errorf("commit: %v", err)
	}
	if err := e.Compact(t.Context()); !errors.Is(err, fault.ErrKey) || errors.Is(err, fault.ErrPoisoned) {
		t.Errorf("compact: %v", err)
	}
	if got, err := read(e, "a", "k1"); err != nil || got != "one" {
		t.Errorf("read meanwhile: %q, %v", got, err)
	}
	keys.set("key2", nil)
	must(t, put())
	must(t, e.Compact(t.Context()))
	if c := e.Stats().Encryption; len(c.Files) != 1 || c.Files["key2"] == 0 {
		t.Errorf("keys: %+v", c)
	}
	must(t, e.Close())
	e = mustOpen(t, sealedOptions(mem, keys))
	for key, want := range map[string]string{"k1": "one", "k2": "two"} {
		if got, err := read(e, "a", key); err != nil || got != want {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	must(t, e.Close())
}

// TestSealedTools: verify, export, and salvage without a manifest work with keys.
func TestSealedTools(t *testing.T) {
	mem, keys := vfs.NewMem(vfs.MemOptions{}), &turningKeys{}
	o := sealedOptions(mem, keys)
	want := fillSealed(t, o)
	damaged, records, err := VerifyStore(t.Context(), o)
	if err != nil || damaged || records == 0 {
		t.Fatalf("verify: damaged %v, %d records, %v", damaged, records, err)
	}
	e := mustOpen(t, o)
	if err := ExportStore(t.Context(), e, "copy"); err != nil {
		t.Fatal(err)
	}
	must(t, e.Close())
	c, err := Open("copy", o)
	must(t, err)
	checkSealed(t, c, want)
	must(t, c.Close())
	names, err := mem.List("store")
	must(t, err)
	for _, n := range names {
		if strings.HasPrefix(n, "MANIFEST") {
			must(t, mem.Remove(filepath.Join("store", n)))
		}
	}
	o.ReadOnly, o.AllowDamage = true, true
	e = mustOpen(t, o)
	checkSealed(t, e, want)
	must(t, e.Close())
}
