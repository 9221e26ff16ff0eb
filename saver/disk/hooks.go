package disk

import (
	"context"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/diskhook"
	"github.com/stele-go/stele/internal/engine"
	"github.com/stele-go/stele/internal/group"
	"github.com/stele-go/stele/internal/metric"
	"github.com/stele-go/stele/internal/storage"
	"github.com/stele-go/stele/saver"
)

func init() {
	group.OfDisk = func(s saver.Saver) group.Putter {
		if s, ok := s.(*Saver); ok {
			return putter{s}
		}
		return nil
	}
	diskhook.SimulationOf = func(opts any) *diskhook.Simulation { return &opts.(*Options).sim }
	diskhook.EngineOptions = func(opts any) storage.Options { return opts.(*Options).engine() }
	diskhook.Engine = func(s any) *engine.Engine { return s.(*Saver).e }
	diskhook.Counters = func(s any) *metric.Beside { return &s.(*Saver).m.beside }
	diskhook.MetadataMatcher = func(s any, v *storage.View, filter map[string]any) (func(context.Context, *index.Partition) (bool, error), func()) {
		return s.(*Saver).metadataMatcher(v, filter)
	}
	diskhook.DescribeThread = func(ctx context.Context, s any, v *storage.View, t *index.Partition, info *saver.ThreadInfo) error {
		return s.(*Saver).describeThread(ctx, v, t, info)
	}
	diskhook.AdoptErasures = func(ctx context.Context, to, from any) error {
		return to.(*Saver).adoptErasures(ctx, from.(*Saver))
	}
}
