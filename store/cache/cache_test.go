package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

var ctx = context.Background()

func typed(s string) serde.Typed { return serde.Typed{Kind: serde.KindBytes, Data: []byte(s)} }

// world is a cache with its clock.
type world struct {
	*testing.T
	c   Cache
	now time.Time
}

func (w *world) set(ns, key, v string, ttl time.Duration) {
	w.Helper()
	if err := w.c.Set(ctx, Entry{Key: Key{ns, key}, Value: typed(v), TTL: ttl}); err != nil {
		w.Fatal(err)
	}
}

// has checks what is kept; "" is a miss.
func (w *world) has(ns, key, want string) {
	w.Helper()
	k := Key{ns, key}
	got, err := w.c.Get(ctx, k)
	if err != nil {
		w.Fatal(err)
	}
	if v, ok := got[k]; ok != (want != "") || string(v.Data) != want {
		w.Fatalf("%v is %q (%v), want %q", k, v.Data, ok, want)
	}
}

func openDisk(t *testing.T, fs vfs.FS, clock func() time.Time) *disk.Saver {
	t.Helper()
	d, err := disk.Open("store", disk.Options{Clock: clock, CacheBytes: -1, Simulation: disk.Simulation{FS: fs}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// each runs a case on both caches.
func each(t *testing.T, o Options, fn func(w *world)) {
	open := map[string]func(w *world) (Cache, error){
		"memory": func(w *world) (Cache, error) {
			o := o
			o.Clock = func() time.Time { return w.now }
			return NewMemory(o)
		},
		"disk": func(w *world) (Cache, error) {
			return On(openDisk(w.T, vfs.NewMem(vfs.MemOptions{}), func() time.Time { return w.now }), o)
		},
	}
	for name, make := range open {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, now: time.Unix(1_700_000_000, 0)}
			var err error
			if w.c, err = make(w); err != nil {
				t.Fatal(err)
			}
			fn(w)
		})
	}
}

