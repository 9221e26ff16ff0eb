package saver

import (
	"fmt"
	"math"
	"time"

	"github.com/stele-go/stele/base"
)

// All savers refuse the same calls with the same InvalidError, before anything is written.

// ValidateThreadID refuses an empty or over-long thread id.
func ValidateThreadID(ids ...string) error {
	for _, id := range ids {
		if id == "" {
			return Invalidf("thread_id", "missing; every call names a thread")
		}
		if err := checkKeyLen("thread_id", id); err != nil {
			return err
		}
	}
	return nil
}

// Validate refuses a Config whose thread, namespace or checkpoint id
// cannot be a key.
func (cfg Config) Validate() error {
	if err := ValidateThreadID(cfg.ThreadID); err != nil {
		return err
	}
	if err := checkLen("checkpoint_ns", cfg.Namespace, MaxNamespace); err != nil {
		return err
	}
	return checkKeyLen("checkpoint_id", cfg.CheckpointID)
}

// validatePut refuses what Put cannot store: no thread, no checkpoint id, a
// checkpoint that is its own parent, a new version that is null or not the one
// in the checkpoint's versions, a version without an order.
func validatePut(cfg *Config, cp *Checkpoint, newVersions map[string]Version) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	if cp.ID == "" {
		return Invalidf("checkpoint.id", "missing; use a UUIDv6, or any string that grows with time")
	}
	if err := checkKeyLen("checkpoint.id", cp.ID); err != nil {
		return err
	}
	if cfg.CheckpointID == cp.ID {
		return Invalidf("checkpoint.id", "%q is its own parent", cp.ID)
	}
	for channel, v := range newVersions {
		if v.IsNull() {
			return Invalidf(fmt.Sprintf("new_versions[%q]", channel), "unknown version kind; use a string, an integer or a float")
		}
		if err := checkVersion("new_versions", channel, v); err != nil {
			return err
		}
		if have, ok := cp.Versions[channel]; !ok || have != v {
			return Invalidf(fmt.Sprintf("new_versions[%q]", channel), "%q is not its version in the checkpoint; new_versions is a part of channel_versions", v)
		}
	}
	if len(cp.Versions) >= base.MaxSlots {
		return fmt.Errorf("checkpoint has %d channels, the limit is %d: %w", len(cp.Versions), base.MaxSlots-1, ErrTooLarge)
	}
	for channel, v := range cp.Versions {
		if err := checkVersion("channel_versions", channel, v); err != nil {
			return err
		}
	}
	for node, versions := range cp.Seen {
		for channel, v := range versions {
			if err := checkVersion("versions_seen", channel, v); err != nil {
				return fmt.Errorf("node %q: %w", node, err)
			}
		}
	}
	return nil
}

// Validate is validatePut, TaskWrites.Validate and Note.Validate for the parts of a
// PutRequest. It also refuses a ValuesFrom in another thread or namespace.
func (req *PutRequest) Validate() error {
	if err := validatePut(&req.Config, &req.Checkpoint, req.NewVersions); err != nil {
		return err
	}
	if err := req.Note.Validate(); err != nil {
		return err
	}
	if most := base.MaxSlots - 2; req.Note != nil && len(req.Note.Deltas) > 0 && len(req.Checkpoint.Versions) > most {
		return fmt.Errorf("checkpoint has %d channels, the limit with delta channels is %d: %w", len(req.Checkpoint.Versions), most, ErrTooLarge)
	}
	if from := req.ValuesFrom; from != nil {
		if from.ThreadID != req.Config.ThreadID || from.Namespace != req.Config.Namespace {
			return Invalidf("values_from", "is in another thread or namespace")
		}
		if from.CheckpointID == "" {
			return Invalidf("values_from", "names no checkpoint")
		}
		if err := checkKeyLen("values_from", from.CheckpointID); err != nil {
			return err
		}
	}
	for i, tw := range req.Writes {
		at := req.Config.At(req.Checkpoint.ID)
		if tw.CheckpointID != "" {
			at.CheckpointID = tw.CheckpointID
		}
		if err := tw.Validate(at); err != nil {
			return fmt.Errorf("writes of task %d: %w", i, err)
		}
	}
	return nil
}

func checkVersion(field, channel string, v Version) error {
	if err := checkKeyLen("channel", channel); err != nil {
		return err
	}
	if v.Kind() == VersionFloat && math.IsNaN(v.Any().(float64)) {
		return Invalidf(fmt.Sprintf("%s[%q]", field, channel), "NaN has no order")
	}
	if v.Kind() == VersionString && len(v.String()) > MaxName {
		return checkKeyLen("version of channel "+channel, v.String())
	}
	return nil
}

// Validate refuses writes without a task id, or with a zero Value, and those against a
// checkpoint at that is not named.
func (w TaskWrites) Validate(at Config) error {
	if err := at.Validate(); err != nil {
		return err
	}
	if at.CheckpointID == "" {
		return Invalidf("checkpoint_id", "missing; writes hang on a checkpoint")
	}
	if w.TaskID == "" {
		return Invalidf("task_id", "missing; writes belong to a task")
	}
	if err := checkKeyLen("task_id", w.TaskID); err != nil {
		return err
	}
	if len(w.Writes) >= base.MaxSlots {
		return fmt.Errorf("%d writes in one call, the limit is %d: %w", len(w.Writes), base.MaxSlots-1, ErrTooLarge)
	}
	for i, write := range w.Writes {
		if err := checkKeyLen("channel", write.Channel); err != nil {
			return err
		}
		if write.Value.IsZero() {
			return Invalidf(fmt.Sprintf("writes[%d]", i), "channel %q has no value; a nil is ValueOf(nil)", write.Channel)
		}
	}
	return checkLen("task_path", w.TaskPath, base.MaxKey)
}

