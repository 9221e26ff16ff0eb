package traces

import (
	"encoding/json"
	"strings"
)

// storedRule is one way what is stored after a resume may differ.
type storedRule struct {
	uses *int
	// apply takes what differs out of a line, and reports whether it found any.
	apply func(v map[string]any) bool
}

// sameStored takes these differences out of the lines about what is stored, where
// they are all that differs, and counts them.
func (r *resumption) sameStored(got, want []string, p *past) {
	minted := p.minted()
	rules := []storedRule{{&r.marks, func(v map[string]any) bool { return dropMarks(v, minted) }}, {&r.calls, dropEmptySeen}}
	if p.overAgain() {
		rules = append(rules, storedRule{&r.whole, dropDeltas})
	}
	for i := range min(len(got), len(want)) {
		if sameJSON(got[i], want[i]) {
			continue
		}
		for _, rule := range rules {
			a, here := applied(got[i], rule)
			b, there := applied(want[i], rule)
			if here || there {
				got[i], want[i] = a, b
				*rule.uses++
			}
			if sameJSON(a, b) {
				break
			}
		}
	}
}

func applied(line string, r storedRule) (string, bool) {
	var v map[string]any
	if strings.HasPrefix(line, `{"call"`) || json.Unmarshal([]byte(line), &v) != nil || !r.apply(v) {
		return line, false
	}
	return encodeLine(v), true
}

// dropMarks takes out what a resume passed, from checkpoints made after it.
func dropMarks(v map[string]any, minted int) bool {
	stored, _ := v["stored"].(map[string]any)
	config, _ := stored["config"].(map[string]any)
	id, _ := config["checkpoint_id"].(string)
	seen, _ := stored["seen"].(map[string]any)
	if seen["__interrupt__"] == nil || mintedUpTo(id) <= minted {
		return false
	}
	delete(seen, "__interrupt__")
	return true
}

// dropEmptySeen takes out the nodes that saw nothing: calls.
func dropEmptySeen(v map[string]any) (found bool) {
	stored, _ := v["stored"].(map[string]any)
	seen, _ := stored["seen"].(map[string]any)
	for name, s := range seen {
		if of, _ := s.(map[string]any); len(of) == 0 && name != "__input__" {
			delete(seen, name)
			found = true
		}
	}
	return found
}

// dropDeltas takes out when and whether a delta channel was stored whole.
func dropDeltas(v map[string]any) (found bool) {
	for key, x := range v {
		of, _ := x.(map[string]any)
		switch {
		case key == "counters_since_delta_snapshot", key == "__snapshot_bumps__", key == "writes", len(of) == 1 && of["$snapshot"] != nil:
			delete(v, key)
			found = true
		case of != nil:
			found = dropDeltas(of) || found
		}
	}
	return found
}