// TestContract is CAC-03 and what stands around it.
func TestContract(t *testing.T) {
	t.Run("CAC-03/set and get", func(t *testing.T) {
		each(t, Options{}, func(w *world) {
			w.has("a", "k", "")
			w.set("a", "k", "one", 0)
			w.has("a", "k", "one")
			w.set("a", "k", "two", 0)
			w.has("a", "k", "two")
			if err := w.c.Set(ctx, Entry{Key: Key{"a", "x"}, Value: typed("1")}, Entry{Key: Key{"b", ""}, Value: typed("2")}, Entry{Key: Key{"a", "x"}, Value: typed("3")}); err != nil {
				w.Fatal(err)
			}
			got, err := w.c.Get(ctx, Key{"a", "x"}, Key{"b", ""}, Key{"none", "x"}, Key{"a", "k"}, Key{"a", "k"})
			if err != nil || len(got) != 3 || string(got[Key{"a", "x"}].Data) != "3" || string(got[Key{"b", ""}].Data) != "2" {
				w.Errorf("%v, %v", got, err)
			}
		})
	})
	t.Run("CAC-03/ttl", func(t *testing.T) {
		each(t, Options{}, func(w *world) {
			w.set("a", "short", "v", time.Second)
			w.set("a", "long", "v", time.Hour)
			w.set("a", "ever", "v", 0)
			w.now = w.now.Add(999 * time.Millisecond)
			w.has("a", "short", "v")
			w.now = w.now.Add(time.Millisecond)
			w.has("a", "short", "")
			w.has("a", "long", "v")
			w.set("a", "short", "again", time.Second)
			w.has("a", "short", "again")
			w.now = w.now.Add(1000 * time.Hour)
			w.has("a", "long", "")
			w.has("a", "ever", "v")
		})
	})
	t.Run("CAC-03/groups are isolated", func(t *testing.T) {
		each(t, Options{}, func(w *world) {
			for _, g := range []string{"a", "ab", "a,b", "", "b"} {
				w.set(g, "k", "of "+g, 0)
			}
			if err := w.c.Clear(ctx, "a", "none"); err != nil {
				w.Fatal(err)
			}
			w.has("a", "k", "")
			for _, g := range []string{"ab", "a,b", "", "b"} {
				w.has(g, "k", "of "+g)
			}
			if err := w.c.Clear(ctx); err != nil {
				w.Fatal(err)
			}
			for _, g := range []string{"ab", "a,b", "", "b"} {
				w.has(g, "k", "")
			}
			if err := w.c.Clear(ctx); err != nil {
				w.Fatal(err)
			}
			w.set("a", "k", "after", 0)
			w.has("a", "k", "after")
		})
	})
	t.Run("the bound", func(t *testing.T) {
		each(t, Options{MaxBytes: 20_000}, func(w *world) {
			for i := range 100 {
				w.set("a", fmt.Sprintf("%03d", i), strings.Repeat("x", 1000), 0)
			}
			n := 0
			for i := range 100 {
				if got, err := w.c.Get(ctx, Key{"a", fmt.Sprintf("%03d", i)}); err != nil {
					w.Fatal(err)
				} else if len(got) > 0 {
					n++
				}
			}
			if n < 10 || n > 20 {
				w.Errorf("%d entries of 1 KB kept in 20 KB", n)
			}
			w.has("a", "099", strings.Repeat("x", 1000))
			w.has("a", "000", "")
			w.set("a", "099", strings.Repeat("x", 30_000), 0)
			w.has("a", "099", "")
		})
	})
	t.Run("bad input", func(t *testing.T) {
		each(t, Options{}, func(w *world) {
			long := strings.Repeat("x", maxName+1)
			good := Entry{Key: Key{"a", "k"}, Value: typed("v")}
			for what, c := range map[string]struct {
				e    Entry
				want error
			}{
				"key": {Entry{Key: Key{"a", long}, Value: typed("v")}, saver.ErrTooLarge}, "group": {Entry{Key: Key{long, "a"}, Value: typed("v")}, saver.ErrTooLarge},
				"kind": {Entry{Value: serde.Typed{}}, saver.ErrInvalid}, "ttl": {Entry{Value: typed("v"), TTL: -1}, saver.ErrInvalid},
				"value": {Entry{Value: serde.Typed{Kind: "bytes", Data: make([]byte, 65<<20)}}, saver.ErrTooLarge},
			} {
				if err := w.c.Set(ctx, good, c.e); !errors.Is(err, c.want) {
					w.Errorf("%s: %v", what, err)
				}
				w.has("a", "k", "")
			}
			gone, cancel := context.WithCancel(ctx)
			cancel()
			_, get := w.c.Get(gone, good.Key)
			for _, err := range []error{get, w.c.Set(gone, good), w.c.Clear(gone)} {
				if !errors.Is(err, context.Canceled) {
					w.Errorf("a context that ended: %v", err)
				}
			}
		})
		if _, err := NewMemory(Options{MaxBytes: -1}); !errors.Is(err, saver.ErrInvalid) {
			t.Error(err)
		}
	})
	t.Run("concurrent", func(t *testing.T) {
		each(t, Options{MaxBytes: 5000}, func(w *world) {
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					for i := range 50 {
						k := Key{fmt.Sprint(i % 3), fmt.Sprint(i % 7)}
						if err := w.c.Set(ctx, Entry{Key: k, Value: typed(k.NS + k.Key)}); err != nil {
							w.Error(err)
						}
						got, err := w.c.Get(ctx, k)
						if v, ok := got[k]; err != nil || ok && string(v.Data) != k.NS+k.Key {
							w.Errorf("%v is %q, %v", k, v.Data, err)
						}
						if g == 0 && i%10 == 0 {
							if err := w.c.Clear(ctx, "1"); err != nil {
								w.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
		})
	})
}

func TestMemoryForgetsTheLeastRecentlyUsed(t *testing.T) {
	c, err := NewMemory(Options{MaxBytes: 10 * (overhead + 3 + 5 + 10)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, c: c}
	for i := range 10 {
		w.set("a", fmt.Sprintf("%02d", i), "0123456789", 0)
	}
	w.has("a", "00", "0123456789")
	w.set("a", "10", "0123456789", 0)
	w.has("a", "01", "")
	w.has("a", "00", "0123456789")
	if c.Bytes() > c.opts.MaxBytes || c.Bytes() == 0 {
		t.Errorf("%d bytes", c.Bytes())
	}
}

// TestDiskKeeps shows that entries survive the process, and that the saver and the
// oldest-first bound go by what is stored.
func TestDiskKeeps(t *testing.T) {
	fs := vfs.NewMem(vfs.MemOptions{})
	w := &world{T: t, now: time.Unix(1_700_000_000, 0)}
	clock := func() time.Time { return w.now }
	open := func() *disk.Saver {
		d := openDisk(t, fs, clock)
		c, err := On(d, Options{MaxBytes: 4000})
		if err != nil {
			t.Fatal(err)
		}
		w.c = c
		return d
	}
	d := open()
	w.set("a", "old", "v", 0)
	w.set("a", "short", "v", time.Second)
	w.set("b", "new", "v", 0)
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.c.Get(ctx, Key{"a", "old"}); !errors.Is(err, saver.ErrClosed) {
		t.Errorf("get of a closed store: %v", err)
	}
	d = open()
	w.has("a", "old", "v")
	w.has("b", "new", "v")
	for info, err := range d.Threads(ctx, saver.ThreadQuery{}) {
		t.Errorf("the saver lists %+v, %v", info, err)
	}
	w.now = w.now.Add(time.Minute)
	w.set("b", "big", strings.Repeat("x", 3600), 0)
	w.has("b", "big", strings.Repeat("x", 3600))
	w.has("a", "old", "")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	open()
	w.has("b", "big", strings.Repeat("x", 3600))
	w.has("a", "short", "")
}

// TestDamageIsAMiss damages every byte of a value, and wants a miss or the value.
func TestDamageIsAMiss(t *testing.T) {
	fs := vfs.NewMem(vfs.MemOptions{})
	d := openDisk(t, fs, time.Now)
	w := &world{T: t}
	var err error
	if w.c, err = On(d, Options{}); err != nil {
		t.Fatal(err)
	}
	const text = "what took an hour to compute"
	w.set("a", "k", text, 0)
	w.set("a", "later", text, 0) // the log looks for what it wrote last
	names, err := fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := fs.OpenReadWrite("store/" + name)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 4096)
		n, _ := f.ReadAt(b, 0)
		at := strings.Index(string(b[:n]), text)
		if at < 0 {
			continue
		}
		for i := range len(text) {
			if _, err := f.WriteAt([]byte{b[at+i] ^ 0x40}, int64(at+i)); err != nil {
				t.Fatal(err)
			}
			w.has("a", "k", "")
			if _, err := f.WriteAt([]byte{b[at+i]}, int64(at+i)); err != nil {
				t.Fatal(err)
			}
			damaged++
		}
		w.has("a", "k", text)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if damaged != len(text) {
		t.Errorf("%d bytes damaged", damaged)
	}
}

func FuzzNote(f *testing.F) {
	f.Add(encodeNote(0, 0))
	f.Add(encodeNote(1<<62, 12345))
	f.Add("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00")
	f.Add("\x02")
	f.Fuzz(func(t *testing.T, s string) {
		expires, size, ok := decodeNote(s)
		if !ok {
			return
		}
		if e, n, ok := decodeNote(encodeNote(expires, size)); !ok || e != expires || n != size {
			t.Fatalf("%d, %d come back as %d, %d, %v", expires, size, e, n, ok)
		}
	})
}
