package rules

import (
	"fmt"
	"math"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/saver"
)

// All savers share this validation. They refuse the same calls with the same InvalidError,
// before anything is written.

// ValidateThreadID refuses an empty or over-long thread id.
func ValidateThreadID(id string) error {
	if id == "" {
		return Invalidf("thread_id", "missing; every call names a thread")
	}
	return checkKeyLen("thread_id", id)
}

// ValidateThreadIDs is ValidateThreadID for each id.
func ValidateThreadIDs(ids []string) error {
	for _, id := range ids {
		if err := ValidateThreadID(id); err != nil {
			return err
		}
	}
	return nil
}

// ValidateConfig refuses a Config whose thread, namespace or checkpoint id
// cannot be a key.
func ValidateConfig(cfg saver.Config) error {
	if err := ValidateThreadID(cfg.ThreadID); err != nil {
		return err
	}
	if err := checkLen("checkpoint_ns", cfg.Namespace, MaxNamespace); err != nil {
		return err
	}
	return checkKeyLen("checkpoint_id", cfg.CheckpointID)
}

// ValidatePut refuses what Put cannot store: no thread, no checkpoint id, a
// checkpoint that is its own parent, a new version that is null or not the one
// in the checkpoint's versions, a version without an order.
func ValidatePut(cfg *saver.Config, cp *saver.Checkpoint, newVersions map[string]saver.Version) error {
	if err := ValidateConfig(*cfg); err != nil {
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
		return fmt.Errorf("checkpoint has %d channels, the limit is %d: %w", len(cp.Versions), base.MaxSlots-1, saver.ErrTooLarge)
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

// ValidateRequest is ValidatePut, ValidateWrites and ValidateNote for the parts of a
// PutRequest. It also refuses a ValuesFrom in another thread or namespace.
func ValidateRequest(req *saver.PutRequest) error {
	if err := ValidatePut(&req.Config, &req.Checkpoint, req.NewVersions); err != nil {
		return err
	}
	if err := ValidateNote(req.Note); err != nil {
		return err
	}
	if most := base.MaxSlots - 2; req.Note != nil && len(req.Note.Deltas) > 0 && len(req.Checkpoint.Versions) > most {
		return fmt.Errorf("checkpoint has %d channels, the limit with delta channels is %d: %w", len(req.Checkpoint.Versions), most, saver.ErrTooLarge)
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
		if err := ValidateWrites(at, tw.Writes, tw.TaskID, tw.TaskPath); err != nil {
			return fmt.Errorf("writes of task %d: %w", i, err)
		}
	}
	return nil
}

func checkVersion(field, channel string, v saver.Version) error {
	if err := checkKeyLen("channel", channel); err != nil {
		return err
	}
	if v.Kind() == saver.VersionFloat && math.IsNaN(v.Any().(float64)) {
		return Invalidf(fmt.Sprintf("%s[%q]", field, channel), "NaN has no order")
	}
	if v.Kind() == saver.VersionString && len(v.String()) > MaxName {
		return checkKeyLen("version of channel "+channel, v.String())
	}
	return nil
}

// ValidateWrites refuses writes without a checkpoint id or a task id, or with a
// zero Value.
func ValidateWrites(cfg saver.Config, writes []saver.Write, taskID, taskPath string) error {
	if err := ValidateConfig(cfg); err != nil {
		return err
	}
	if cfg.CheckpointID == "" {
		return Invalidf("checkpoint_id", "missing; writes hang on a checkpoint")
	}
	if taskID == "" {
		return Invalidf("task_id", "missing; writes belong to a task")
	}
	if err := checkKeyLen("task_id", taskID); err != nil {
		return err
	}
	if len(writes) >= base.MaxSlots {
		return fmt.Errorf("%d writes in one call, the limit is %d: %w", len(writes), base.MaxSlots-1, saver.ErrTooLarge)
	}
	for i, w := range writes {
		if err := checkKeyLen("channel", w.Channel); err != nil {
			return err
		}
		if w.Value.IsZero() {
			return Invalidf(fmt.Sprintf("writes[%d]", i), "channel %q has no value; a nil is ValueOf(nil)", w.Channel)
		}
	}
	return checkLen("task_path", taskPath, base.MaxKey)
}

// ValidateQuery refuses a negative limit and a filter that cannot be compared.
func ValidateQuery(q saver.Query) error {
	if q.Limit < 0 && q.Limit != saver.NoResults {
		return Invalidf("limit", "%d is negative; 0 means no limit", q.Limit)
	}
	if err := checkKeyLen("thread_id", q.ThreadID); err != nil {
		return err
	}
	return ValidateFilter(q.Filter)
}

// ValidateThreadQuery refuses a negative limit, a status that no thread has, and metadata
// that cannot be compared.
func ValidateThreadQuery(q saver.ThreadQuery) error {
	switch q.Status {
	case "", saver.StatusDone, saver.StatusWaiting, saver.StatusFailed, saver.StatusUnfinished:
	default:
		return Invalidf("status", "%q is unknown; use %q, %q, %q or %q", q.Status, saver.StatusDone, saver.StatusWaiting, saver.StatusFailed, saver.StatusUnfinished)
	}
	if q.Limit < 0 {
		return Invalidf("limit", "%d is negative; 0 means no limit", q.Limit)
	}
	if q.ThreadID != "" {
		if err := ValidateThreadID(q.ThreadID); err != nil {
			return err
		}
	}
	return ValidateFilter(q.Metadata)
}

// ValidatePrune refuses unknown strategies and empty thread ids.
func ValidatePrune(threadIDs []string, strategy saver.PruneStrategy) error {
	if strategy != saver.KeepLatest && strategy != saver.PruneAll {
		return Invalidf("strategy", "%q is unknown; use %q or %q", strategy, saver.KeepLatest, saver.PruneAll)
	}
	return ValidateThreadIDs(threadIDs)
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
		return fmt.Errorf("%s has %d bytes, the limit is %d: %w", field, len(s), limit, saver.ErrTooLarge)
	}
	return nil
}

// ValidateNote refuses a note with an unknown Stop, with more than 65,535 names, with
// a name that cannot be a key, or with delta channels out of order. nil is valid.
func ValidateNote(n *saver.Note) error {
	if n == nil {
		return nil
	}
	if n.Stop != saver.StopNone && n.Stop != saver.StopBreakpoint && n.Stop != saver.StopSteps {
		return Invalidf("note.stop", "%q is unknown; use %q or %q", n.Stop, saver.StopBreakpoint, saver.StopSteps)
	}
	if err := checkKeyLen("note.graph", n.Graph); err != nil {
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
		return fmt.Errorf("%s has %d names, the limit is %d: %w", field, len(names), base.MaxSlots-1, saver.ErrTooLarge)
	}
	for _, name := range names {
		if err := checkKeyLen(field, name); err != nil {
			return err
		}
	}
	return nil
}

// ValidateRetention refuses a policy without rules, with a negative one, with an
// age that no clock reaches, or with an empty thread id.
func ValidateRetention(p saver.RetentionPolicy) error {
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
	return ValidateThreadIDs(p.ThreadIDs)
}

// ValidateTTL refuses what SetTTL cannot store.
func ValidateTTL(threadID string, ttl time.Duration) error {
	if err := ValidateThreadID(threadID); err != nil {
		return err
	}
	if ttl < 0 && ttl != saver.NoTTL {
		return Invalidf("ttl", "%v is negative; 0 means the default, NoTTL none", ttl)
	}
	if ttl > 0 && ttl < time.Microsecond {
		return Invalidf("ttl", "%v is less than a microsecond", ttl)
	}
	return nil
}

// ValidateErase refuses invalid thread ids, and namespace prefixes of the long-term store
// that would match everything or nothing.
func ValidateErase(threads []string, items [][]string) error {
	for _, id := range threads {
		if err := ValidateThreadID(id); err != nil {
			return err
		}
	}
	for i, prefix := range items {
		field := fmt.Sprintf("items[%d]", i)
		if len(prefix) == 0 {
			return Invalidf(field, "has no labels; it would erase the items of everybody")
		}
		n := 0
		for _, label := range prefix {
			n += len(label)
		}
		if n > MaxNamespace {
			return fmt.Errorf("%s has %d bytes, the limit is %d: %w", field, n, MaxNamespace, saver.ErrTooLarge)
		}
	}
	return nil
}

// Invalidf is the InvalidError about an argument.
func Invalidf(field, format string, args ...any) error {
	return &saver.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
