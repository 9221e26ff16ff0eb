package otel

import (
	"context"
	"errors"
	"io"

	"go.opentelemetry.io/otel/attribute"

	"github.com/stele-go/stele/saver"
)

// Saver is s, with a span for each load (GetTuple) and save (Put, PutRequest,
// PutWrites). A checkpoint that is not found is the outcome "not_found", and no error.
//
// The optional powers of s are kept if it has all of package saver's, but perhaps
// saver.Serializing: those of this module do, and io.Closer. Else the result has none of them. Closing it
// closes s.
func (t *Tracer) Saver(s saver.Saver) saver.Saver {
	base := traced{s, t}
	p, ok := s.(powers)
	if !ok {
		return &base
	}
	full := tracedPowers{&base, p}
	if codec, ok := s.(saver.Serializing); ok {
		return &tracedSerializing{&full, codec}
	}
	return &full
}

// powers are the optional powers of a saver.
type powers interface {
	saver.RunDeleter
	saver.ThreadCopier
	saver.Pruner
	saver.Retainer
	saver.Eraser
	saver.Expirer
	saver.DeltaReader
	saver.ThreadLister
	saver.Syncer
	saver.AtomicPutter
	saver.AttemptCounter
	saver.Owner
	io.Closer
}

// traced is a saver without optional powers.
type traced struct {
	saver.Saver
	t *Tracer
}

// GetTuple implements saver.Saver.
func (s *traced) GetTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	ctx, span := s.t.begin(ctx, "load", place(cfg.ThreadID, cfg.Namespace, cfg.CheckpointID)...)
	tup, err := s.Saver.GetTuple(ctx, cfg)
	switch {
	case errors.Is(err, saver.ErrNotFound):
		span.SetAttributes(attribute.String("stele.outcome", "not_found"))
		span.End()
	case err != nil:
		finish(span, err)
	default:
		span.SetAttributes(attribute.String("stele.checkpoint_id", tup.Config.CheckpointID))
		span.End()
	}
	return tup, err
}

// Put implements saver.Saver.
func (s *traced) Put(ctx context.Context, cfg saver.Config, cp saver.Checkpoint, md saver.Metadata, newVersions map[string]saver.Version) (saver.Config, error) {
	ctx, span := s.t.begin(ctx, "save checkpoint", place(cfg.ThreadID, cfg.Namespace, cp.ID)...)
	at, err := s.Saver.Put(ctx, cfg, cp, md, newVersions)
	finish(span, err)
	return at, err
}

// PutWrites implements saver.Saver.
func (s *traced) PutWrites(ctx context.Context, cfg saver.Config, writes []saver.Write, taskID, taskPath string) error {
	attrs := text(place(cfg.ThreadID, cfg.Namespace, cfg.CheckpointID), "stele.task_id", taskID)
	ctx, span := s.t.begin(ctx, "save writes", append(attrs, attribute.Int("stele.writes", len(writes)))...)
	err := s.Saver.PutWrites(ctx, cfg, writes, taskID, taskPath)
	finish(span, err)
	return err
}

// tracedPowers has the optional powers too.
type tracedPowers struct {
	*traced
	powers
}

// PutRequest implements saver.AtomicPutter.
func (s *tracedPowers) PutRequest(ctx context.Context, req saver.PutRequest) (saver.Config, error) {
	ctx, span := s.t.begin(ctx, "save checkpoint", place(req.Config.ThreadID, req.Config.Namespace, req.Checkpoint.ID)...)
	at, err := s.powers.PutRequest(ctx, req)
	finish(span, err)
	return at, err
}

// tracedSerializing also says how it serializes.
type tracedSerializing struct {
	*tracedPowers
	saver.Serializing
}
