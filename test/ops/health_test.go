package ops

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// kinds are the names of the problems.
func kinds(h metrics.Health) []metrics.Trouble {
	out := []metrics.Trouble{}
	for _, p := range h.Problems {
		out = append(out, p.Kind)
	}
	return out
}

func wantHealth(t *testing.T, d *disk.Saver, status metrics.Status, want ...metrics.Trouble) metrics.Health {
	t.Helper()
	h := d.Health()
	if h.Status != status || !slices.Equal(kinds(h), append([]metrics.Trouble{}, want...)) {
		t.Errorf("health is %v %v, want %v %v", h.Status, h.Problems, status, want)
	}
	return h
}

func TestHealthOfASoundStore(t *testing.T) {
	d, err := disk.Open(t.TempDir(), disk.Options{LowSpace: -1})
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, d, "t", 1, saver.ValueOf("v"))
	h := wantHealth(t, d, metrics.StatusOK)
	if h.Space.Free <= 0 || h.Space.Total < h.Space.Free || h.Space.Reserve != 8<<20 || h.Space.LowSpace != 0 {
		t.Errorf("space: %+v", h.Space)
	}
	if h.Lag != (metrics.Lag{}) || h.LogBytes <= 0 || h.CompactionDebt != 0 {
		t.Errorf("%+v", h)
	}
	b, err := json.Marshal(h)
	if err != nil || !strings.Contains(string(b), `"status":"ok","problems":[]`) {
		t.Errorf("%s, %v", b, err)
	}
	mustClose(t, d)
	h = wantHealth(t, d, metrics.StatusFailed, metrics.TroubleClosed)
	if !errors.Is(h.Problems[0].Err, saver.ErrClosed) {
		t.Errorf("%+v", h)
	}
}

// A closed store is closed and nothing else, whatever its path leads to now: nothing, or a
// store of somebody else.
func TestHealthOfAClosedStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for name, then := range map[string]func(t *testing.T){
		"there": func(*testing.T) {},
		"gone": func(t *testing.T) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := disk.Open(dir, disk.Options{LowSpace: math.MaxInt64}) // degraded until it is closed
			if err != nil {
				t.Fatal(err)
			}
			wantHealth(t, d, metrics.StatusDegraded, metrics.TroubleDiskLow)
			mustClose(t, d)
			then(t)
			h := wantHealth(t, d, metrics.StatusFailed, metrics.TroubleClosed)
			if h.Space.Free != math.MaxInt64 || h.Space.Total != 0 {
				t.Errorf("a device was asked: %+v", h.Space)
			}
			if _, err := d.Space(); !errors.Is(err, saver.ErrClosed) {
				t.Errorf("space: %v", err)
			}
		})
	}
}

// The watermark is reported once until there was more room, and writes go on; below
// the reserve they do not.
func TestLowSpace(t *testing.T) {
	var low []int64
	var full []error
	opts := disk.Options{LowSpace: 48 << 20, DiskReserve: 16 << 20, ManualWork: true, NoPatches: true,
		Events: metrics.Events{LowSpace: func(free int64) { low = append(low, free) }, DiskFull: func(err error) { full = append(full, err) }}}
	d, _, mem := open(t, opts, 128<<20)
	defer mustClose(t, d)
	mb := saver.ValueOf(strings.Repeat("x", 1<<20))
	n := 0
	write := func(k int) {
		t.Helper()
		for range k {
			n++
			mustPut(t, d, "t", n, mb)
		}
	}
	write(2)
	wantHealth(t, d, metrics.StatusOK)
	mem.SetCapacity(100 << 20)
	write(60)
	h := wantHealth(t, d, metrics.StatusDegraded, metrics.TroubleDiskLow)
	if len(low) != 1 || low[0] >= 48<<20 || h.Space.Free >= 48<<20 {
		t.Errorf("low space was reported as %v, health %+v", low, h.Space)
	}
	mem.SetCapacity(256 << 20)
	write(2)
	wantHealth(t, d, metrics.StatusOK)
	mem.SetCapacity(100 << 20)
	write(2)
	if len(low) != 2 {
		t.Errorf("low space was reported %d times, want again after it was better", len(low))
	}
	mem.SetCapacity(70 << 20)
	var err error
	for range 3 { // the log asks every so many bytes
		err = errors.Join(err, put(d, "u", 1, mb))
	}
	if !errors.Is(err, fault.ErrDiskFull) || len(full) == 0 {
		t.Fatalf("%v, events %v", err, full)
	}
	h = wantHealth(t, d, metrics.StatusFailed, metrics.TroubleDiskFull)
	if !errors.Is(h.Problems[0].Err, fault.ErrDiskFull) {
		t.Errorf("%+v", h.Problems)
	}
	mem.SetCapacity(256 << 20)
	mustPut(t, d, "v", 1, mb)
	wantHealth(t, d, metrics.StatusOK)
}

