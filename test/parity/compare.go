package parity

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Rule names one way in which stele answers otherwise than the recording, on
// purpose. README.md has the list with reasons.
type Rule string

// The rules.
const (
	FreshConfig          Rule = "fresh_config"
	NewestFirst          Rule = "newest_first"
	ForksNeverMix        Rule = "forks_never_mix"
	BoolIsNoNumber       Rule = "bool_is_no_number"
	FilterKeyRefused     Rule = "filter_key_refused"
	NegativeLimitRefused Rule = "negative_limit_refused"
	EmptyThreadRefused   Rule = "empty_thread_refused"
	RandomFraction       Rule = "random_fraction"
)

// comparison gathers what one call's answer shows.
type comparison struct {
	differences []string
	rules       map[Rule]bool
}

func (c *comparison) differ(format string, args ...any) {
	c.differences = append(c.differences, fmt.Sprintf(format, args...))
}

func (c *comparison) applied(r Rule) {
	if c.rules == nil {
		c.rules = map[Rule]bool{}
	}
	c.rules[r] = true
}

// refused checks that a call that stele refuses by rule r was refused.
func (c *comparison) refused(r Rule, err error) {
	c.applied(r)
	if !errors.Is(err, saver.ErrInvalid) {
		c.differ("error is %v; rule %s demands an InvalidError", err, r)
	}
}

// config compares a returned Config, which is a triple and nothing else.
func (c *comparison) config(what string, got, want saver.Config) {
	if !reflect.DeepEqual(got, want) {
		c.differ("%s is %+v; want %+v", what, got, want)
	}
}

func (c *comparison) tuple(what string, got *saver.Tuple, want *tuple) {
	what = fmt.Sprintf("%s %q", what, want.cp.ID)
	c.config(what+": config", got.Config, want.config)
	c.checkpoint(what, &got.Checkpoint, &want.cp)
	values := want.values
	if want.meant != nil {
		c.applied(ForksNeverMix)
		values = want.meant
	}
	c.values(what, got.Checkpoint.Values, values)
	if md := anyMap(got.Metadata); !reflect.DeepEqual(md, map[string]any(want.metadata)) {
		c.differ("%s: metadata is %#v; want %#v", what, md, want.metadata)
	}
	switch {
	case (got.Parent == nil) != (want.parent == nil):
		c.differ("%s: parent is %+v; want %+v", what, got.Parent, want.parent)
	case want.parent != nil:
		c.config(what+": parent", *got.Parent, *want.parent)
	}
	if got.PendingWrites == nil {
		c.differ("%s: pending writes are nil; want a list", what)
	}
	c.writes(what+": pending writes", got.PendingWrites, want.writes)
}

func (c *comparison) checkpoint(what string, got, want *saver.Checkpoint) {
	if got.V != want.V || got.ID != want.ID || got.TS != want.TS {
		c.differ("%s: v, id, ts are %d, %q, %q; want %d, %q, %q", what, got.V, got.ID, got.TS, want.V, want.ID, want.TS)
	}
	if !maps.Equal(got.Versions, want.Versions) {
		c.differ("%s: versions are %v; want %v", what, got.Versions, want.Versions)
	}
	if !maps.EqualFunc(got.Seen, want.Seen, maps.Equal[map[string]saver.Version, map[string]saver.Version]) {
		c.differ("%s: versions seen are %v; want %v", what, got.Seen, want.Seen)
	}
	if !slices.Equal(got.Updated, want.Updated) || (got.Updated == nil) != (want.Updated == nil) {
		c.differ("%s: updated channels are %#v; want %#v", what, got.Updated, want.Updated)
	}
}

func (c *comparison) values(what string, got map[string]saver.Value, want map[string]serde.Typed) {
	for channel, w := range want {
		if g, ok := got[channel]; ok {
			c.value(fmt.Sprintf("%s: channel %q", what, channel), g, w)
		} else {
			c.differ("%s: channel %q has no value", what, channel)
		}
	}
	for channel := range got {
		if _, ok := want[channel]; !ok {
			c.differ("%s: channel %q has a value; want none", what, channel)
		}
	}
}

// value compares stored bytes, not what they decode to.
func (c *comparison) value(what string, got saver.Value, want serde.Typed) {
	t, err := got.Typed()
	switch {
	case err != nil:
		c.differ("%s: value cannot be read: %v", what, err)
	case t.Kind != want.Kind || !bytes.Equal(t.Data, want.Data):
		c.differ("%s: value is %s %s; want %s %s", what, t.Kind, excerpt(t.Data), want.Kind, excerpt(want.Data))
	}
}

// excerpt is the beginning of data, for people.
func excerpt(data []byte) string {
	const most = 48
	if len(data) > most {
		return fmt.Sprintf("%q… (%d bytes)", data[:most], len(data))
	}
	return fmt.Sprintf("%q", data)
}

func (c *comparison) writes(what string, got []saver.PendingWrite, want []write) {
	if len(got) != len(want) {
		c.differ("%s: %d writes; want %d", what, len(got), len(want))
		return
	}
	for i, w := range want {
		at := fmt.Sprintf("%s: write %d", what, i)
		if got[i].TaskID != w.task || got[i].Channel != w.channel {
			c.differ("%s is task %s channel %q; want task %s channel %q", at, got[i].TaskID, got[i].Channel, w.task, w.channel)
			continue
		}
		c.value(at, got[i].Value, w.value)
	}
}

func (c *comparison) deltas(what string, got map[string]saver.DeltaHistory, want map[string]deltaAnswer) {
	if len(got) != len(want) {
		c.differ("%s has %d channels; want %d", what, len(got), len(want))
	}
	for channel, w := range want {
		g, ok := got[channel]
		if !ok {
			c.differ("%s: channel %q is missing", what, channel)
			continue
		}
		at := fmt.Sprintf("%s: channel %q", what, channel)
		c.writes(at, g.Writes, w.writes)
		switch {
		case g.Seed.IsZero() != (w.seed == nil):
			c.differ("%s: has a seed: %t; want %t", at, !g.Seed.IsZero(), w.seed != nil)
		case w.seed != nil:
			c.value(at+": seed", g.Seed, *w.seed)
		}
	}
}

// anyMap is metadata with every integer as plain data has it, so that a saver
// may keep what it was given as it was given.
func anyMap(md saver.Metadata) map[string]any {
	out := make(map[string]any, len(md))
	for k, v := range md {
		out[k] = widen(v)
	}
	return out
}

func widen(v any) any {
	switch x := v.(type) {
	case int:
		return int64(x)
	case int32:
		return int64(x)
	case float32:
		return float64(x)
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = widen(e)
		}
		return out
	case map[string]any:
		return anyMap(x)
	}
	return v
}
