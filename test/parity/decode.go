package parity

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// rawLine has the fields of all kinds of line; README.md says which op has
// which.
type rawLine struct {
	Op, Name, About, Kind string
	Langgraph             string `json:"langgraph"`
	LanggraphCheckpoint   string `json:"langgraph_checkpoint"`
	Text                  string
	Format, N             int
	B64                   []byte
	Config                *rawConfig
	Checkpoint            *rawCheckpoint
	Metadata              map[string]any
	ParentConfig          *rawConfig     `json:"parent_config"`
	Values                map[string]int // channel -> blob
	MeantValues           map[string]int `json:"meant_values"`
	Carried               map[string]int
	PendingWrites         [][3]any       `json:"pending_writes"`
	NewVersions           map[string]any `json:"new_versions"`
	Writes                [][2]any
	TaskID                string `json:"task_id"`
	TaskPath              string `json:"task_path"`
	ThreadID              string `json:"thread_id"`
	Current               any
	Channels              []string
	Filter                map[string]any
	Before                *rawConfig
	Limit                 *int
	Answer                json.RawMessage
	AnswerConfig          *rawConfig `json:"answer_config"`
	Restated              *struct {
		Rules  []Rule
		Answer []int
	}
}

type rawConfig struct {
	Configurable map[string]any
	Metadata     map[string]any
}

type rawCheckpoint struct {
	V               int
	ID, TS          string
	ChannelVersions map[string]any            `json:"channel_versions"`
	VersionsSeen    map[string]map[string]any `json:"versions_seen"`
	UpdatedChannels []string                  `json:"updated_channels"`
}

// plain turns decoded JSON into plain data as serde decodes it: an integer is an
// int64, or a uint64 above its range, and a number with a point or an exponent
// is a float64.
func plain(v any) (any, error) {
	switch x := v.(type) {
	case json.Number:
		return number(string(x))
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			var err error
			if out[i], err = plain(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		return plainMap(x)
	}
	return v, nil
}

func number(s string) (any, error) {
	if strings.ContainsAny(s, ".eE") {
		return strconv.ParseFloat(s, 64)
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	return strconv.ParseUint(s, 10, 64)
}

func plainMap(m map[string]any) (map[string]any, error) {
	if m == nil {
		return nil, nil
	}
	out := make(map[string]any, len(m))
	for k, v := range m {
		var err error
		if out[k], err = plain(v); err != nil {
			return nil, fmt.Errorf("%q: %w", k, err)
		}
	}
	return out, nil
}

// config is a recorded config as stele takes it. hasNamespace says whether the
// namespace was given, which only a listing cares about.
func (c *rawConfig) config() (cfg saver.Config, hasNamespace bool, err error) {
	if c == nil {
		return cfg, false, errors.New("no config")
	}
	if cfg.Metadata, err = plainMap(c.Metadata); err != nil {
		return cfg, false, err
	}
	rest, err := plainMap(c.Configurable)
	if err != nil {
		return cfg, false, err
	}
	take := func(key string) string {
		s, _ := rest[key].(string)
		delete(rest, key)
		return s
	}
	_, hasNamespace = rest["checkpoint_ns"]
	cfg.ThreadID, cfg.Namespace, cfg.CheckpointID = take("thread_id"), take("checkpoint_ns"), take("checkpoint_id")
	if len(rest) > 0 {
		cfg.Configurable = rest
	}
	return cfg, hasNamespace, nil
}

func versions(raw map[string]any) (map[string]saver.Version, error) {
	out := make(map[string]saver.Version, len(raw))
	for channel, v := range raw {
		p, err := plain(v)
		if err != nil {
			return nil, err
		}
		if out[channel], err = saver.VersionOf(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *rawCheckpoint) checkpoint() (saver.Checkpoint, error) {
	if c == nil {
		return saver.Checkpoint{}, errors.New("no checkpoint")
	}
	cp := saver.Checkpoint{V: c.V, ID: c.ID, TS: c.TS, Updated: c.UpdatedChannels}
	var err error
	if cp.Versions, err = versions(c.ChannelVersions); err != nil {
		return cp, err
	}
	cp.Seen = make(map[string]map[string]saver.Version, len(c.VersionsSeen))
	for node, seen := range c.VersionsSeen {
		if cp.Seen[node], err = versions(seen); err != nil {
			return cp, err
		}
	}
	return cp, nil
}

func (f *Fixture) blob(n int) (serde.Typed, error) {
	if n < 0 || n >= len(f.blobs) {
		return serde.Typed{}, fmt.Errorf("blob %d is not defined", n)
	}
	return f.blobs[n], nil
}

func (f *Fixture) values(raw map[string]int) (map[string]serde.Typed, error) {
	out := make(map[string]serde.Typed, len(raw))
	for channel, n := range raw {
		var err error
		if out[channel], err = f.blob(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// write reads [channel, blob] or, with a task id before them, triples.
func (f *Fixture) write(fields []any) (write, error) {
	var w write
	if len(fields) == 3 {
		w.task, _ = fields[0].(string)
		fields = fields[1:]
	}
	w.channel, _ = fields[0].(string)
	n, ok := fields[1].(json.Number)
	if !ok {
		return w, fmt.Errorf("write of channel %q names no blob", w.channel)
	}
	i, err := strconv.Atoi(string(n))
	if err != nil {
		return w, err
	}
	w.value, err = f.blob(i)
	return w, err
}

func (f *Fixture) tuple(line *rawLine) (t *tuple, err error) {
	t = &tuple{}
	if t.config, _, err = line.Config.config(); err != nil {
		return nil, err
	}
	if t.cp, err = line.Checkpoint.checkpoint(); err != nil {
		return nil, err
	}
	if t.values, err = f.values(line.Values); err != nil {
		return nil, err
	}
	if t.metadata, err = plainMap(line.Metadata); err != nil {
		return nil, err
	}
	if line.ParentConfig != nil {
		parent, _, err := line.ParentConfig.config()
		if err != nil {
			return nil, err
		}
		t.parent = &parent
	}
	for _, fields := range line.PendingWrites {
		w, err := f.write(fields[:])
		if err != nil {
			return nil, err
		}
		t.writes = append(t.writes, w)
	}
	if line.MeantValues != nil {
		t.meant, err = f.values(line.MeantValues)
	}
	return t, err
}

func (f *Fixture) tupleNumbered(n int) (*tuple, error) {
	if n < 0 || n >= len(f.tuples) {
		return nil, fmt.Errorf("tuple %d is not defined", n)
	}
	return f.tuples[n], nil
}

func (f *Fixture) tuplesNumbered(numbers []int) ([]*tuple, error) {
	out := make([]*tuple, len(numbers))
	for i, n := range numbers {
		var err error
		if out[i], err = f.tupleNumbered(n); err != nil {
			return nil, err
		}
	}
	return out, nil
}
