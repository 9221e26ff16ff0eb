package parity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// call is a recorded call with its answer.
type call interface {
	// run makes the call and compares the answer, reporting differences to c. An
	// error means that a call failed which the recording says succeeds.
	run(ctx context.Context, s saver.Saver, c *comparison) error
	// answers reports whether there is an answer to compare.
	answers() bool
	// changes reports whether the call changes the saver.
	changes() bool
}

type (
	reading struct{}
	writing struct{}
)

func (reading) answers() bool { return true }
func (reading) changes() bool { return false }
func (writing) changes() bool { return true }

func (f *Fixture) call(line *rawLine) (call, error) {
	switch line.Op {
	case "put":
		return f.putCall(line)
	case "put_writes":
		return f.putWritesCall(line)
	case "delete_thread":
		return deleteCall{thread: line.ThreadID}, nil
	case "get_tuple":
		return f.getTupleCall(line)
	case "list":
		return f.listCall(line)
	case "get_next_version":
		return f.nextVersionCall(line)
	case "get_delta_channel_history":
		return f.deltaCall(line)
	}
	return nil, errors.New("unknown op")
}

type putCall struct {
	writing
	cfg         saver.Config
	cp          saver.Checkpoint
	metadata    saver.Metadata
	newVersions map[string]saver.Version
	answer      saver.Config
}

func (f *Fixture) putCall(line *rawLine) (call, error) {
	var c putCall
	var err error
	if c.cfg, _, err = line.Config.config(); err != nil {
		return nil, err
	}
	if c.cp, err = line.Checkpoint.checkpoint(); err != nil {
		return nil, err
	}
	if c.metadata, err = plainMap(line.Metadata); err != nil {
		return nil, err
	}
	if c.newVersions, err = versions(line.NewVersions); err != nil {
		return nil, err
	}
	c.cp.Values = map[string]saver.Value{}
	for _, given := range []map[string]int{line.Values, line.Carried} {
		values, err := f.values(given)
		if err != nil {
			return nil, err
		}
		for channel, v := range values {
			c.cp.Values[channel] = saver.ValueTyped(v)
		}
	}
	var answer rawConfig
	if err := json.Unmarshal(line.Answer, &answer); err != nil {
		return nil, err
	}
	c.answer, _, err = answer.config()
	return c, err
}

func (putCall) answers() bool { return true }

func (p putCall) run(ctx context.Context, s saver.Saver, c *comparison) error {
	got, err := s.Put(ctx, p.cfg, p.cp, p.metadata, p.newVersions)
	if err != nil {
		return err
	}
	c.config("returned config", got, p.answer)
	return nil
}

type putWritesCall struct {
	writing
	cfg        saver.Config
	writes     []saver.Write
	task, path string
}

func (f *Fixture) putWritesCall(line *rawLine) (call, error) {
	c := putWritesCall{task: line.TaskID, path: line.TaskPath}
	var err error
	if c.cfg, _, err = line.Config.config(); err != nil {
		return nil, err
	}
	for _, fields := range line.Writes {
		w, err := f.write(fields[:])
		if err != nil {
			return nil, err
		}
		c.writes = append(c.writes, saver.Write{Channel: w.channel, Value: saver.ValueTyped(w.value)})
	}
	return c, nil
}

func (putWritesCall) answers() bool { return false }

func (p putWritesCall) run(ctx context.Context, s saver.Saver, _ *comparison) error {
	return s.PutWrites(ctx, p.cfg, p.writes, p.task, p.path)
}

type deleteCall struct {
	writing
	thread string
}

func (deleteCall) answers() bool { return false }

func (d deleteCall) run(ctx context.Context, s saver.Saver, _ *comparison) error {
	return s.DeleteThread(ctx, d.thread)
}

type getTupleCall struct {
	reading
	cfg    saver.Config
	answer *tuple // nil: there is none
	fresh  bool   // LangGraph returned the caller's config, not the triple
}

