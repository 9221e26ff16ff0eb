package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"

	"github.com/stele-go/stele/saver"
)

// Saver wraps s so that each load (GetTuple) and save (Put, PutRequest, PutWrites) has a span.
// If a checkpoint is not found, the outcome is "not_found" and there is no error. The result
// is a saver.Eraser if s is; see saver.Intercept.
func (t *Tracer) Saver(s saver.Saver) saver.Saver {
	return saver.Intercept(s, func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
		at := call.Config
		switch call.Method {
		case "GetTuple":
			ctx, span := t.begin(ctx, "load", place(at.ThreadID, at.Namespace, at.CheckpointID)...)
			err := next(ctx)
			switch {
			case errors.Is(err, saver.ErrNotFound):
				span.SetAttributes(attribute.String("stele.outcome", "not_found"))
				span.End()
			case err != nil:
				finish(span, err)
			default:
				span.SetAttributes(attribute.String("stele.checkpoint_id", call.Answer.CheckpointID))
				span.End()
			}
			return err
		case "Put", "PutRequest":
			ctx, span := t.begin(ctx, "save checkpoint", place(at.ThreadID, at.Namespace, call.CheckpointID)...)
			err := next(ctx)
			finish(span, err)
			return err
		case "PutWrites":
			attrs := text(place(at.ThreadID, at.Namespace, at.CheckpointID), "stele.task_id", call.TaskID)
			ctx, span := t.begin(ctx, "save writes", append(attrs, attribute.Int("stele.writes", call.Writes))...)
			err := next(ctx)
			finish(span, err)
			return err
		}
		return next(ctx)
	})
}
