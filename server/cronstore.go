package server

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// cron submits a run again and again, on a thread of its own or each time on a new one. When
// it is due, the run is submitted with a key made of the cron and the time. So of several
// servers, and of one that was killed on the way, one run comes. Times that passed while no
// server lived are made up for by one run.
type cron struct {
	ID          string         `json:"id"`
	AssistantID string         `json:"assistant_id"`
	ThreadID    string         `json:"thread_id,omitempty"`
	Schedule    string         `json:"schedule"`
	Timezone    string         `json:"timezone,omitempty"`
	Payload     map[string]any `json:"payload"`
	Metadata    map[string]any `json:"metadata"`
	Stamp       map[string]any `json:"stamp,omitempty"` // metadata of the threads that it makes
	User        User           `json:"user"`
	Keep        bool           `json:"keep,omitempty"` // the threads of its runs are kept
	Enabled     bool           `json:"enabled"`
	Ends        *time.Time     `json:"ends,omitempty"`
	Next        time.Time      `json:"next"`
	Created     time.Time      `json:"created"`
	Updated     time.Time      `json:"updated"`
}

// cronStore has the crons, and the index of those of each thread.
type cronStore struct {
	records records[cron]
	indexed records[struct{}] // see of
	threads records[thread]
	store   store.Store
	saver   saver.Saver
	locks   *locks
}

// of is the index of a thread's crons: empty records by their ids, in a namespace of the thread. A
// label takes no id of any form, so the namespace has a digest of it.
func (s *cronStore) of(threadID string) records[struct{}] {
	r := s.indexed
	r.ns = append(r.ns[:len(r.ns):len(r.ns)], uuid.NewSHA1(namespaceGraph, []byte(threadID)).String())
	return r
}

// allIndexed is the record that says that all crons are in the index.
const allIndexed = "all"

// indexAll puts the crons that an earlier version made into the index.
func (s *cronStore) indexAll(ctx context.Context) error {
	_, done, err := s.indexed.get(ctx, allIndexed)
	if done || err != nil {
		return err
	}
	var ops []store.Op
	for k, err := range s.records.all(ctx) {
		if err != nil {
			return err
		}
		if k.ThreadID == "" {
			continue
		}
		op, err := s.of(k.ThreadID).op(k.ID, struct{}{})
		if err != nil {
			return err
		}
		if ops = append(ops, op); len(ops) == page {
			if _, err := s.store.Batch(ctx, ops...); err != nil {
				return err
			}
			ops = ops[:0]
		}
	}
	op, err := s.indexed.op(allIndexed, struct{}{})
	if err == nil {
		_, err = s.store.Batch(ctx, append(ops, op)...)
	}
	return err
}

// index adds a cron to the index if it is missing because a server of an earlier version has made it.
// Its thread may be removed by then; the cron is removed when it is due.
func (s *cronStore) index(ctx context.Context, k cron) error {
	if k.ThreadID == "" {
		return nil
	}
	index := s.of(k.ThreadID)
	if _, ok, err := index.get(ctx, k.ID); ok || err != nil {
		return err
	}
	return index.put(ctx, k.ID, struct{}{})
}

// put stores a cron together with beside, in one write. If its thread is not there, ok is false, and
// the cron is removed again. Another server that removes the thread meanwhile looks for crons
// afterwards, so one of the two sees the other.
func (s *cronStore) put(ctx context.Context, k cron, beside ...store.Op) (ok bool, err error) {
	op, err := s.records.op(k.ID, k)
	if err != nil {
		return false, err
	}
	if k.ThreadID == "" {
		_, err = s.store.Batch(ctx, append(beside, op)...)
		return err == nil, err
	}
	named, err := s.of(k.ThreadID).op(k.ID, struct{}{})
	if err != nil {
		return false, err
	}
	if _, err = s.store.Batch(ctx, append(beside, op, named)...); err != nil {
		return false, err
	}
	if _, ok, err = s.threads.get(ctx, k.ThreadID); !ok && err == nil {
		_, ok, err = saver.ThreadOf(ctx, s.saver, k.ThreadID) // a program made it without the server
	}
	if ok || err != nil {
		return ok, err
	}
	return false, s.delete(ctx, k)
}

// delete removes a cron, whose lock the caller has.
func (s *cronStore) delete(ctx context.Context, k cron) error {
	ops := []store.Op{s.records.deletion(k.ID)}
	if k.ThreadID != "" {
		ops = append(ops, s.of(k.ThreadID).deletion(k.ID))
	}
	_, err := s.store.Batch(ctx, ops...)
	return err
}

// removeOf removes the crons of a thread. One that is being fired would be stored again behind it.
func (s *cronStore) removeOf(ctx context.Context, threadID string) error {
	var all []string // a list that is read by pages loses some while it is changed
	for item, err := range s.of(threadID).each(ctx) {
		if err != nil {
			return err
		}
		all = append(all, item.Key)
	}
	for _, id := range all {
		if err := s.remove(ctx, cron{ID: id, ThreadID: threadID}); err != nil {
			return err
		}
	}
	return nil
}

func (s *cronStore) remove(ctx context.Context, k cron) error {
	defer s.locks.cron(k.ID)()
	return s.delete(ctx, k)
}
