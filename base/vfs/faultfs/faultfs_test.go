package faultfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/base/vfs/vfstest"
)

func newFS(t *testing.T, rules ...Rule) (*FS, *vfs.Mem) {
	t.Helper()
	m := vfs.NewMem(vfs.MemOptions{})
	if err := m.MkdirAll("db"); err != nil {
		t.Fatal(err)
	}
	return New(m, NewInjector(rules...)), m
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, fsys vfs.FS, name string) string {
	t.Helper()
	f, err := fsys.Open(name)
	check(t, err)
	b := make([]byte, must(f.Size()))
	if _, err := f.ReadAt(b, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	check(t, f.Close())
	return string(b)
}

// TestConformance: without rules the wrapper cannot be told from what it wraps.
func TestConformance(t *testing.T) {
	vfstest.Run(t, vfstest.Options{
		New: func(t *testing.T) (vfs.FS, string) { f, _ := newFS(t); return f, "db" },
	})
}

// kindOf names the operation kind of every method of the two interfaces. A
// method that is added to them fails TestEveryMethod until it has one.
var kindOf = map[string]Op{
	"FS.Create": OpCreate, "FS.OpenReadWrite": OpOpenReadWrite, "FS.Open": OpOpen,
	"FS.Rename": OpRename, "FS.Remove": OpRemove, "FS.List": OpList,
	"FS.MkdirAll": OpMkdirAll, "FS.SyncDir": OpSyncDir, "FS.Lock": OpLock,
	"FS.FreeSpace": OpFreeSpace,
	"File.ReadAt":  OpReadAt, "File.WriteAt": OpWriteAt, "File.Sync": OpSync,
	"File.SyncData": OpSyncData, "File.Truncate": OpTruncate, "File.Size": OpSize,
	"File.Close": OpClose, "File.Attached": OpAttached,
	"Lock.Close": OpUnlock, "Lock.Attached": OpAttached,
	"Dir.Hold": OpHold, "Dir.InPlace": OpInPlace, "Dir.Close": OpClose,
}

func init() { // a directory that is held is a file system, and more
	typ := reflect.TypeFor[vfs.FS]()
	for i := range typ.NumMethod() {
		name := typ.Method(i).Name
		kindOf["Dir."+name], arguments["Dir."+name] = kindOf["FS."+name], arguments["FS."+name]
	}
	kindOf["FS.Hold"], arguments["FS.Hold"] = OpHold, []any{"db"}
	arguments["Dir.MkdirAll"] = []any{"db"}
}

// arguments of a call that succeeds on the store that prepare makes.
var arguments = map[string][]any{
	"FS.Create": {"db/new"}, "FS.OpenReadWrite": {"db/f"}, "FS.Open": {"db/f"},
	"FS.Rename": {"db/f", "db/g"}, "FS.Remove": {"db/f"}, "FS.List": {"db"},
	"FS.MkdirAll": {"db/sub"}, "FS.SyncDir": {"db"}, "FS.Lock": {"db/LOCK", "me"},
	"FS.FreeSpace": {"db"},
	"File.ReadAt":  {make([]byte, 2), int64(0)}, "File.WriteAt": {[]byte("xy"), int64(1)},
	"File.Sync": {}, "File.SyncData": {}, "File.Truncate": {int64(2)}, "File.Size": {},
	"File.Close": {}, "File.Attached": {},
	"Lock.Close": {}, "Lock.Attached": {},
	"Dir.Hold": {"db"}, "Dir.InPlace": {}, "Dir.Close": {},
}

// methods lists the method sets of the interfaces by reflection.
func methods() []string {
	var all []string
	for prefix, typ := range map[string]reflect.Type{
		"FS": reflect.TypeFor[vfs.FS](), "File": reflect.TypeFor[vfs.File](), "Lock": reflect.TypeFor[vfs.Lock](), "Dir": reflect.TypeFor[vfs.Dir](),
	} {
		for i := range typ.NumMethod() {
			all = append(all, prefix+"."+typ.Method(i).Name)
		}
	}
	all = append(all, "FS.Hold") // of vfs.Holder
	slices.Sort(all)
	return all
}

// receivers are what a method may be called on, by the prefix of its name.
type receivers map[string]any

// prepare makes a store of one file, which is open, with a lock that is held, in a
// directory that is.
func prepare(t *testing.T, fsys *FS) receivers {
	t.Helper()
	check(t, fsys.MkdirAll("db"))
	f, err := fsys.Create("db/f")
	check(t, err)
	_, err = f.WriteAt([]byte("abc"), 0)
	check(t, err)
	l, err := fsys.Lock("db/OTHER", "me")
	check(t, err)
	d, err := fsys.Hold("db")
	check(t, err)
	return receivers{"FS": fsys, "File": f, "Lock": l, "Dir": d}
}

// call calls a method by name and returns its error, the last result.
func call(t *testing.T, name string, on receivers) error {
	t.Helper()
	prefix, method, _ := strings.Cut(name, ".")
	recv := reflect.ValueOf(on[prefix])
	args, ok := arguments[name]
	if !ok {
		t.Fatalf("no arguments for %s", name)
	}
	var in []reflect.Value
	for _, a := range args {
		in = append(in, reflect.ValueOf(a))
	}
	out := recv.MethodByName(method).Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	return err
}

// TestEveryMethod: each method of the interfaces is counted under its kind, and
// under that kind alone; it fails when told to, without effect or, with After,
// with its effect; groups of kinds cover it by its class.
func TestEveryMethod(t *testing.T) {
	used := map[Op]bool{}
	for _, name := range methods() {
		kind, ok := kindOf[name]
		if !ok {
			t.Errorf("%s has no operation kind", name)
			continue
		}
		used[kind] = true
		t.Run(name, func(t *testing.T) {
			classOf := OpAnyRead
			if kind.IsWrite() {
				classOf = OpAnyWrite
			}
			for _, op := range []Op{kind, classOf, OpAny} {
				for _, after := range []bool{false, true} {
					testFault(t, name, kind, Rule{Op: op, Err: syscall.ENOSPC, After: after})
				}
			}
			testNoFault(t, name, kind)
		})
	}
	for _, op := range Kinds() {
		if !used[op] {
			t.Errorf("no method has the kind %v", op)
		}
	}
}

func testFault(t *testing.T, name string, kind Op, r Rule) {
	t.Helper()
	fsys, _ := newFS(t)
	on := prepare(t, fsys)
	inj := fsys.Injector()
	before := inj.Ops()
	inj.Set(r)
	err := call(t, name, on)
	var fault *Fault
	if !errors.As(err, &fault) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%+v: the error is %v", r, err)
	}
	if fault.Op != kind || fault.Seq != before[kind]+1 || inj.Count() != 1 || inj.Last() != error(fault) {
		t.Fatalf("%+v: %d faults, last %+v", r, inj.Count(), fault)
	}
	// A second try tells whether the first had its effect: of these it is the
	// one that cannot be done twice.
	once := []string{"FS.Create", "FS.Rename", "FS.Remove", "Dir.Create", "Dir.Rename", "Dir.Remove", "File.Close", "Lock.Close", "Dir.Close"}
	inj.Set()
	again := call(t, name, on)
	done := r.After || strings.HasSuffix(name, ".Close")
	if slices.Contains(once, name) && (again != nil) != done {
		t.Errorf("%+v: the second try returns %v", r, again)
	}
}

