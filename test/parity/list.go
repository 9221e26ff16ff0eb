package parity

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/stele-go/stele/saver"
)

type listCall struct {
	reading
	query   saver.Query
	refused Rule // stele refuses the question, by this rule
	answer  []*tuple
	rules   []Rule // rules by which the answer is not LangGraph's own
}

func (f *Fixture) listCall(line *rawLine) (call, error) {
	var c listCall
	if line.Config != nil {
		cfg, hasNamespace, err := line.Config.config()
		if err != nil {
			return nil, err
		}
		c.query.ThreadID, c.query.CheckpointID = cfg.ThreadID, cfg.CheckpointID
		if hasNamespace {
			c.query.Namespace = saver.InNamespace(cfg.Namespace)
		}
	}
	if line.Before != nil {
		before, _, err := line.Before.config()
		if err != nil {
			return nil, err
		}
		c.query.Before = before.CheckpointID
	}
	var err error
	if c.query.Filter, err = plainMap(line.Filter); err != nil {
		return nil, err
	}
	for key := range line.Filter {
		if strings.Trim(key, filterKeyRunes) != "" {
			c.refused = FilterKeyRefused
		}
	}
	if line.Limit != nil {
		if c.query.Limit = *line.Limit; c.query.Limit < 0 {
			c.refused = NegativeLimitRefused
		} else if c.query.Limit == 0 {
			c.query.Limit = saver.NoResults
		}
	}
	return c, f.listAnswer(line, &c)
}

// filterKeyRunes are what a filter key may be made of, in stele and in
// LangGraph's SQLite saver.
const filterKeyRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

func (f *Fixture) listAnswer(line *rawLine, c *listCall) error {
	var numbers []int
	if err := json.Unmarshal(line.Answer, &numbers); err != nil {
		return err
	}
	if line.Restated != nil {
		numbers, c.rules = line.Restated.Answer, line.Restated.Rules
	}
	var err error
	c.answer, err = f.tuplesNumbered(numbers)
	return err
}

func (l listCall) run(ctx context.Context, s saver.Saver, c *comparison) error {
	var got []*saver.Tuple
	var failed error
	for t, err := range s.List(ctx, l.query) {
		if err != nil {
			failed = err
			break
		}
		got = append(got, t)
	}
	if l.refused != "" {
		c.refused(l.refused, failed)
		return nil
	}
	if failed != nil {
		return failed
	}
	for _, rule := range l.rules {
		c.applied(rule)
	}
	if len(got) != len(l.answer) {
		c.differ("%d checkpoints listed; want %d", len(got), len(l.answer))
		return nil
	}
	for i, want := range l.answer {
		c.tuple("listed", got[i], want)
	}
	return nil
}
