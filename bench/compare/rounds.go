package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/bench/compare/peer"
)

// options are those of the command.
type options struct {
	quick  bool
	rounds int
	limit  time.Duration // begin no further measurement after; 0: no limit
	dir    string
	only   []string
	peers  []string // names of engines; none: all
	save   string   // file to keep the figures in
	into   string   // document to put the tables into
}

// wants says whether a group of workloads is to be run.
func (o options) wants(group string) bool { return len(o.only) == 0 || slices.Contains(o.only, group) }

// key names a row of the tables.
type key struct {
	Work, Engine string
	Mode         peer.Mode
	Form         string // "written" or "compacted", of stores that were made before
}

// run is a whole comparison.
type run struct {
	options
	size    sizes
	engines []peer.Engine
	plan    []planned
	results map[key][]figures // one for each round
	log     io.Writer         // progress
	begun   time.Time
	left    []string // workloads of the last round that were left out, as it was late
}

// quickLimit bounds a quick run: what is begun then ends within four minutes.
const quickLimit = 210 * time.Second

// planned is a cell of every round.
type planned struct {
	key
	from string // the store to open or copy; "" for an empty one
	copy bool
}

// compare makes a comparison and prints it.
func compare(o options, w io.Writer) error {
	for _, group := range o.only {
		if !slices.Contains([]string{"W1", "W2", "W3", "W4", "W5", "fill", "items", "vector"}, group) {
			return fmt.Errorf("-run: no workload %q", group)
		}
	}
	dir, err := os.MkdirTemp(o.dir, "stele-compare-")
	if err != nil {
		return err
	}
	o.dir = dir
	r := &run{options: o, size: fullSizes, results: map[key][]figures{}, log: os.Stderr, begun: time.Now()}
	if o.quick {
		r.size = quickSizes
		if r.limit == 0 {
			r.limit = quickLimit
		}
	}
	if err = r.choose(); err == nil {
		err = r.prepare()
	}
	if err == nil {
		err = r.measure()
	}
	if err == nil {
		err = r.tell(o, w)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// tell prints what was measured, and keeps it where the options say.
func (r *run) tell(o options, w io.Writer) error {
	r.print(w)
	var err error
	if o.save != "" {
		err = r.save(o.save)
	}
	if o.into != "" {
		err = errors.Join(err, r.into(o.into))
	}
	return err
}

// choose picks the engines.
func (r *run) choose() error {
	for _, e := range peer.Engines() {
		if r.quick && !e.Quick || len(r.peers) > 0 && !slices.Contains(r.peers, e.Name) {
			continue
		}
		if why := e.Why(); why != nil {
			fmt.Fprintf(r.log, "%s is left out: %v\n", e.Name, why)
			continue
		}
		r.engines = append(r.engines, e)
	}
	if len(r.engines) == 0 {
		return errors.New("-engines: none of these is known, or can run here")
	}
	return nil
}

// prepare plans the rounds, and makes the stores that are only read.
func (r *run) prepare() error {
	for _, e := range r.engines {
		for _, mode := range e.Modes {
			if r.quick && mode != peer.Durable && e.Name != "stele" {
				continue
			}
			for _, work := range []string{"W1", "W2"} {
				r.add(work, planned{key: key{work, e.Name, mode, ""}})
			}
		}
		r.add("W1", planned{key: key{"W1raw", e.Name, peer.Durable, ""}})
		if e.Name == "stele" {
			r.add("W1", planned{key: key{"W1engine", e.Name, peer.Durable, ""}})
		}
		if err := errors.Join(r.prepareReads(e), r.prepareRealistic(e)); err != nil {
			return err
		}
		if e.OpenItems == nil {
			continue
		}
		if err := r.prepareItems(e); err != nil {
			return err
		}
	}
	r.add("vector", planned{key: key{"vector", "stele", peer.Relaxed, ""}})
	slices.SortStableFunc(r.plan, func(a, b planned) int { return strings.Compare(a.Work, b.Work) })
	return nil
}

func (r *run) add(group string, p planned) {
	if r.wants(group) {
		r.plan = append(r.plan, p)
	}
}

func (r *run) prepareReads(e peer.Engine) error {
	for _, work := range []string{"W3", "W4"} {
		if !r.wants(work) {
			continue
		}
		written, packed := r.path(work, e.Name, "written"), r.path(work, e.Name, "compacted")
		if _, err := r.cell("fill"+work, e.Name, peer.Relaxed, written); err != nil {
			return err
		}
		if err := copyDir(written, packed); err != nil {
			return err
		}
		if _, err := r.cell("compact", e.Name, peer.Relaxed, packed); err != nil {
			return err
		}
		r.add(work, planned{key{work, e.Name, peer.Relaxed, "written"}, written, false})
		r.add(work, planned{key{work, e.Name, peer.Relaxed, "compacted"}, packed, false})
	}
	if !r.wants("W5") {
		return nil
	}
	closed, killed := r.path("W5", e.Name, "closed"), r.path("W5", e.Name, "killed")
	if _, err := r.cell("fillW5", e.Name, peer.Relaxed, closed); err != nil {
		return err
	}
	if err := copyDir(closed, killed); err != nil {
		return err
	}
	if _, err := r.cell("kill", e.Name, peer.Relaxed, killed); err != nil {
		return err
	}
	probe := r.path("W5", e.Name, "probe")
	if err := copyDir(killed, probe); err != nil {
		return err
	}
	lost, err := r.cell("lost", e.Name, peer.Relaxed, probe)
	if err != nil {
		return err
	}
	r.results[key{"lost", e.Name, peer.Relaxed, ""}] = []figures{lost}
	r.add("W5", planned{key{"W5close", e.Name, peer.Relaxed, ""}, closed, true})
	r.add("W5", planned{key{"W5kill", e.Name, peer.Relaxed, ""}, killed, true})
	return os.RemoveAll(probe)
}

func (r *run) prepareItems(e peer.Engine) error {
	if !r.wants("items") {
		return nil
	}
	dir := r.path("items", e.Name, "written")
	if _, err := r.cell("fillItems", e.Name, peer.Relaxed, dir); err != nil {
		return err
	}
	r.add("items", planned{key: key{"itemput", e.Name, peer.Durable, ""}})
	r.add("items", planned{key{"itemget", e.Name, peer.Relaxed, ""}, dir, false})
	if e.Name == "stele" || e.Name == "sqlite-mattn" {
		r.add("items", planned{key{"itemsearch", e.Name, peer.Relaxed, ""}, dir, false})
	}
	return nil
}

func (r *run) path(parts ...string) string { return filepath.Join(r.dir, strings.Join(parts, "-")) }

// late reports whether the run has taken as long as it may.
func (r *run) late() bool { return r.limit > 0 && time.Since(r.begun) > r.limit }

// leaveOut ends the run in a round, before the measurements of a plan.
func (r *run) leaveOut(round int, plan []planned) {
	if round > 0 && len(plan) == len(r.plan) {
		r.rounds = round
		return
	}
	r.rounds = round + 1
	for _, p := range plan {
		if n := len(r.left); n == 0 || r.left[n-1] != p.Work {
			r.left = append(r.left, p.Work)
		}
	}
}

// measure makes the rounds. Within one, a workload goes to all engines in turn,
// beginning with another one each time. When the run is late, it ends between two workloads.
func (r *run) measure() error {
	for round := range r.rounds {
		start := time.Now()
		if r.late() {
			r.leaveOut(round, r.plan)
			return nil
		}
		for _, work := range []string{"floors", "copies"} {
			if err := r.one(planned{key: key{Work: work}}); err != nil {
				return err
			}
		}
		for i := 0; i < len(r.plan); {
			if r.late() {
				r.leaveOut(round, r.plan[i:])
				return nil
			}
			n := 1
			for i+n < len(r.plan) && r.plan[i+n].Work == r.plan[i].Work {
				n++
			}
			for k := range n {
				if err := r.one(r.plan[i+(k+round)%n]); err != nil {
					return err
				}
			}
			i += n
		}
		fmt.Fprintf(r.log, "round %d of %d took %.0f s\n", round+1, r.rounds, time.Since(start).Seconds())
	}
	return nil
}

// one makes one measurement.
func (r *run) one(p planned) error {
	dir := p.from
	if dir == "" || p.copy {
		dir = r.path("cell")
		if p.copy {
			if err := copyDir(p.from, dir); err != nil {
				return err
			}
		}
	}
	out, err := r.cell(p.Work, p.Engine, p.Mode, dir)
	if err != nil {
		return err
	}
	r.results[p.key] = append(r.results[p.key], out)
	return os.RemoveAll(r.path("cell"))
}

// cell runs a cell in a process of its own.
func (r *run) cell(work, engine string, mode peer.Mode, dir string) (figures, error) {
	spec, err := json.Marshal(cell{work, engine, mode, dir, r.size})
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), cellVariable+"="+string(spec))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if strings.HasPrefix(work, "kill") && wasKilled(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w: %s", work, engine, err, strings.TrimSpace(stderr.String()))
	}
	out := figures{}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		return nil, fmt.Errorf("%s on %s: %w", work, engine, err)
	}
	return out, nil
}

// copyDir copies the files of a directory, and makes the copies durable: else the first sync of
// the store in them would wait for all of what was copied.
func copyDir(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	return filepath.WalkDir(to, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