func (f *Fixture) getTupleCall(line *rawLine) (call, error) {
	c := getTupleCall{fresh: line.AnswerConfig != nil}
	var err error
	if c.cfg, _, err = line.Config.config(); err != nil {
		return nil, err
	}
	var n *int
	if err := json.Unmarshal(line.Answer, &n); err != nil {
		return nil, err
	}
	if n != nil {
		c.answer, err = f.tupleNumbered(*n)
	}
	return c, err
}

func (g getTupleCall) run(ctx context.Context, s saver.Saver, c *comparison) error {
	got, err := s.GetTuple(ctx, g.cfg)
	if g.cfg.ThreadID == "" {
		c.refused(EmptyThreadRefused, err)
		return nil
	}
	if errors.Is(err, saver.ErrNotFound) {
		if g.answer != nil {
			c.differ("nothing found; want checkpoint %q", g.answer.cp.ID)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if g.answer == nil {
		c.differ("found checkpoint %q; want nothing", got.Checkpoint.ID)
		return nil
	}
	if g.fresh {
		c.applied(FreshConfig)
	}
	c.tuple("tuple", got, g.answer)
	return nil
}

type nextVersionCall struct {
	reading
	current, answer saver.Version
}

func (f *Fixture) nextVersionCall(line *rawLine) (call, error) {
	current, err := plain(line.Current)
	if err != nil {
		return nil, err
	}
	var c nextVersionCall
	if c.current, err = saver.VersionOf(current); err != nil {
		return nil, err
	}
	var answer string
	err = json.Unmarshal(line.Answer, &answer)
	c.answer = saver.StringVersion(answer)
	return c, err
}

func (n nextVersionCall) run(_ context.Context, s saver.Saver, c *comparison) error {
	got, err := s.NextVersion(n.current, "channel")
	if err != nil {
		return err
	}
	c.applied(RandomFraction)
	if shape(got) != shape(n.answer) || got.Compare(n.current) != n.answer.Compare(n.current) {
		c.differ("next version of %q is %q; LangGraph's was %q", n.current, got, n.answer)
	}
	return nil
}

// shape is a version without what is random in it: the integer part with its
// padding, and whether a fraction of at least LangGraph's width follows.
func shape(v saver.Version) string {
	whole, fraction, _ := strings.Cut(v.String(), ".")
	n, err := number(fraction)
	below, isFloat := n.(float64)
	proper := err == nil && isFloat && below >= 0 && below < 1 && len(fraction) >= 16
	return fmt.Sprintf("%s/%t", whole, proper)
}

type deltaCall struct {
	reading
	cfg      saver.Config
	channels []string
	answer   map[string]deltaAnswer
}

type deltaAnswer struct {
	writes []write
	seed   *serde.Typed
}

func (f *Fixture) deltaCall(line *rawLine) (call, error) {
	c := deltaCall{channels: line.Channels, answer: map[string]deltaAnswer{}}
	var err error
	if c.cfg, _, err = line.Config.config(); err != nil {
		return nil, err
	}
	var answer map[string]struct {
		Writes [][3]any
		Seed   *int
	}
	dec := json.NewDecoder(strings.NewReader(string(line.Answer)))
	dec.UseNumber()
	if err := dec.Decode(&answer); err != nil {
		return nil, err
	}
	for channel, raw := range answer {
		var one deltaAnswer
		for _, fields := range raw.Writes {
			w, err := f.write(fields[:])
			if err != nil {
				return nil, err
			}
			one.writes = append(one.writes, w)
		}
		if raw.Seed != nil {
			seed, err := f.blob(*raw.Seed)
			if err != nil {
				return nil, err
			}
			one.seed = &seed
		}
		c.answer[channel] = one
	}
	return c, nil
}

// run asks both ways: the saver's own, and the walk that works for every saver.
func (d deltaCall) run(ctx context.Context, s saver.Saver, c *comparison) error {
	got, err := s.DeltaChannelHistory(ctx, d.cfg, d.channels)
	if err != nil {
		return err
	}
	c.deltas("history by the saver", got, d.answer)
	got, err = rules.DeltaChannelHistory(ctx, s, d.cfg, d.channels)
	if err != nil {
		return err
	}
	c.deltas("history by walking", got, d.answer)
	return nil
}