func testNoFault(t *testing.T, name string, kind Op) {
	t.Helper()
	fsys, _ := newFS(t)
	on := prepare(t, fsys)
	inj := fsys.Injector()
	before := inj.Ops()
	other := OpAnyWrite
	if kind.IsWrite() {
		other = OpAnyRead
	}
	inj.Set(Rule{Op: other, Sticky: true})
	if err := call(t, name, on); err != nil {
		t.Fatalf("a rule for %v hit: %v", other, err)
	}
	after := inj.Ops()
	before[kind]++
	if !maps.Equal(before, after) {
		t.Errorf("counted %v, want %v", after, before)
	}
}

// TestClassification holds the table against a file system that records: kinds
// classified as writes leave a trace in its log, the others do not.
func TestClassification(t *testing.T) {
	for _, name := range methods() {
		if name == "Dir.MkdirAll" {
			continue // what is held is there
		}
		fsys := crashfs.New()
		on := prepare(t, New(fsys, NewInjector()))
		before := fsys.Len()
		check(t, call(t, name, on))
		if wrote := fsys.Len() > before; wrote != kindOf[name].IsWrite() {
			t.Errorf("%s writes: %t, classified as writing: %t", name, wrote, kindOf[name].IsWrite())
		}
	}
}

// workload is a store's typical beginning; it stops at the first error.
func workload(fsys vfs.FS) error {
	l, err := fsys.Lock("db/LOCK", "me")
	if err != nil {
		return err
	}
	defer l.Close()
	for i := range 2 {
		name := fmt.Sprintf("db/%d.tmp", i)
		f, err := fsys.Create(name)
		if err != nil {
			return err
		}
		for k := range int64(3) {
			if _, err := f.WriteAt([]byte("data"), k*4); err != nil {
				return errors.Join(err, f.Close())
			}
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		if err := fsys.Rename(name, fmt.Sprintf("db/%d", i)); err != nil {
			return err
		}
	}
	return fsys.SyncDir("db")
}

// TestEnumerate: the counts of a clean run are exactly the faults there are.
func TestEnumerate(t *testing.T) {
	clean, _ := newFS(t)
	check(t, workload(clean))
	want := map[Op]int{
		OpLock: 1, OpUnlock: 1, OpCreate: 2, OpWriteAt: 6, OpSync: 2, OpClose: 2, OpRename: 2, OpSyncDir: 1,
	}
	got := clean.Injector().Ops()
	if !maps.Equal(got, want) {
		t.Fatalf("counted %v, want %v", got, want)
	}
	delete(want, OpUnlock) // not looked at by the workload
	want[OpAnyWrite] = clean.Injector().Writes()
	if want[OpAnyWrite] != 14 {
		t.Fatalf("%d writes", want[OpAnyWrite])
	}
	for op, n := range want {
		for k := 1; ; k++ {
			fsys, _ := newFS(t, Rule{Op: op, N: k})
			err := workload(fsys)
			if fsys.Injector().Count() == 0 {
				check(t, err)
				if k != n+1 {
					t.Errorf("%v: %d faults, want %d", op, k-1, n)
				}
				break
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%v #%d: the workload returned %v", op, k, err)
			}
		}
	}
}

func TestGlobNStickySeveralRules(t *testing.T) {
	fsys, _ := newFS(t,
		Rule{Op: OpWriteAt, PathGlob: "*.log", N: 2, Sticky: true, Err: syscall.ENOSPC},
		Rule{Op: OpWriteAt, PathGlob: "db/x*", N: 3, Err: syscall.EINTR},
		Rule{Op: OpRename, PathGlob: "new"},
	)
	log, x := must(fsys.Create("db/a.log")), must(fsys.Create("db/x.log"))
	other := must(fsys.Create("db/other"))
	steps := []struct {
		f    vfs.File
		want error
	}{
		{other, nil}, {log, nil}, {other, nil}, {x, syscall.ENOSPC}, {other, nil}, {x, syscall.ENOSPC},
		{x, syscall.ENOSPC}, // both rules: the first in the list speaks
		{log, syscall.ENOSPC}, {other, nil},
	}
	for i, s := range steps {
		n, err := s.f.WriteAt([]byte("abcd"), 0)
		if !errors.Is(err, s.want) || (err == nil) != (n == 4) {
			t.Errorf("step %d: %d, %v", i, n, err)
		}
	}
	if err := fsys.Rename("db/other", "db/new"); !errors.Is(err, syscall.EIO) {
		t.Errorf("a rename is not matched by its new name: %v", err)
	}
	if got, want := fsys.Injector().Last().Error(), "injected fault: rename db/other (#1): input/output error"; got != want {
		t.Errorf("the fault reads %q, want %q", got, want)
	}
	if readFile(t, fsys, "db/x.log") != "" {
		t.Error("a failed write wrote")
	}
	if c := fsys.Injector().Count(); c != 5 {
		t.Errorf("%d faults", c)
	}
	defer func() {
		if recover() == nil {
			t.Error("a malformed glob was accepted")
		}
	}()
	NewInjector(Rule{PathGlob: "["})
}

func TestShort(t *testing.T) {
	fsys, _ := newFS(t)
	f := must(fsys.Create("db/f"))
	inj := fsys.Injector()
	inj.Set(Rule{Op: OpWriteAt, Short: true})
	if n, err := f.WriteAt([]byte("abcdef"), 0); n != 3 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("short write: %d, %v", n, err)
	}
	inj.Set(Rule{Op: OpWriteAt, Short: true, Err: syscall.ENOSPC})
	if n, err := f.WriteAt([]byte("gh"), 3); n != 1 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("short write: %d, %v", n, err)
	}
	inj.Set(Rule{Op: OpReadAt, Short: true})
	b := []byte("........")
	if n, err := f.ReadAt(b[:4], 0); n != 2 || !errors.Is(err, io.ErrUnexpectedEOF) || string(b[:4]) != "ab.." {
		t.Errorf("short read: %d, %v, %q", n, err, b)
	}
	inj.Set()
	if got := readFile(t, fsys, "db/f"); got != "abcg" {
		t.Errorf("the file holds %q", got)
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys, _ := newFS(t, Rule{Op: OpSync, N: 2, Latency: time.Minute},
			Rule{Op: OpSync, N: 2, Latency: time.Second, Err: syscall.EIO})
		f := must(fsys.Create("db/f"))
		start := time.Now()
		check(t, f.Sync())
		if d := time.Since(start); d != 0 {
			t.Errorf("the first sync took %v", d)
		}
		if err := f.Sync(); !errors.Is(err, syscall.EIO) || time.Since(start) != 61*time.Second {
			t.Errorf("the second sync took %v: %v", time.Since(start), err)
		}
		fsys.Injector().Set(Rule{Op: OpSync, Latency: time.Minute})
		check(t, f.Sync()) // waiting alone is no fault
		if c := fsys.Injector().Count(); c != 1 {
			t.Errorf("%d faults", c)
		}
	})
}

// TestCloseAndUnlockHappen: a failing close must not leak what it closes.
func TestCloseAndUnlockHappen(t *testing.T) {
	fsys, _ := newFS(t, Rule{Op: OpClose}, Rule{Op: OpUnlock})
	f := must(fsys.Create("db/f"))
	if err := f.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("close: %v", err)
	}
	if _, err := f.Size(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("still open: %v", err)
	}
	l := must(fsys.Lock("db/LOCK", ""))
	if err := l.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("unlock: %v", err)
	}
	must(fsys.Lock("db/LOCK", ""))
}

// TestAfterDoesNotLeak: a file created behind the caller's back is closed.
func TestAfterDoesNotLeak(t *testing.T) {
	m := vfs.NewMem(vfs.MemOptions{WindowsRules: true})
	fsys := New(m, NewInjector(Rule{Op: OpCreate, After: true}, Rule{Op: OpLock, After: true}))
	if _, err := fsys.Create("f"); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	check(t, m.Remove("f")) // exists, and is not open
	if _, err := fsys.Lock("LOCK", ""); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	check(t, m.Remove("LOCK"))
}
