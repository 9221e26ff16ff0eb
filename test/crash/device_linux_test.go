package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// These tests use real file systems of their own, which takes root and a kernel
// that allows it. Where that is not to be had they print why, and the file systems
// in memory are what there is.

// notRun prints the reason.
func notRun(t *testing.T, what, reason string) {
	line := fmt.Sprintf("%s: not run: %s", what, reason)
	fmt.Println(line)
	t.Log(line)
}

// blockFS is a file system on a loop device. That of btrfs, which cannot be shut down,
// lies in a file of an ext4 that can: what the inner one has not flushed is lost with the
// outer one.
type blockFS struct {
	kind, image, dir string
	outer            *blockFS // nil: image is a file of the machine
}

// deviceSizes are as small as each file system can be made.
var deviceSizes = map[string]int64{"ext4": 48 << 20, "xfs": 320 << 20, "btrfs": 128 << 20}

// makeBlockFS makes and mounts one, or says why it cannot.
func makeBlockFS(t *testing.T, kind string, size int64) (*blockFS, string) {
	if os.Geteuid() != 0 {
		return nil, "mounting takes root"
	}
	if _, err := exec.LookPath("mkfs." + kind); err != nil {
		return nil, err.Error()
	}
	b, force := &blockFS{kind: kind, dir: t.TempDir()}, "-f"
	switch kind {
	case "ext4":
		force = "-F"
	case "btrfs":
		var reason string
		if b.outer, reason = makeBlockFS(t, "ext4", size*3/2); b.outer == nil {
			return nil, reason
		}
	}
	b.image = filepath.Join(t.TempDir(), "device")
	if b.outer != nil {
		b.image = filepath.Join(b.outer.dir, "device")
	}
	f, err := os.Create(b.image)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		return nil, err.Error()
	}
	if out, err := exec.Command("mkfs."+kind, "-q", force, b.image).CombinedOutput(); err != nil {
		return nil, fmt.Sprintf("mkfs.%s: %v: %s", kind, err, out)
	}
	if err := b.mount(); err != nil {
		return nil, err.Error()
	}
	t.Cleanup(func() { _ = unix.Unmount(b.dir, unix.MNT_DETACH) })
	return b, ""
}

func (b *blockFS) mount() error {
	out, err := exec.Command("mount", "-o", "loop", b.image, b.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// off ends the file system as a power failure does: nothing that is not on the
// device yet gets there any more, not even the journal's memory.
func (b *blockFS) off() error {
	if b.outer != nil {
		return b.outer.off()
	}
	d, err := os.Open(b.dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	const shutdown = 0x8004587d // FS_IOC_SHUTDOWN
	how := uint32(2)            // without flushing the log
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, d.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		return fmt.Errorf("shut the file system down: %w", errno)
	}
	return nil
}

// again mounts it anew, which replays the file system's journal.
func (b *blockFS) again() error {
	if err := b.unmount(); err != nil {
		return err
	}
	if b.outer != nil {
		if err := b.outer.again(); err != nil {
			return err
		}
	}
	return b.mount()
}

// unmount waits until whatever used the file system a moment ago has let go.
func (b *blockFS) unmount() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Unmount(b.dir, 0)
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("unmount %s: %w", b.kind, err)
		}
	}
}

// TestPowerLossOnDevice takes the power from a file system while a process writes: in
// mode SyncAlways everything acknowledged is there afterwards, in the others a beginning
// of it.
//
// POWER_LOSSES sets how often, for each file system.
func TestPowerLossOnDevice(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) { powerLosses(t, kind) })
	}
}

