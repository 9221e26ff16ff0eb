package runs

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/robfig/cron/v3"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/serde"
)

// The rules that all queues share.

// DefaultAttempts is what Spec.Attempts is if it is 0.
const DefaultAttempts = 3

// maxName bounds ids, names and keys, in bytes.
const maxName = 1 << 10

// NewRun makes the run of a request at a time, for implementers of Queue. It has all defaults, an ID,
// and a thread. Errors: InvalidError, and those of the serializer.
func NewRun(req Request, codec serde.Serializer, now time.Time) (Run, error) {
	now = now.UTC().Truncate(time.Microsecond)
	r := Run{Spec: req.Spec, Key: req.Key, Status: Pending, Detached: req.Detached, After: req.After.UTC().Truncate(time.Microsecond), Created: now}
	if err := checkSpec(&r.Spec); err != nil {
		return Run{}, err
	}
	if err := checkName("key", req.Key); err != nil {
		return Run{}, err
	}
	if req.Detached && req.Parent == nil {
		return Run{}, &InvalidError{"detached", "is for a run with a parent"}
	}
	if req.Parent != nil && req.Parent.ThreadID == req.ThreadID {
		return Run{}, &InvalidError{"parent", "is a run of the same thread"}
	}
	if req.Input != nil || r.Input.Kind == "" {
		typed, err := codec.Encode(graph.InputOf(req.Input))
		if err != nil {
			return Run{}, fmt.Errorf("input: %w", err)
		}
		r.Input = typed
	}
	if r.ID = newID(now); req.Parent != nil {
		r.Parent = req.Parent.ThreadID
	}
	if r.ThreadID == "" {
		r.ThreadID = newID(now)
	}
	if r.After.Before(now) {
		r.After = now
	}
	return r, nil
}

// checkSpec refuses a Spec that no worker could run, and sets the defaults.
func checkSpec(s *Spec) error {
	if s.Graph == "" {
		return &InvalidError{"graph", "missing; name the graph to run"}
	}
	for field, name := range map[string]string{"graph": s.Graph, "thread_id": s.ThreadID, "checkpoint_id": s.CheckpointID} {
		if err := checkName(field, name); err != nil {
			return err
		}
	}
	if s.Multitask == "" {
		s.Multitask = Enqueue
	}
	if s.Attempts == 0 {
		s.Attempts = DefaultAttempts
	}
	switch {
	case !slices.Contains([]Strategy{Enqueue, Reject, Interrupt, Rollback}, s.Multitask):
		return &InvalidError{"multitask", fmt.Sprintf("%q is none; there are enqueue, reject, interrupt, rollback", s.Multitask)}
	case s.Attempts < 0:
		return &InvalidError{"attempts", "is negative; 0 is the default"}
	case s.RecursionLimit < 0:
		return &InvalidError{"recursion_limit", "is negative; 0 is the default"}
	case !slices.Contains([]pregel.Durability{"", pregel.Sync, pregel.Async, pregel.Exit}, s.Durability):
		return &InvalidError{"durability", fmt.Sprintf("%q is none; there are sync, async, exit", s.Durability)}
	}
	for field, m := range map[string]map[string]any{"metadata": s.Metadata, "configurable": s.Configurable, "context": s.Context, "labels": s.Labels} {
		if isPlain(m, plainDepth) {
			continue
		}
		text, err := json.Marshal(m)
		if err != nil {
			return &InvalidError{field, "is not plain JSON: " + err.Error()}
		}
		// The stored text is nested in other objects. Package json writes deeper nesting than it reads.
		if !json.Valid(slices.Concat(bytes.Repeat([]byte{'['}, plainDepth), text, bytes.Repeat([]byte{']'}, plainDepth))) {
			return &InvalidError{field, "is nested too deeply to be read again"}
		}
	}
	return nil
}

// plainDepth is how deep isPlain looks. Deeper values, also those that contain themselves, are left to
// package json.
const plainDepth = 100

