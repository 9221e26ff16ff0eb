package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// eraseSizes are the sizes of files in what erase and verify say: a log that is idle for
// some milliseconds writes a sync mark.
var eraseSizes = regexp.MustCompile(`("bytes_(?:before|after)": ?|"files": ?\d+,\s*"bytes": ?|items: |-> |clean: \d+ files, |all the same: )\d[0-9.]*( KiB)?`)

// TestErase pins what erase and threads --filter say.
func TestErase(t *testing.T) {
	for _, form := range []string{"", "--json"} {
		name := "erase"
		if form != "" {
			name += "-json"
		}
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fixture()
			d := w.open()
			items, err := store.On(d, store.Options{})
			w.must(err)
			w.must(items.Put(context.Background(), store.Namespace{"users", "alice"}, "food", map[string]any{"likes": "soup"}))
			w.must(items.Put(context.Background(), store.Namespace{"users", "alice", "facts"}, "home", map[string]any{"is": "far"}))
			w.must(items.Put(context.Background(), store.Namespace{"users", "bob"}, "food", map[string]any{"likes": "bread"}))
			w.must(d.Close())
			all := ""
			forget := []string{"erase", w.dir, "--filter", "run_id=run-alice", "--filter", "source=loop", "--thread", "nobody", "--items", "users.alice", "--items", `["mail","a.b"]`}
			for _, args := range [][]string{
				{"threads", w.dir, "--filter", "step:=1"}, {"threads", w.dir, "--filter", "step:=3"}, {"threads", w.dir, "--filter", "step=3"},
				{"erase", w.dir}, {"erase", w.dir, "--thread", ""}, {"erase", w.dir, "--items", "users..alice"}, {"erase", w.dir, "--items", `["users",""]`},
				{"erase", w.dir, "--filter", "step"}, {"erase", w.dir, "--filter", "step:=one"}, {"erase", w.dir, "--filter", "step:=1", "--filter", "step=1"},
				{"erase", filepath.Dir(w.dir), "--thread", "alice", "--yes"},
				forget, append(slices.Clone(forget), "--yes"), forget[:4], append(slices.Clone(forget[:4]), "--yes"),
				{"erase", w.dir, "--thread", "nobody"}, {"erase", w.dir, "--thread", "nobody", "--yes"},
				{"threads", w.dir}, {"verify", w.dir},
			} {
				if form != "" {
					args = append([]string{form}, args...)
				}
				out, stderr, code := stele(t, args...)
				all += fmt.Sprintf("$ stele %s\n%s%sexit code %d\n", strings.Join(args, " "), out, stderr, code)
			}
			golden(t, name, eraseSizes.ReplaceAllString(stable(all, filepath.Dir(w.dir)), "${1}some"))
		})
	}
}

// TestFilter: what --filter takes is what it says.
func TestFilter(t *testing.T) {
	got, err := parseFilter([]string{"a=1", "b:=1", `c:="1"`, "d:=18446744073709551615", "e:=1.5", "f:=null", "g:=[1,{\"k\":true}]", "h=", "i=x=y", "j.k=v"})
	want := map[string]any{"a": "1", "b": int64(1), "c": "1", "d": uint64(1<<64 - 1), "e": 1.5, "f": nil, "g": []any{int64(1), map[string]any{"k": true}}, "h": "", "i": "x=y", "j.k": "v"}
	if err != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		t.Errorf("%#v, %v", got, err)
	}
	for _, bad := range []string{"a", "=1", ":=1", "a:=", "a:=x", "a:=1 2", "a/b=1", "a:=1e999"} {
		if f, err := parseFilter([]string{bad}); err == nil {
			t.Errorf("%q is taken as %v", bad, f)
		}
	}
	for text, want := range map[string][]string{"users.ada": {"users", "ada"}, `["a.b","c"]`: {"a.b", "c"}, "x": {"x"}} {
		if got, err := parsePrefix(text); err != nil || !slices.Equal(got, want) || prefixText(got) != text {
			t.Errorf("%q is %q, %v, and back %s", text, got, err, prefixText(got))
		}
	}
	for _, bad := range []string{"", ".", "a.", `["a`, "[1]", `[""]`, `["users",""]`} {
		if p, err := parsePrefix(bad); err == nil {
			t.Errorf("%q is taken as %q", bad, p)
		}
	}
}

// person is a user with threads and items of random bytes, which no compression hides.
type person struct {
	name    string
	markers map[string][]byte
	rng     *rand.Rand
}

func newPerson(name string, seed uint64) *person {
	return &person{name: name, markers: map[string][]byte{"name": []byte(name)}, rng: rand.New(rand.NewPCG(seed, 7))}
}

func (p *person) noise(what string) []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(p.rng.Uint32())
	}
	p.markers[what] = b[100:132]
	return b
}

