package saver

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
)

// Config says where a call applies: LangGraph's "configurable". The zero
// Namespace is the root namespace.
type Config struct {
	// ThreadID names the thread. Required.
	ThreadID string
	// Namespace is the checkpoint namespace: "" for the root graph,
	// "node:taskid|…" for subgraphs.
	Namespace string
	// CheckpointID names one checkpoint. In Put it is the parent's id, and ""
	// means that there is no parent.
	CheckpointID string
	// ExpectHead, if set, makes Put conditional. It succeeds only if the newest
	// checkpoint of the thread and namespace has this id ("" for none), and else fails
	// with a ConflictError. If two writers start from one head, exactly one succeeds.
	// See Head.
	ExpectHead *string
	// Epoch, if set, is that of the caller's Lease. Put, PutWrites, CountAttempt and all other calls
	// that write succeed only while the lease holds the thread; otherwise they fail with a FencedError.
	// Reads ignore it.
	Epoch int64
	// Metadata and Configurable come from the run's config. Put adds their scalars
	// (strings, integers, floats, bools) to the checkpoint's metadata, unless the key is
	// taken, begins with two underscores, or says where the checkpoint is stored.
	Metadata     map[string]any
	Configurable map[string]any
}

// Head is an expectation for Config.ExpectHead; "" expects an empty thread.
func Head(id string) *string { return &id }

// ConfigFromMap makes a Config from LangGraph's "configurable" map. Its keys are thread_id
// (a string, an integer of any size, or anything with a String method, such as a UUID),
// checkpoint_ns and checkpoint_id. The other keys become Configurable. A nil checkpoint_ns
// or checkpoint_id counts as absent. A missing thread_id or a key of the wrong type is an
// InvalidError.
func ConfigFromMap(configurable map[string]any) (Config, error) {
	cfg := Config{Configurable: map[string]any{}}
	for key, v := range configurable {
		var err error
		switch key {
		case "thread_id":
			cfg.ThreadID, err = threadIDString(v)
		case "checkpoint_ns":
			cfg.Namespace, err = optionalString(key, v)
		case "checkpoint_id":
			cfg.CheckpointID, err = optionalString(key, v)
		default:
			cfg.Configurable[key] = v
		}
		if err != nil {
			return Config{}, err
		}
	}
	if cfg.ThreadID == "" {
		return Config{}, invalidf("thread_id", "missing; every call names a thread")
	}
	return cfg, nil
}

func threadIDString(v any) (string, error) {
	if x, ok := v.(fmt.Stringer); ok {
		return x.String(), nil
	}
	switch x := reflect.ValueOf(v); {
	case x.Kind() == reflect.String:
		return x.String(), nil
	case x.CanInt():
		return strconv.FormatInt(x.Int(), 10), nil
	case x.CanUint():
		return strconv.FormatUint(x.Uint(), 10), nil
	}
	return "", invalidf("thread_id", "want a string, an integer or a UUID, got %T", v)
}

func optionalString(key string, v any) (string, error) {
	switch x := v.(type) {
	case nil:
		return "", nil
	case string:
		return x, nil
	}
	return "", invalidf(key, "want a string, got %T", v)
}

// At is the Config that names checkpoint id in cfg's thread and namespace. It has nothing
// else of cfg. Savers return such a Config.
func (cfg Config) At(id string) Config {
	return Config{ThreadID: cfg.ThreadID, Namespace: cfg.Namespace, CheckpointID: id}
}

// ToMap is cfg as LangGraph's "configurable" map, including Configurable. An empty
// CheckpointID is left out.
func (cfg Config) ToMap() map[string]any {
	m := maps.Clone(cfg.Configurable)
	if m == nil {
		m = map[string]any{}
	}
	m["thread_id"], m["checkpoint_ns"] = cfg.ThreadID, cfg.Namespace
	if cfg.CheckpointID != "" {
		m["checkpoint_id"] = cfg.CheckpointID
	}
	return m
}
