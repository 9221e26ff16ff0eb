package runs

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/saver/serde"
)

// Queue keeps runs. NewLocal makes one in the long-term store of a program, package pgqueue of
// module postgres one on PostgreSQL; runstest has the tests of the contract. All methods are
// safe for concurrent use. When a call returns nil, what it did survives the death of the
// process, and it is durable, or will be before anybody sees it; see Local. Times are UTC in whole
// microseconds.
//
// # Order
//
// Runs of one thread are begun one after another, in the order of their submission. A run
// whose time has not come does not hold the others up. A run that was begun has the thread
// until it ends, also while it waits for its next attempt. One that is tried again by Retry
// takes its place by its submission, as if it had not been begun. Of runs
// on different threads those with the greatest priority come first, then those whose time
// came first.
//
// # Claims
//
// A worker claims a run, renews the claim, and finishes it. A claim that is not renewed for
// the queue's lease time is void, and the run can be claimed again. Each claim of a run has
// a greater epoch. A call with an epoch that is not the newest, or of a run that has ended,
// fails with ErrFenced and does nothing.
//
// # Versions
//
// A run can be given back for workers with one version of its graph; see Outcome.Version. Such a worker may
// claim it at once, before all others, and any worker when its time has come.
//
// # Children
//
// A run that a node of another has started is its child, and the thread of the other the parent: see Run.Parent
// and pregel.Child. Each of the following is in the commit that causes it, whoever makes that. When a run with a
// parent ends, but not at a question, or is removed, the runs of the parent's thread that have not ended are due,
// as by Wake. When a run that was begun ends with Success, but not at a question, or is interrupted, its children
// that have not ended, and are not Detached, are to be interrupted: a worker ends them. So are those of a thread
// whose last run is removed. A child is submitted only while the claim of its parent holds.
//
// # More than a Queue
//
// A queue may do more, which its users ask it for: WorkerQueue, for its workers (ForWorker); SubmitWith and
// Items, if it is in a store, so that a run and the server's records of it are one write; WatchEnd, which wakes
// at a run's end alone; SharesLog, whether it and a saver are durable together. A Local has them all.
type Queue interface {
	// Submit stores a run. Errors: InvalidError, BusyError, KeyError; ErrFenced for Request.Parent.
	Submit(ctx context.Context, req Request) (Run, error)

	// Get returns a run. Errors: ErrNotFound, UnreadableError.
	Get(ctx context.Context, id string) (Run, error)

	// List yields the runs that q selects, in the order of their ids, oldest first unless q says
	// otherwise. With an UnreadableError it yields the known fields of the run, at least its ID, and
	// then continues. Any other error is yielded last.
	List(ctx context.Context, q Query) iter.Seq2[Run, error]

	// Count is how many runs q selects: those that List yields, but for its After and Limit. By
	// thread or status alone, and of all, it decodes no run.
	Count(ctx context.Context, q Query) (int, error)

	// Cancel asks for the end of a run, with Interrupt or Rollback. One that no worker has
	// is Interrupted at once, but one that was begun and is to be rolled back, which needs a
	// worker. One that has ended stays as it is. A Rollback replaces an Interrupt. The
	// answer is the run as it is then.
	Cancel(ctx context.Context, id string, how Strategy) (Run, error)

	// Retry makes a run that ended with Error, or was interrupted, pending again, with no
	// attempt counted. It goes on where it was. On any other run it is an InvalidError.
	Retry(ctx context.Context, id string) (Run, error)

	// Claim takes the next run of one of the graphs; nil if there is none that may begin
	// now. Then next is when one may, if that is known. A run that was claimed as often as
	// it may be, and whose last claim is void, is not claimed: it ends with Error.
	Claim(ctx context.Context, worker string, graphs []string) (claim *Claim, next time.Time, err error)

	// Serve says that a worker is alive, for twice LeaseTime, and which version it has of each graph. No
	// versions say that it claims no more. It returns those that other workers have who are alive, by graph.
	Serve(ctx context.Context, worker string, versions map[string]string) (others map[string][]string, err error)

	// Versions counts the runs that have not ended, and the workers that are alive, by graph and version,
	// in that order. It looks at all these runs.
	Versions(ctx context.Context) ([]metrics.QueueVersion, error)

	// Wake makes the runs of a thread that sleep due now; see Run.Asleep. One that a worker has is due at once
	// when it is given back to sleep: it may have looked for what wakes it before that was there.
	Wake(ctx context.Context, threadID string) error

	// ChildEnd returns how the child on a thread has ended; ok is false if it has not. EndOf has the rule. A child
	// that ends after that makes the runs of its parent's thread due.
	ChildEnd(ctx context.Context, threadID string) (end ChildEnd, ok bool, err error)

	// Renew renews claims. It returns those that still hold, with what has become of the
	// runs: Cancel may have been set.
	Renew(ctx context.Context, claims []Claim) ([]Run, error)

	// Mark notes something of the worker's with the run, and the claim's Version.
	Mark(ctx context.Context, c Claim, mark string) error

	// Append stores events, behind those that are there, and returns the number of the
	// last. The numbers of a run's events begin with 1 and have no gaps.
	Append(ctx context.Context, c Claim, events []Event) (last int64, err error)

	// Finish stores Outcome.Events as Append does, and ends the claim, both or neither. A run that
	// is given back, and is to be interrupted, has ended.
	Finish(ctx context.Context, c Claim, o Outcome) error

	// Events returns stored events of a run, from the one behind after, and no more than
	// limit; 0 is no limit. Of a run that does not exist there are none. Errors: UnreadableError.
	Events(ctx context.Context, id string, after int64, limit int) ([]Event, error)

	// Watch returns a channel that gets a value, soon, when something about the run has
	// changed, its events included; with "" when there may be something for a worker to do:
	// a run to begin or to cancel. Changes that come together may be one value. It is a
	// hint, and may be lost: ask from time to time. stop ends it.
	Watch(id string) (changed <-chan struct{}, stop func())

	// PutSchedule stores a schedule, in place of one with its ID. Next is computed.
	PutSchedule(ctx context.Context, s Schedule) (Schedule, error)
	// Schedules returns all schedules, by ID, also those that cannot be decoded.
	Schedules(ctx context.Context) ([]Schedule, error)
	// Advance moves Next of a schedule, if it is still from; otherwise it does nothing.
	Advance(ctx context.Context, id string, from, to time.Time) error
	// DeleteSchedule removes a schedule. One that does not exist is no error.
	DeleteSchedule(ctx context.Context, id string) error

	// Delete removes a run that has ended, with its events, also one that cannot be decoded. One
	// that has not ended is an InvalidError, one that does not exist ErrNotFound.
	Delete(ctx context.Context, id string) error

	// Sweep removes the runs that ended before a time, with their events, and returns how
	// many. It leaves those of children whose parent may still ask for them: the run of its thread that was
	// begun last has not ended, or ended at a question or with an error.
	Sweep(ctx context.Context, before time.Time) (int, error)

	// LeaseTime is how long a claim holds without being renewed.
	LeaseTime() time.Duration
	// Serializer encodes inputs and events.
	Serializer() serde.Serializer
}