// use is what the person leaves in a store.
func (p *person) use(t *testing.T, d *disk.Saver) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(thread, ns string, n int, md saver.Metadata) {
		t.Helper()
		versions := map[string]saver.Version{"c": saver.IntVersion(int64(n))}
		cfg := saver.Config{ThreadID: thread, Namespace: ns}
		if n > 1 {
			cfg.CheckpointID = checkpointID(n - 1)
		}
		cp := saver.Checkpoint{V: 4, ID: checkpointID(n), Versions: versions,
			Values: map[string]saver.Value{"c": saver.ValueTyped(serde.Typed{Kind: "bytes", Data: p.noise(fmt.Sprint(thread, ns, n))})}}
		_, err := d.Put(ctx, cfg, cp, md, versions)
		must(err)
	}
	put("t1-"+p.name, "", 1, saver.Metadata{"source": "input", "user": p.name})
	put("t1-"+p.name, "", 2, saver.Metadata{"source": "loop"}) // the first checkpoint is enough
	put("t2-"+p.name, "", 1, saver.Metadata{"source": "input"})
	put("t2-"+p.name, "sub:1", 1, saver.Metadata{"source": "input", "user": p.name}) // and so is a subgraph's
	cfg := saver.Config{ThreadID: "t2-" + p.name, CheckpointID: checkpointID(1)}
	must(d.PutWrites(ctx, cfg, []saver.Write{{Channel: "c", Value: saver.ValueTyped(serde.Typed{Kind: "bytes", Data: p.noise("write")})}}, "task", ""))
	items, err := store.On(d, store.Options{})
	must(err)
	for _, ns := range []store.Namespace{{"users", p.name}, {"users", p.name, "facts"}} {
		must(items.Put(ctx, ns, "key", map[string]any{"bytes": p.noise("item in " + strings.Join(ns, "."))}))
	}
}

// found are the markers that files of a directory hold.
func (p *person) found(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for what, m := range p.markers {
			if bytes.Contains(b, m) && !slices.Contains(out, what) {
				out = append(out, what)
			}
		}
	}
	return out
}

// TestForgetUser: one command erases a user's threads, found by their metadata, and items:
// no file holds a byte of what only the user had, and others have all of theirs. A program
// that has the store open does the same with a function.
func TestForgetUser(t *testing.T) {
	for name, forget := range map[string]func(t *testing.T, dir string){
		"command": func(t *testing.T, dir string) {
			out, stderr, code := stele(t, "erase", dir, "--filter", "user=adalovelace", "--items", "users.adalovelace", "--yes")
			if code != exitDone || !strings.Contains(out, "erased 2 threads, 4 checkpoints, 2 items") {
				t.Errorf("exit code %d\n%s%s", code, out, stderr)
			}
		},
		"function": func(t *testing.T, dir string) {
			d, err := disk.Open(dir, disk.Options{})
			if err != nil {
				t.Fatal(err)
			}
			rep, err := admin.EraseOpen(context.Background(), d, admin.EraseOptions{Metadata: map[string]any{"user": "adalovelace"}, Items: [][]string{{"users", "adalovelace"}}})
			if err != nil || len(rep.Threads) != 2 || rep.Threads[0].Checkpoints != 2 || len(rep.Items) != 1 || rep.Items[0].Namespaces != 2 || rep.Items[0].Items != 2 {
				t.Errorf("%+v, %v", rep, err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			d, err := disk.Open(dir, disk.Options{ManualWork: true})
			if err != nil {
				t.Fatal(err)
			}
			ada, bob := newPerson("adalovelace", 1), newPerson("bobbuilder", 2)
			ada.use(t, d)
			bob.use(t, d)
			if err := d.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			for _, p := range []*person{ada, bob} {
				if got := p.found(t, dir); len(got) != len(p.markers) {
					t.Fatalf("of %s the files hold %v: the search proves nothing", p.name, got)
				}
			}
			out, stderr, code := stele(t, "erase", dir, "--filter", "user=adalovelace", "--items", "users.adalovelace")
			if code != exitDone || !strings.Contains(out, "would erase 2 threads, 4 checkpoints, 2 items; nothing was erased") {
				t.Errorf("dry run: exit code %d\n%s%s", code, out, stderr)
			}
			if got := ada.found(t, dir); len(got) != len(ada.markers) {
				t.Fatalf("after a dry run the files hold %v", got)
			}
			forget(t, dir)
			if got := ada.found(t, dir); len(got) > 0 {
				t.Errorf("the files hold %v", got)
			}
			if got := bob.found(t, dir); len(got) != len(bob.markers) {
				t.Errorf("of another user the files hold %v", got)
			}
			if out, stderr, code := stele(t, "verify", dir); code != exitDone {
				t.Errorf("verify: exit code %d\n%s%s", code, out, stderr)
			}
		})
	}
}

// TestEraseTight: a dry run says that the device may be too full, before anything is
// deleted.
func TestEraseTight(t *testing.T) {
	for free, want := range map[int64]bool{-1: false, 99: true, 100: false} {
		var out bytes.Buffer
		p := &printer{w: &out}
		rep := &admin.EraseReport{DryRun: true, BytesBefore: 100, FreeBytes: free, ErasePlan: disk.ErasePlan{Threads: []disk.ErasedThread{{ThreadID: "t"}}}}
		if printErase(p, &erased{EraseReport: rep}, ""); strings.Contains(out.String(), "the rewrite may need") != want {
			t.Errorf("with %d bytes free:\n%s", free, out.String())
		}
	}
}

// TestEraseUnfinishedKind: that something is deleted already counts for more than why the
// rest failed.
func TestEraseUnfinishedKind(t *testing.T) {
	var out bytes.Buffer
	a := &app{err: &out, flags: flags{json: true}}
	a.report(fmt.Errorf("erase: %w: %w", saver.ErrEraseUnfinished, fault.ErrDiskFull))
	if !strings.Contains(out.String(), `"kind":"erase_unfinished"`) {
		t.Error(out.String())
	}
}