func powerLosses(t *testing.T, kind string) {
	what := "power loss on a device (" + kind + ")"
	b, reason := makeBlockFS(t, kind, deviceSizes[kind])
	if b == nil {
		notRun(t, what, reason)
		return
	}
	dir := filepath.Join(b.dir, "store")
	seed := seedFrom(t, "CRASH_SEED")
	rng := rand.New(rand.NewPCG(seed, 9))
	losses, checkpoints, dropped := envInt(t, "POWER_LOSSES", 4), 0, 0
	for i := range losses {
		mode := []disk.SyncMode{disk.SyncAlways, disk.SyncAlways, disk.SyncInterval, disk.SyncNever}[i%4]
		atLeast, _ := readPrefix(t, dir)
		var offErr error
		last := startAcked(t, dir, mode).stop(t, 1+rng.IntN(60), time.Duration(rng.IntN(20))*time.Millisecond, func() { offErr = b.off() })
		if offErr != nil {
			notRun(t, what, offErr.Error())
			return
		}
		if err := b.again(); err != nil {
			t.Fatal(err)
		}
		if mode == disk.SyncAlways {
			atLeast = last
		}
		n, _ := readPrefix(t, dir)
		if n < atLeast || n > last+1 {
			t.Fatalf("repeat with CRASH_SEED=%d: %s, loss %d, mode %v: %d checkpoints acknowledged, at least %d durable, %d found", seed, kind, i, mode, last, atLeast, n)
		}
		checkpoints, dropped = checkpoints+n, dropped+max(0, last-n)
		if err := recoverAfter(dir, n); err != nil {
			t.Fatalf("loss %d, mode %v: %v", i, mode, err)
		}
	}
	line := fmt.Sprintf("%s: %d losses, %d checkpoints found, 0 durable ones missing, %d of relaxed modes lost", what, losses, checkpoints, dropped)
	fmt.Println(line)
	t.Log(line)
}

// recoverAfter opens the store for writing: what a reader saw is there.
func recoverAfter(dir string, n int) error {
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	got, err := newest(s)
	if err == nil && got != n {
		err = fmt.Errorf("recovered %d checkpoints, a reader saw %d", got, n)
	}
	return errors.Join(err, s.Close())
}

// TestFullDevice fills a file system to its last byte, with the store's own files
// and then with another's: calls are refused with ErrDiskFull, reads and deletions
// go on, and when there is room so do writes, without a reopening.
func TestFullDevice(t *testing.T) {
	const what = "full device"
	mounted := t.TempDir()
	if err := unix.Mount("tmpfs", mounted, "tmpfs", 0, "size=24m"); err != nil {
		notRun(t, what, "mount: "+err.Error())
		return
	}
	t.Cleanup(func() { _ = unix.Unmount(mounted, unix.MNT_DETACH) })
	ctx, dir := context.Background(), filepath.Join(mounted, "store")
	opts := disk.Options{LogFileSize: 1 << 20, FlushBytes: 4 << 20, DiskReserve: 6 << 20, CompactRate: -1}
	s, err := disk.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := fill(ctx, s, 1)
	if !errors.Is(err, fault.ErrDiskFull) || errors.Is(err, fault.ErrPoisoned) {
		t.Fatalf("after %d puts: %v, want a clean ErrDiskFull", stored, err)
	}
	checkLength(t, s, stored)
	ballast, err := os.Create(filepath.Join(mounted, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(ballast, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("fill the device: %v", err)
	}
	if err := putNumber(ctx, s, stored+1); !errors.Is(err, fault.ErrDiskFull) || errors.Is(err, fault.ErrPoisoned) {
		t.Fatalf("put on a device without a free byte: %v", err)
	}
	checkLength(t, s, stored)
	if err := errors.Join(ballast.Close(), os.Remove(ballast.Name())); err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // the reserve is what these live on
		if err := s.DeleteThread(ctx, fmt.Sprint("thread", i)); err != nil {
			t.Fatalf("delete on a full device: %v", err)
		}
	}
	if err := s.Compact(ctx); err != nil {
		t.Fatalf("compact on a full device: %v", err)
	}
	if err := putNumber(ctx, s, 4*stored+3); err != nil {
		t.Fatalf("put after there is room: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = disk.Open(dir, opts); err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, err := range s.List(ctx, saver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		left++
	}
	if want := stored/4 + 1; left < want-1 || left > want+1 {
		t.Errorf("%d checkpoints are left of %d, want about %d", left, stored, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf("%s (tmpfs, 24 MiB): refused after %d puts, resumed after deletions", what, stored)
	fmt.Println(line)
	t.Log(line)
}

// fill puts checkpoints from number n on until one is refused, and returns the
// last that was not.
func fill(ctx context.Context, s saver.Saver, n int) (int, error) {
	for ; n < 100_000; n++ {
		if err := putBallast(ctx, s, n, 20_000); err != nil {
			return n - 1, err
		}
	}
	return n - 1, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