// Query selects runs. The zero Query selects all.
type Query struct {
	ThreadID string
	Graph    string
	Status   Status
	// Newest yields the newest run first.
	Newest bool
	// After is the id behind which to begin, in that order; Limit is how many runs to yield, 0 for all.
	After string
	Limit int
}

// Claim is a run that a worker has.
type Claim struct {
	Run
	// Discard: what the thread's run before this one left unfinished is dropped, because that run was
	// interrupted on purpose. It is the one that ended last of those that were begun.
	Discard bool
	// Before is the Version of the run that Discard looks at, "" if it was one of another graph.
	Before string
}

// Outcome says how a claim ends.
type Outcome struct {
	// Status is Success, Error or Interrupted; or Pending to give the run back.
	Status  Status
	Waiting bool   // see Run.Waiting; with Pending the run sleeps until After
	Error   string // see Run.Error
	// After is when a run that is given back may be claimed again.
	After time.Time
	// Delay, without After, is for how long it may not be claimed, by the queue's clock. The worker's may be another.
	Delay time.Duration
	// Uncounted takes the attempt back: it was not the run's fault. A run that sleeps has no attempts.
	Uncounted bool
	// Version, of a run that is given back, pins it: until then it is only for workers with this version of its
	// graph. A run with a requested cancellation is for all.
	Version string
	// Yields gives the thread up as well, of a run that is given back: others of the thread may begin before it.
	Yields bool
	// Events are the last of the attempt. They are stored before the run ends.
	Events []Event
}