// Validate refuses a negative limit and a filter that cannot be compared.
func (q Query) Validate() error {
	if q.Limit < 0 && q.Limit != NoResults {
		return Invalidf("limit", "%d is negative; 0 means no limit", q.Limit)
	}
	if err := checkKeyLen("thread_id", q.ThreadID); err != nil {
		return err
	}
	return validateFilter(q.Filter)
}

// Validate refuses a negative limit, a status that no thread has, and metadata
// that cannot be compared.
func (q ThreadQuery) Validate() error {
	switch q.Status {
	case "", StatusDone, StatusWaiting, StatusFailed, StatusUnfinished:
	default:
		return Invalidf("status", "%q is unknown; use %q, %q, %q or %q", q.Status, StatusDone, StatusWaiting, StatusFailed, StatusUnfinished)
	}
	if q.Limit < 0 {
		return Invalidf("limit", "%d is negative; 0 means no limit", q.Limit)
	}
	if q.ThreadID != "" {
		if err := ValidateThreadID(q.ThreadID); err != nil {
			return err
		}
	}
	return validateFilter(q.Metadata)
}

// Validate refuses an unknown strategy.
func (s PruneStrategy) Validate() error {
	if s != KeepLatest && s != PruneAll {
		return Invalidf("strategy", "%q is unknown; use %q or %q", s, KeepLatest, PruneAll)
	}
	return nil
}

// Limits of names. A key made of a namespace and an id stays below the engine's key limit
// even if every byte of both is escaped.
const (
	MaxName      = 1 << 10 // thread, checkpoint and task ids, channel names, versions
	MaxNamespace = 2 << 10 // a namespace names every graph from the root down
)

func checkKeyLen(field, s string) error { return checkLen(field, s, MaxName) }

func checkLen(field, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%s has %d bytes, the limit is %d: %w", field, len(s), limit, ErrTooLarge)
	}
	return nil
}

// Validate refuses a note with an unknown Stop, with more than 65,535 names, with
// a name that cannot be a key, or with delta channels out of order. nil is valid.
func (n *Note) Validate() error {
	if n == nil {
		return nil
	}
	if n.Stop != StopNone && n.Stop != StopBreakpoint && n.Stop != StopSteps {
		return Invalidf("note.stop", "%q is unknown; use %q or %q", n.Stop, StopBreakpoint, StopSteps)
	}
	if err := checkKeyLen("note.graph", n.Graph); err != nil {
		return err
	}
	if err := checkKeyLen("note.version", n.Version); err != nil {
		return err
	}
	if err := validateNames("note.next", n.Next); err != nil {
		return err
	}
	if err := validateNames("note.deltas", n.Deltas); err != nil {
		return err
	}
	for i := 1; i < len(n.Deltas); i++ {
		if n.Deltas[i-1] >= n.Deltas[i] {
			return Invalidf("note.deltas", "%q comes before %q; names ascend, each once", n.Deltas[i-1], n.Deltas[i])
		}
	}
	return nil
}

func validateNames(field string, names []string) error {
	if len(names) >= base.MaxSlots {
		return fmt.Errorf("%s has %d names, the limit is %d: %w", field, len(names), base.MaxSlots-1, ErrTooLarge)
	}
	for _, name := range names {
		if err := checkKeyLen(field, name); err != nil {
			return err
		}
	}
	return nil
}

// Validate refuses a policy without rules, with a negative one, with an
// age that no clock reaches, or with an empty thread id.
func (p RetentionPolicy) Validate() error {
	for field, n := range map[string]int64{
		"keep_last": int64(p.KeepLast), "max_age": int64(p.MaxAge), "thread_bytes": p.ThreadBytes, "store_bytes": p.StoreBytes,
	} {
		if n < 0 {
			return Invalidf(field, "%d is negative; 0 means no rule", n)
		}
	}
	if p.KeepLast == 0 && p.MaxAge == 0 && p.ThreadBytes == 0 && p.StoreBytes == 0 {
		return Invalidf("policy", "no rule is set, so everything would stay; set KeepLast, MaxAge, ThreadBytes or StoreBytes")
	}
	if p.MaxAge == math.MaxInt64 {
		return Invalidf("max_age", "nothing is ever that old; 0 means no rule")
	}
	return ValidateThreadID(p.ThreadIDs...)
}

// ValidateTTL refuses what SetTTL cannot store.
func ValidateTTL(threadID string, ttl time.Duration) error {
	if err := ValidateThreadID(threadID); err != nil {
		return err
	}
	if ttl < 0 && ttl != NoTTL {
		return Invalidf("ttl", "%v is negative; 0 means the default, NoTTL none", ttl)
	}
	if ttl > 0 && ttl < time.Microsecond {
		return Invalidf("ttl", "%v is less than a microsecond", ttl)
	}
	return nil
}

// Invalidf is the InvalidError about an argument.
func Invalidf(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
