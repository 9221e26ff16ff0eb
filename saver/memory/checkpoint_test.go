package memory

import (
	"strings"
	"testing"

	"github.com/stele-go/stele/saver"
)

// A checkpoint shares with the one before it what they have in common: else a thread would
// take several times the memory.
func TestCheckpointsShare(t *testing.T) {
	s, cfg := New(Options{}), saver.Config{ThreadID: "t"}
	version := func(n string) saver.Version { return saver.StringVersion(strings.Clone(n)) } // as from a decoder
	put := func(id, changed string) *checkpoint {
		t.Helper()
		cp := saver.Checkpoint{V: 4, ID: id, Values: map[string]saver.Value{},
			Versions: map[string]saver.Version{"a": version("1"), "b": version("1"), "empty": version("1")},
			Seen:     map[string]map[string]saver.Version{"reads a": {"a": version("1")}, "reads b": {"b": version("1")}}}
		news := map[string]saver.Version{}
		for channel := range strings.FieldsSeq(changed) {
			if channel != "empty" {
				cp.Values[channel] = saver.ValueOf(id)
			}
			cp.Versions[channel] = version(id)
			news[channel] = cp.Versions[channel]
		}
		if changed == "b" {
			cp.Seen["reads b"]["b"] = cp.Versions["b"]
		}
		var err error
		if cfg, err = s.Put(t.Context(), cfg, cp, nil, news); err != nil {
			t.Fatal(err)
		}
		return s.threads["t"].namespaces[""].checkpoints[id]
	}
	first := put("1", "a b empty")
	second := put("2", "b")
	for _, channel := range []string{"a", "empty"} {
		if first.slot(channel) != second.slot(channel) {
			t.Errorf("%s did not change, and is there twice", channel)
		}
	}
	if first.slot("b") == second.slot("b") || first.slot("b").version == second.slot("b").version {
		t.Error("b changed, and is that of before")
	}
	if first.node("reads a") == nil || first.node("reads a") != second.node("reads a") {
		t.Error("what a node saw did not change, and is there twice")
	}
	if first.node("reads b") == second.node("reads b") {
		t.Error("a node saw another version, and has that of before")
	}
	got := second.checkpoint("2")
	if got.Seen["reads b"]["b"] != version("2") || got.Versions["a"] != version("1") || got.Versions["b"] != version("2") {
		t.Errorf("read %v", got)
	}
}