func TestHealthOfAPoisonedStore(t *testing.T) {
	var poisoned []error
	d, g, _ := open(t, disk.Options{Events: metrics.Events{Poisoned: func(err error) { poisoned = append(poisoned, err) }}}, 0)
	mustPut(t, d, "t", 1, saver.ValueOf(1))
	g.fail(syscall.EIO)
	if err := put(d, "t", 2, saver.ValueOf(1)); err == nil {
		t.Fatal("a failed sync went unnoticed")
	}
	h := d.Health()
	if h.Status != metrics.StatusFailed || len(h.Problems) == 0 || h.Problems[0].Kind != metrics.TroublePoisoned ||
		!errors.Is(h.Problems[0].Err, fault.ErrPoisoned) || !errors.Is(h.Problems[0].Err, syscall.EIO) {
		t.Errorf("%+v", h)
	}
	if err := d.Close(); err == nil {
		t.Error("a poisoned store was closed without an error")
	}
	if len(poisoned) != 1 {
		t.Errorf("reported %d times", len(poisoned))
	}
}

// In a relaxed mode Health says what power loss would take, and complains when a
// sync is overdue.
func TestLag(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, g, _ := open(t, disk.Options{Sync: disk.SyncInterval, SyncInterval: time.Second}, 0)
		mustPut(t, d, "t", 1, saver.ValueOf("v")) // the file is there now, and synced with its header
		time.Sleep(3 * time.Second)
		if h := wantHealth(t, d, metrics.StatusOK); h.Lag != (metrics.Lag{}) {
			t.Errorf("all is durable, and the lag is %+v", h.Lag)
		}
		g.close()
		mustPut(t, d, "t", 2, saver.ValueOf("v"))
		h := wantHealth(t, d, metrics.StatusOK)
		if h.Lag.Records != 1 || h.Lag.Bytes <= 0 || h.Lag.Age != 0 {
			t.Errorf("lag of one record: %+v", h.Lag)
		}
		time.Sleep(4 * time.Second)
		mustPut(t, d, "t", 3, saver.ValueOf("v"))
		if h := wantHealth(t, d, metrics.StatusOK); h.Lag.Records != 2 || h.Lag.Age != 4*time.Second {
			t.Errorf("lag after 4 s: %+v", h.Lag)
		}
		time.Sleep(3 * time.Second)
		if h := wantHealth(t, d, metrics.StatusDegraded, metrics.TroubleLag); h.Lag.Age != 7*time.Second {
			t.Errorf("lag after 7 s: %+v", h.Lag)
		}
		g.open()
		synctest.Wait()
		// That sync began 6 s ago and covers the first record; the other waits for the next.
		if h := d.Health(); h.Lag.Records > 1 || h.Lag.Age > 6*time.Second {
			t.Errorf("lag after a sync: %+v", h.Lag)
		}
		time.Sleep(3 * time.Second)
		if h := wantHealth(t, d, metrics.StatusOK); h.Lag != (metrics.Lag{}) {
			t.Errorf("lag in the end: %+v", h.Lag)
		}
		mustClose(t, d)
	})
}

