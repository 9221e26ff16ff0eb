package traces

import (
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
)

// Why what follows a cut is not what would follow without it. Each is counted.
const (
	manyUpdates  = "an update of several checkpoints is not resumed: it is made again"
	limitUsed    = "nothing is left of the recursion limit, which counts from where a run goes on"
	failedAgain  = "a failure is stored: its task runs again, as in any resume"
	passedBreak  = "a breakpoint was reached, and a resume passes it"
	exitInside   = "Exit stores a graph inside before the one around it, which begins over"
	exitAnswers  = "Exit stores what waits in several steps: part of it is there"
	forkForgets  = "the run that forked knew from where graphs inside begin, its fork does not"
	callerBefore = "a caller's output was stored before that of its calls, which are not made again"
	laterBefore  = "a later save was stored before that of an earlier task, which runs again and comes last"
)

// incomparable says why what follows a cut differs; "" if it must not.
func (p *past) incomparable() string {
	if len(p.saved) == 0 {
		return ""
	}
	c := p.life.calls[p.next]
	all := p.life.ledger.acks[c.saves[0]:c.saves[1]]
	cmd, isCommand := c.input.(pregel.Command)
	switch {
	case c.kind != "run":
		return manyUpdates
	case c.cfg.RecursionLimit > 0 && c.cfg.RecursionLimit <= p.steps():
		return limitUsed
	case slices.ContainsFunc(p.saved, func(a ack) bool { return a.failed }):
		return failedAgain
	case p.overAgain() && slices.ContainsFunc(p.saved, func(a ack) bool { return a.put && a.ns != "" }):
		return exitInside
	case p.life.exits && isCommand && cmd.Resume != nil:
		return exitAnswers
	case breaks(c.lines) && p.lastPutStored(all):
		return passedBreak
	case p.forkForgets(c, all):
		return forkForgets
	case p.callsMissing(c, all):
		return callerBefore
	case p.inverted():
		return laterBefore
	}
	return ""
}

func (p *past) lastPutStored(all []ack) bool {
	for _, a := range slices.Backward(all) {
		if a.put {
			return p.keys[a.key]
		}
	}
	return false
}

// forkForgets: a fork is stored, and a graph inside was still to begin from an
// earlier state than its newest.
func (p *past) forkForgets(c *callRecord, all []ack) bool {
	forked := slices.ContainsFunc(p.saved, func(a ack) bool { return a.put && a.ns == "" && a.source == "fork" })
	if !forked && (c.cfg.CheckpointID == "" || p.behind(c.cfg)) {
		return false
	}
	if len(c.cfg.CheckpointMap) > 0 || c.cfg.Namespace != "" {
		return true
	}
	return (!forked || len(p.saved) > 1) && slices.ContainsFunc(all, func(a ack) bool {
		return a.put && a.ns != "" && !strings.Contains(a.ns, ":") && !p.keys[a.key]
	})
}

// callsMissing: some task's output is stored, and a call that was shown between
// its beginning and its end has not stored its own.
func (p *past) callsMissing(c *callRecord, all []ack) bool {
	ended, missing := map[string]bool{}, map[string]bool{}
	for _, a := range all {
		switch {
		case a.ended && p.keys[a.key]:
			ended[a.task] = true
		case !a.put && !p.keys[a.key]:
			missing[a.task] = true
		}
	}
	return slices.ContainsFunc(readShown(c.lines), func(e shown) bool {
		t, _ := e.v["task"].(map[string]any)
		id, _ := t["id"].(string)
		return missing[id] && slices.ContainsFunc(e.inside, func(id string) bool { return ended[id] })
	})
}

// inverted reports whether something will be done again that was done before
// what stays: the world outside then shows them the other way round.
func (p *past) inverted() bool {
	again := map[string]bool{}
	for _, d := range p.life.deeds {
		switch {
		case d.call != p.next:
		case !p.ended(d):
			again[d.name] = true
		case again[d.name]:
			return true
		}
	}
	return false
}

// breaks reports whether a run ended at a breakpoint.
func breaks(lines []string) bool {
	return slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, `"interrupts":[],"mode":"updates"`) })
}

// TestLaterSaveFirst cuts a run where the outcome of its second call is stored and
// that of its first is not. In which order the two are stored is not known before.
func TestLaterSaveFirst(t *testing.T) {
	l := wholeLife(t, "functional", pregel.Exit).life
	acks := l.ledger.acks
	saved := func(task string) ack {
		return acks[slices.IndexFunc(acks, func(a ack) bool { return !a.put && a.task == task })]
	}
	input, first, second := acks[0], saved(l.deeds[0].task), saved(l.deeds[1].task)
	question := acks[slices.IndexFunc(acks, func(a ack) bool { return !a.put && a.task != first.task && a.task != second.task })]
	for _, c := range []struct {
		saved []ack
		why   string
	}{
		{[]ack{input, first}, ""},
		{[]ack{input, first, second}, ""},
		{[]ack{input, second}, laterBefore},
		{[]ack{input, second, question}, laterBefore},
		{[]ack{input, first, question}, ""}, // the question is no deed
	} {
		if why := l.crashedAfter(c.saved).incomparable(); why != c.why {
			t.Errorf("cut after %v: %q, want %q", c.saved, why, c.why)
		}
	}
}
