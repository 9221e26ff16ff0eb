package pregel

import (
	"slices"

	"github.com/stele-go/stele/saver"
)

// A note tells the saver about a checkpoint: the nodes that run next, and whether the run goes
// on to run them. It must be known when the checkpoint is stored, because after a crash
// nobody can add it.

// coming has the tasks that follow a checkpoint of this run. They are made when the checkpoint
// is stored, for its note, and used when the next superstep begins.
type coming struct {
	cp    *liveCheckpoint // nil: none are made
	tasks *taskSet
	err   error
}

// nextTasks are the tasks that follow the current checkpoint, at the given step.
func (p *position) nextTasks(step int) (tasks *taskSet, err error) {
	prep := p.preparer()
	prep.step = step
	return prep.next(p.updated)
}

// takeNext is nextTasks for the superstep that begins.
func (p *position) takeNext() (*taskSet, error) {
	made := p.coming
	p.coming = coming{}
	if made.cp == p.cp && made.cp != nil {
		return made.tasks, made.err
	}
	return p.nextTasks(p.step)
}

// note makes the note of the current checkpoint. If the tasks cannot be made, because a node's
// input cannot be read, the checkpoint is still stored, and the run fails after that. The
// note then names the nodes that were to run.
func (p *position) note(exiting bool) *saver.Note {
	n := &saver.Note{Graph: p.run.g.noted(), Deltas: p.run.g.deltasOf(p.replayed)}
	step := p.step + 1
	if exiting { // the superstep has begun, or cannot
		step = p.step
	}
	made := coming{cp: p.cp}
	made.err = guard(func() (err error) {
		made.tasks, err = p.nextTasks(step)
		return err
	})
	if p.coming = made; made.err != nil {
		n.Next = p.preparer().triggeredNodes(p.updated)
		return n
	}
	n.Next = made.tasks.names()
	switch {
	case len(n.Next) == 0:
	case p.stopsAt(made.tasks, exiting):
		n.Stop = saver.StopBreakpoint
	case step > p.stop:
		n.Stop = saver.StopSteps
	}
	return n
}

// stopsAt reports whether the run stops at a breakpoint before it runs tasks.
func (p *position) stopsAt(tasks *taskSet, exiting bool) bool {
	switch {
	case exiting:
		return p.status == statusBefore || p.status == statusAfter
	case p.tasks != nil && p.cp.breaksAt(p.run.opts.InterruptAfter, p.tasks):
		return true
	}
	return p.step < p.stop && p.cp.breaksAt(p.run.opts.InterruptBefore, tasks)
}

// noted is the graph's name in notes. It is "" if nobody gave the graph a name, because such
// graphs cannot be told apart.
func (g *Graph) noted() string {
	if !g.named {
		return ""
	}
	return g.opts.Name
}

// triggeredNodes are the nodes that packets and triggers name, even if their input cannot be
// made.
func (p *preparer) triggeredNodes(updated []string) []string {
	var names []string
	if packets, ok := p.set.get(chTasks); ok && packets.Available() {
		packets.(interface{ Each(func(int, any) bool) }).Each(func(_ int, v any) bool {
			if s, ok := sendOf(v); ok && p.g.nodes[s.Node] != nil && !slices.Contains(names, s.Node) {
				names = append(names, s.Node)
			}
			return true
		})
	}
	for _, name := range p.candidates(updated) {
		if n := p.g.plans[name].node; n.executable() && p.triggered(n) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// deltasOf are the delta channels of the graph, and the reducing channels that were
// delta channels when they were stored last.
func (g *Graph) deltasOf(replayed []string) []string { return union(g.deltas, replayed) }

// note makes the note of a checkpoint that a state update made. Its next nodes run only when
// somebody resumes the thread, so it counts as stopped at a breakpoint.
func (u *updater) note(cp *liveCheckpoint, step int) *saver.Note {
	n := &saver.Note{Graph: u.g.noted(), Stop: saver.StopBreakpoint}
	if u.saved != nil {
		replayed := u.g.replayed(&u.saved.Checkpoint)
		for _, former := range u.renamed { // a copy has the former names
			replayed = append(replayed, former)
		}
		n.Deltas = u.g.deltasOf(replayed)
	} else {
		n.Deltas = u.g.deltasOf(nil)
	}
	p := u.g.snapshotPreparer(cp, u.set, u.at.Namespace, nil, step+1)
	if tasks, err := p.next(nil); err == nil {
		n.Next = tasks.names()
	} else {
		n.Next = p.triggeredNodes(nil)
	}
	return n
}