// What the system refuses though the device has room, by a quota or a limit of the process, is reported until a commit is made.
func TestHealthOfARefusal(t *testing.T) {
	for cause, op := range map[error]faultfs.Op{ // a full log needs a new file
		errors.Join(syscall.ENOSPC, syscall.EDQUOT):          faultfs.OpWriteAt,
		errors.Join(syscall.ENOSPC, syscall.EFBIG):           faultfs.OpWriteAt,
		errors.Join(fault.ErrTooManyFiles, syscall.EMFILE):   faultfs.OpCreate,
		errors.Join(fs.ErrPermission, error(syscall.EACCES)): faultfs.OpCreate,
	} {
		inj := faultfs.NewInjector()
		d, err := disk.Open("store", disk.Options{LowSpace: -1, DiskReserve: -1, LogFileSize: 64 << 10}.In(disk.Simulation{FS: faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj)}))
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, d, "t", 1, saver.ValueOf("v"))
		inj.Set(faultfs.Rule{Op: op, Err: cause, Sticky: true})
		full := make([]byte, 40<<10)
		_, _ = rand.NewChaCha8([32]byte{}).Read(full) // it does not fail
		for n := 2; err == nil && n < 300; n++ {
			err = put(d, "t", n, saver.ValueOf(full))
		}
		if !errors.Is(err, cause) {
			t.Errorf("%v: %v", cause, err)
		}
		if h := wantHealth(t, d, metrics.StatusDegraded, metrics.TroubleRefused); len(h.Problems) == 1 && !errors.Is(h.Problems[0].Err, cause) {
			t.Errorf("the cause is lost: %+v", h.Problems[0])
		}
		inj.Set()
		mustPut(t, d, "t", 301, saver.ValueOf("v"))
		wantHealth(t, d, metrics.StatusOK)
		mustClose(t, d)
	}
}

// A background flush that fails, and the log that grows for it, are reported.
func TestHealthOfABacklog(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, g, _ := open(t, disk.Options{FlushBytes: 64 << 10, NoPatches: true}, 0)
		g.refuse(".seg")
		mustPut(t, d, "t", 1, saver.ValueOf(strings.Repeat("x", 512<<10)))
		synctest.Wait()
		h := wantHealth(t, d, metrics.StatusDegraded, metrics.TroubleBacklog, metrics.TroubleBackground)
		if !errors.Is(h.Problems[1].Err, syscall.EACCES) || !errors.Is(d.Stats().WorkError, syscall.EACCES) {
			t.Errorf("the cause is lost: %+v", h.Problems[1])
		}
		g.refuse("")
		time.Sleep(2 * time.Second) // the worker rests after a failure
		mustPut(t, d, "t", 2, saver.ValueOf("x"))
		synctest.Wait()
		wantHealth(t, d, metrics.StatusOK)
		mustClose(t, d)
	})
}

// A compaction that is given too little of the device to keep up is reported, and
// what it owes is what it would read.
func TestHealthOfACompactionDebt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _, _ := open(t, disk.Options{CompactRate: 1, CompactFanout: 3, ImageBytes: 1, NoPatches: true}, 0)
		for n := 1; n <= 3; n++ {
			mustPut(t, d, "t", n, saver.ValueOf(strings.Repeat("x", 100*n)))
			synctest.Wait()
			if err := d.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		mustPut(t, d, "t", 4, saver.ValueOf("x"))
		synctest.Wait()
		st := d.Stats()
		if h := wantHealth(t, d, metrics.StatusDegraded, metrics.TroubleDebt); h.CompactionDebt != st.SegmentBytes || st.CompactionDebt != st.SegmentBytes || st.Segments != 3 {
			t.Errorf("debt %d, %+v", h.CompactionDebt, st)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if st := d.Stats(); st.Segments != 1 || st.CompactionDebt != 0 {
			t.Errorf("a day later: %+v", st)
		}
		wantHealth(t, d, metrics.StatusOK)
		mustClose(t, d)
	})
}

func TestLowSpaceBelowTheReserveIsRefused(t *testing.T) {
	for _, o := range []disk.Options{{LowSpace: 1 << 20}, {LowSpace: 1 << 30, DiskReserve: 2 << 30}} {
		if _, err := disk.Open(t.TempDir(), o); !errors.Is(err, saver.ErrInvalid) {
			t.Errorf("%d below %d: %v", o.LowSpace, o.DiskReserve, err)
		}
	}
	d, err := disk.Open(t.TempDir(), disk.Options{LowSpace: 1, DiskReserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, d)
}
