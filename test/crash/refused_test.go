package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/saver"
)

// opening are the operations that a system may refuse before it changes anything: open(2), rename(2), mkdir(2), and
// what opens a directory or a lock.
var opening = []faultfs.Op{faultfs.OpCreate, faultfs.OpOpenReadWrite, faultfs.OpOpen, faultfs.OpRename, faultfs.OpMkdirAll, faultfs.OpLock,
	faultfs.OpHold, faultfs.OpList}

// refusals are the errors of such a refusal, as vfs.FS has them; ENOSPC has tests of its own.
var refusals = []error{tooMany(syscall.EMFILE), tooMany(syscall.ENFILE), syscall.ENOMEM, syscall.EACCES, syscall.EPERM, syscall.EROFS}

func tooMany(e syscall.Errno) error { return fmt.Errorf("%w: %w", fault.ErrTooManyFiles, e) }

// errRefusal stands for all of refusals, one after another.
var errRefusal = errors.New("a refusal")

// TestRefused lets the system refuse calls for a while, beginning before every step of a program in turn: because
// no file descriptor is left, or no memory, or because the directory may not be written to. What needs such a call
// is refused with that error and poisons nothing, reads go on, what was acknowledged stays, and writes go on
// afterwards without a reopening.
func TestRefused(t *testing.T) {
	t.Parallel()
	steps, model := faultProgram(), newAnswers()
	stride := 1
	if race.Enabled {
		stride = 8
	}
	refused := map[error]int{}
	for _, state := range []struct {
		ops    []faultfs.Op
		causes []error
		reads  bool // go on meanwhile, whatever they need
	}{
		{[]faultfs.Op{faultfs.OpCreate, faultfs.OpOpenReadWrite, faultfs.OpOpen, faultfs.OpLock, faultfs.OpHold, faultfs.OpList}, refusals[:3], false},
		{[]faultfs.Op{faultfs.OpCreate, faultfs.OpRename, faultfs.OpRemove, faultfs.OpMkdirAll}, refusals[3:], true},
	} {
		for _, cause := range state.causes {
			for begin := 0; begin < len(steps); begin += stride {
				r := newFaultRun(faultfs.Rule{N: 1 << 30, Err: cause}, model)
				if err := r.open(); err != nil {
					t.Fatal(err)
				}
				var rules []faultfs.Rule
				for _, op := range state.ops {
					rules = append(rules, faultfs.Rule{Op: op, Sticky: true, Err: cause})
				}
				for i, s := range steps {
					switch r.at = i; i {
					case begin:
						r.inj.Set(rules...)
						if !state.reads {
							r.refuses = rules
						}
					case begin + 5:
						r.inj.Set()
						r.refuses = nil
					}
					if err := r.step(s); err != nil {
						t.Fatalf("%v from step %d on: step %d, %s: %v", cause, begin, i, s.what, err)
					}
				}
				r.inj.Set()
				r.refuses = nil
				for _, err := range r.errs {
					if !errors.Is(err, cause) || errors.Is(err, fault.ErrPoisoned) {
						t.Fatalf("%v from step %d on: %v", cause, begin, err)
					}
				}
				if len(r.errs) > 0 {
					refused[cause]++
				}
				before := len(r.acked)
				if err := r.step(step{what: "go on", call: func(ctx context.Context, s full) error {
					return s.PutWrites(ctx, saver.Config{ThreadID: "resumed", CheckpointID: "1"}, []saver.Write{{Channel: "c", Value: saver.ValueOf("v")}}, "t", "")
				}}); err != nil || len(r.acked) != before+1 {
					t.Fatalf("%v from step %d on: writes do not go on: %v", cause, begin, err)
				}
				if err := r.end(); err != nil {
					t.Fatalf("%v from step %d on: %v", cause, begin, err)
				}
			}
		}
	}
	if slices.ContainsFunc(refusals, func(cause error) bool { return refused[cause] == 0 }) {
		t.Errorf("a refusal refused nothing: %v", refused)
	}
	t.Logf("runs with refusals: %v", refused)
}