// isPlain reports whether v is sure to be writable and readable as JSON, by its types alone.
func isPlain(v any, depth int) bool {
	if depth == 0 {
		return false
	}
	switch x := v.(type) {
	case nil, bool, string, int, int64, []string:
		return true
	case map[string]any:
		for _, e := range x {
			if !isPlain(e, depth-1) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(x, func(e any) bool { return !isPlain(e, depth-1) })
	}
	return false
}

func checkName(field, name string) error {
	if len(name) > maxName {
		return &InvalidError{field, fmt.Sprintf("has %d bytes, the limit is %d", len(name), maxName)}
	}
	return CheckText(field, name)
}

// CheckCancel refuses a Strategy that cannot cancel a run.
func CheckCancel(how Strategy) error {
	if how != Interrupt && how != Rollback {
		return &InvalidError{"cancel", fmt.Sprintf("%q is none; there are interrupt and rollback", how)}
	}
	return nil
}

// CheckOutcome refuses an outcome that is none.
func CheckOutcome(o Outcome) error {
	if o.Status != Pending && !o.Status.Ended() {
		return &InvalidError{"status", fmt.Sprintf("%q is no outcome", o.Status)}
	}
	if err := checkName("version", o.Version); err != nil {
		return err
	}
	return CheckEvents(o.Events)
}

// CheckRetry refuses a run that cannot be tried again.
func CheckRetry(r Run) error {
	if r.Status != Error && r.Status != Interrupted || r.Cancel == Rollback {
		return &InvalidError{"run", fmt.Sprintf("%s is %s; only one that failed or was interrupted, and was not rolled back, can be tried again", r.ID, r.Status)}
	}
	return nil
}

// CheckDelete refuses a run that has not ended.
func CheckDelete(r Run) error {
	if !r.Status.Ended() {
		return &InvalidError{"run", fmt.Sprintf("%s is %s; cancel it, and delete it when it has ended", r.ID, r.Status)}
	}
	return nil
}

// CheckStored returns an UnreadableError for a run whose status or cancellation this version does not
// know, for implementers of Queue: no worker could execute it.
func CheckStored(r Run) error {
	for _, c := range []struct {
		what, is string
		known    []string
	}{
		{"status", string(r.Status), []string{string(Pending), string(Running), string(Success), string(Error), string(Interrupted)}},
		{"cancellation", string(r.Cancel), []string{"", string(Interrupt), string(Rollback)}},
	} {
		if !slices.Contains(c.known, c.is) {
			return &UnreadableError{r.ID, fmt.Errorf("its %s is %q; a newer version may know it", c.what, c.is)}
		}
	}
	return nil
}

// CheckText refuses what is not UTF-8 without U+0000.
func CheckText(field, s string) error {
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return &InvalidError{field, "is not UTF-8 without U+0000"}
	}
	return nil
}

// Text returns s as text that can be stored: invalid UTF-8 and U+0000 become U+FFFD.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// CheckServed refuses what Queue.Serve cannot note of a worker.
func CheckServed(worker string, versions map[string]string) error {
	err := checkName("worker", worker)
	for graph, version := range versions {
		err = cmp.Or(err, checkName("graph", graph), checkName("version", version))
	}
	return err
}

// CheckEvents refuses events that cannot be stored.
func CheckEvents(events []Event) error {
	for _, ev := range events {
		if err := checkName("kind", string(ev.Kind)); err != nil {
			return err
		}
		if err := checkName("kind of the data", ev.Data.Kind); err != nil {
			return err
		}
	}
	return nil
}

// GivenUp is the error of a run that was claimed as often as it may be, if no attempt left
// one.
func GivenUp(r Run) string {
	return fmt.Sprintf("given up: %d attempts were begun, and no worker came to an end", r.Attempt)
}

// SameKey returns nil if a request with the key of a stored run has the same content; otherwise a
// KeyError.
func SameKey(stored Run, asked Request) error {
	if stored.Graph != asked.Graph || asked.ThreadID != "" && stored.ThreadID != asked.ThreadID {
		return &KeyError{Key: stored.Key, RunID: stored.ID}
	}
	return nil
}

// NewSchedule is a schedule as it is stored at a time: checked, and with Next.
func NewSchedule(s Schedule, codec serde.Serializer, now time.Time) (Schedule, error) {
	if s.ID == "" {
		return s, &InvalidError{"schedule", "has no ID"}
	}
	if err := checkName("schedule", s.ID); err != nil {
		return s, err
	}
	if err := checkSpec(&s.Spec); err != nil {
		return s, err
	}
	if s.Spec.Input.Kind == "" {
		typed, err := codec.Encode(nil)
		if err != nil {
			return s, err
		}
		s.Spec.Input = typed
	}
	if err := CheckCron(s.Cron); err != nil {
		return s, err
	}
	next, err := NextTime(s.Cron, now)
	s.Next = next
	return s, err
}

// CheckCron refuses what a new schedule may not have, though NextTime takes it, as stored ones do: a time between that
// is no whole number of seconds, or none. The error is an InvalidError.
func CheckCron(expression string) error {
	if _, every, ok := strings.Cut(expression, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && (d < time.Second || d%time.Second != 0) {
			return &InvalidError{"cron", fmt.Sprintf("%q is no whole number of seconds, of which one is the least", expression)}
		}
	}
	return nil
}