// Schedule submits a run again and again.
type Schedule struct {
	ID string `json:"id"`
	// Cron is when: five fields, minute, hour, day of the month, month, day of the week, or
	// a descriptor such as @daily or @every 1h30m, as package robfig/cron reads them. A
	// prefix CRON_TZ=Europe/Berlin names the time zone; without one it is UTC.
	Cron string `json:"cron"`
	// Spec is the run. Without a thread each run has a new one.
	Spec Spec `json:"spec"`
	// Next is when the next run is due. Times that passed while no worker lived are made
	// up for by one run. A time that was put off by a clock that was ahead is corrected within a
	// minute; see DueAt. Where clocks are changed each time counts once; see NextTime.
	Next time.Time `json:"next"`
	// Unreadable is the error of decoding a stored schedule: then only the ID is set, and no worker
	// submits a run. PutSchedule replaces the schedule, DeleteSchedule removes it.
	Unreadable error `json:"-"`
	// Held: the store of the queue was restored since the schedule was stored, and was not released; no worker submits a run. See
	// Local.Held.
	Held bool `json:"-"`
}

// Errors of queues. Match with errors.Is.
var (
	// ErrNotFound: there is no such run.
	ErrNotFound = fmt.Errorf("run %w", fault.ErrNotFound)
	// ErrFenced: the claim is void, or the run has ended. Nothing was done.
	ErrFenced = errors.New("the claim of the run is void")
	// ErrBusy matches every BusyError.
	ErrBusy = errors.New("the thread is busy")
	// ErrInvalid matches every InvalidError.
	ErrInvalid = errors.New("invalid argument")
	// ErrNeverDue: a cron expression is one, and names no time, such as a 31st of February. It comes with an InvalidError.
	ErrNeverDue = errors.New("it names no time that comes")
	// ErrKey matches every KeyError.
	ErrKey = errors.New("the key is taken by another run")
	// ErrUnreadable matches every UnreadableError.
	ErrUnreadable = errors.New("the run cannot be decoded")
)

// BusyError is returned by Submit with Reject while the thread has a run that has not
// ended.
type BusyError struct{ ThreadID, RunID string }

// Error names the thread and the run.
func (e *BusyError) Error() string {
	return fmt.Sprintf("thread %q is busy with run %s", e.ThreadID, e.RunID)
}

// Is makes every BusyError match ErrBusy.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// KeyError is returned by Submit if its key is that of a run for another graph or thread.
type KeyError struct{ Key, RunID string }

// Error names the key and the run that has it.
func (e *KeyError) Error() string { return fmt.Sprintf("key %q is that of run %s", e.Key, e.RunID) }

// Is makes every KeyError match ErrKey.
func (e *KeyError) Is(target error) bool { return target == ErrKey }

// UnreadableError is about one run only: it is stored, but cannot be decoded. It is damaged, or a newer
// version or another serializer wrote it.
type UnreadableError struct {
	RunID string
	Err   error
}

// Error names the run and says why.
func (e *UnreadableError) Error() string {
	return fmt.Sprintf("run %s cannot be decoded: %v", e.RunID, e.Err)
}

// Is makes every UnreadableError match ErrUnreadable.
func (e *UnreadableError) Is(target error) bool { return target == ErrUnreadable }

// Unwrap returns why.
func (e *UnreadableError) Unwrap() error { return e.Err }

// InvalidError says which argument is wrong and why. Nothing was done.
type InvalidError struct{ Field, Reason string }

// Error is "invalid <field>: <reason>".
func (e *InvalidError) Error() string { return "invalid " + e.Field + ": " + e.Reason }

// Is makes every InvalidError match ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }
