package server

import (
	"context"

	"github.com/google/uuid"

	"github.com/stele-go/stele/store"
)

// cronsOf is the index of a thread's crons: empty records by their ids, in a namespace of the thread. A
// label takes no id of any form, so the namespace has a digest of it.
func (s *Server) cronsOf(threadID string) records[struct{}] {
	r := s.indexed
	r.ns = append(r.ns[:len(r.ns):len(r.ns)], uuid.NewSHA1(namespaceGraph, []byte(threadID)).String())
	return r
}

// allIndexed is the record that says that all crons are in the index.
const allIndexed = "all"

// indexCrons puts the crons that an earlier version made into the index.
func (s *Server) indexCrons(ctx context.Context) error {
	_, done, err := s.indexed.get(ctx, allIndexed)
	if done || err != nil {
		return err
	}
	var ops []store.Op
	for k, err := range s.crons.all(ctx) {
		if err != nil {
			return err
		}
		if k.ThreadID == "" {
			continue
		}
		op, err := s.cronsOf(k.ThreadID).op(k.ID, struct{}{})
		if err != nil {
			return err
		}
		if ops = append(ops, op); len(ops) == page {
			if _, err := s.cfg.Store.Batch(ctx, ops...); err != nil {
				return err
			}
			ops = ops[:0]
		}
	}
	op, err := s.indexed.op(allIndexed, struct{}{})
	if err == nil {
		_, err = s.cfg.Store.Batch(ctx, append(ops, op)...)
	}
	return err
}

// indexCron puts a cron into the index that is not there, as a server of an earlier version beside this
// one made it. Its thread may be gone by then; so is the cron when it is due.
func (s *Server) indexCron(ctx context.Context, k cron) error {
	if k.ThreadID == "" {
		return nil
	}
	index := s.cronsOf(k.ThreadID)
	if _, ok, err := index.get(ctx, k.ID); ok || err != nil {
		return err
	}
	return index.put(ctx, k.ID, struct{}{})
}

// putCron stores a cron with what is beside it, in one write, unless its thread is not there: then ok is
// false, and the cron is removed. A server that removes the thread meanwhile looks for crons behind that:
// one of both sees the other.
func (s *Server) putCron(ctx context.Context, k cron, beside ...store.Op) (ok bool, err error) {
	op, err := s.crons.op(k.ID, k)
	if err != nil {
		return false, err
	}
	if k.ThreadID == "" {
		_, err = s.cfg.Store.Batch(ctx, append(beside, op)...)
		return err == nil, err
	}
	named, err := s.cronsOf(k.ThreadID).op(k.ID, struct{}{})
	if err != nil {
		return false, err
	}
	if _, err = s.cfg.Store.Batch(ctx, append(beside, op, named)...); err != nil {
		return false, err
	}
	if _, ok, err = s.threads.get(ctx, k.ThreadID); !ok && err == nil {
		_, ok, err = s.infoOf(ctx, k.ThreadID) // a program beside the server has made it
	}
	if ok || err != nil {
		return ok, err
	}
	return false, s.deleteCron(ctx, k)
}

// deleteCron removes a cron, whose lock the caller has.
func (s *Server) deleteCron(ctx context.Context, k cron) error {
	ops := []store.Op{s.crons.deletion(k.ID)}
	if k.ThreadID != "" {
		ops = append(ops, s.cronsOf(k.ThreadID).deletion(k.ID))
	}
	_, err := s.cfg.Store.Batch(ctx, ops...)
	return err
}

// removeCronsOf removes the crons of a thread. One that is being fired would be stored again behind it.
func (s *Server) removeCronsOf(ctx context.Context, threadID string) error {
	var all []string // a list that is read by pages loses some while it is changed
	for item, err := range s.cronsOf(threadID).each(ctx) {
		if err != nil {
			return err
		}
		all = append(all, item.Key)
	}
	for _, id := range all {
		if err := s.removeCron(ctx, cron{ID: id, ThreadID: threadID}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) removeCron(ctx context.Context, k cron) error {
	defer s.locks.lock("cron " + k.ID)()
	return s.deleteCron(ctx, k)
}