// NextTime is the first time after now that a cron expression names; see Schedule.Cron. An expression
// that is none, or that names no time (ErrNeverDue), is an InvalidError.
//
// Where the clocks of its time zone are set forward, times between are skipped: an expression that
// names some of them is due at the moment of the change. Where they are set back, times come twice: it
// is due the first time. An expression whose hours begin with * is due in each hour that passes.
func NextTime(expression string, now time.Time) (time.Time, error) {
	if !strings.HasPrefix(expression, "CRON_TZ=") && !strings.HasPrefix(expression, "TZ=") {
		now = now.UTC()
	}
	if strings.Contains(expression, "TZ=") && !strings.Contains(expression, " ") { // the parser panics
		return time.Time{}, &InvalidError{"cron", fmt.Sprintf("%q has a time zone and nothing else", expression)}
	}
	at, err := cron.ParseStandard(expression)
	if err != nil {
		return time.Time{}, &InvalidError{"cron", err.Error()}
	}
	next := time.Time{}
	switch spec, ok := at.(*cron.SpecSchedule); {
	case !ok:
		next = at.Next(now)
	case everyHour(expression):
		next = nextPassing(spec, now)
	default:
		next = nextOnce(spec, now)
	}
	if next.IsZero() {
		return next, fmt.Errorf("%w: %w", &InvalidError{"cron", fmt.Sprintf("%q", expression)}, ErrNeverDue)
	}
	return next.UTC(), nil
}

// everyHour reports whether the hours of a cron expression, which is valid, begin with *.
func everyHour(expression string) bool {
	fields := strings.Fields(expression)
	if strings.Contains(fields[0], "TZ=") {
		fields = fields[1:]
	}
	return fields[0] == "@hourly" || len(fields) == 5 && strings.ContainsAny(fields[1][:1], "*?")
}

// nextOnce returns the first time after now of a schedule for certain hours, assuming that each day has
// each hour once. It computes with the wall clock's time as if it were UTC, which has no changes.
func nextOnce(spec *cron.SpecSchedule, now time.Time) time.Time {
	zone, shown := zoneOf(spec, now), *spec
	shown.Location = time.UTC
	for wall := shown.Next(wallOf(now.In(zone))); !wall.IsZero(); wall = shown.Next(wall) {
		if at := firstAt(wall, zone); at.After(now) { // else the clocks have shown it before they were set back
			return at
		}
	}
	return time.Time{}
}

// nextPassing is the first time after now of a schedule that goes by the time that passes. It goes from one
// change of the clocks to the next: in between they are ahead of UTC by the same.
func nextPassing(spec *cron.SpecSchedule, now time.Time) time.Time {
	zone, between := zoneOf(spec, now), *spec
	for {
		first := now.Add(time.Second).In(zone)
		_, offset := first.Zone()
		between.Location = time.FixedZone("", offset)
		next := between.Next(now)
		_, end := first.ZoneBounds()
		if next.IsZero() || end.IsZero() || next.Before(end) {
			return next
		}
		if !end.After(first) { // package time counts 365 days in a leap year: its last day never ends
			if end = first.Add(24 * time.Hour); next.Before(end) {
				return next
			}
		}
		now = end.Add(-time.Second)
	}
}

// zoneOf is the time zone of a schedule: that of now, if its expression names none.
func zoneOf(spec *cron.SpecSchedule, now time.Time) *time.Location {
	if spec.Location == time.Local {
		return now.Location()
	}
	return spec.Location
}

// wallOf returns the time that the wall clock shows, as a time of UTC.
func wallOf(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// firstAt is when the clocks of a zone show a time first; of one that they skip, when they are changed.
func firstAt(wall time.Time, zone *time.Location) time.Time {
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, zone)
	if ahead := wall.Sub(wallOf(at)); ahead > 0 { // skipped: to behind the change
		at = at.Add(ahead)
	}
	since, _ := at.ZoneBounds()
	if since.IsZero() {
		return at
	}
	if wallOf(at).After(wall) {
		return since
	}
	_, offset := since.Add(-1).Zone()
	if before := wall.Add(-time.Duration(offset) * time.Second); before.Before(since) {
		return before.In(zone)
	}
	return at
}

// clockTolerance is how much the clocks of programs may differ.
const clockTolerance = time.Minute

// DueAt is when a schedule is due, whose next time is stored. That is the stored time, unless it was
// computed while the clock was ahead by more than a minute: then it is the next one by the clock now.
func DueAt(expression string, stored, now time.Time) (time.Time, error) {
	latest, err := NextTime(expression, now.Add(clockTolerance))
	if err != nil || !stored.After(latest) {
		return stored, err
	}
	return NextTime(expression, now)
}

var lastID struct {
	sync.Mutex
	at uint64
}

// idsFollow makes IDs greater than one that is stored: the clock may have been set back since.
func idsFollow(id string) {
	if len(id) != 36 || id[14] != '7' {
		return
	}
	at, err := strconv.ParseUint(id[:8]+id[9:13]+id[15:18], 16, 64)
	if err != nil {
		return
	}
	lastID.Lock()
	defer lastID.Unlock()
	lastID.at = max(lastID.at, at)
}

// newID is a UUID of version 7 (RFC 9562): its first 60 bits grow with each ID of this
// process, and with time.
func newID(now time.Time) string {
	lastID.Lock()
	at := max(uint64(now.UnixMilli())<<12|uint64(now.Nanosecond()%1e6)<<12/1e6, lastID.at+1)
	lastID.at = at
	lastID.Unlock()
	var b [16]byte
	rand.Read(b[8:])
	binary.BigEndian.PutUint64(b[:8], at>>12<<16|7<<12|at&0xfff)
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
