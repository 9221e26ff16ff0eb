package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// operatorAPI has the operations about the server itself, and those for its operators.
type operatorAPI struct {
	queue       runs.Queue
	graphs      *graphSet
	saver       saver.Saver
	threads     *threadAPI
	view        *runView
	crons       *cronStore
	users       *userErasure
	unmoved     *unmovedItems
	metrics     *requestCounts
	openStreams *streamCount
	routes      []route // of the server
	readOnly    bool
	follows     bool
	backupDir   string
	lives       context.Context // ends when the server closes
	upkeep      sync.Mutex      // one check, backup or erasure at a time
	log         *slog.Logger
}

// Version is the version of LangGraph's server whose API this server speaks.
const Version = "0.16.7"

// ok says that the process answers and, if it is asked, whether its store is healthy. With leads, for whoever chooses one of several
// servers, the answer of a follower is 503.
func (s *operatorAPI) ok(c *call) error {
	status, services := http.StatusOK, map[string]any{}
	db, err := c.isTrue("check_db", false)
	if err != nil {
		return err
	}
	leads, err := c.isTrue("leads", false)
	if err != nil {
		return err
	}
	if leads && s.follows {
		return errFollower
	}
	if db {
		services["database"] = "healthy"
		if err := s.checkStore(c.ctx); err != nil {
			s.log.Error("the store is not healthy", "error", err)
			status, services["database"] = http.StatusInternalServerError, "unhealthy"
		}
		if w, ok := s.saver.(watched); ok {
			h := w.Health()
			for _, p := range h.Problems {
				if p.Kind == metrics.TroubleHeld {
					services["held"] = p.Detail
				}
			}
			if h.Replica != nil {
				services["replica"] = replicaService(&h)
			}
		}
	}
	return writeJSON(c.w, status, map[string]any{"ok": status == http.StatusOK, "services": services})
}

// replicaService says how the copy in a bucket does, to whomever: without the address of the bucket, and without errors, which may have it.
func replicaService(h *metrics.Health) map[string]any {
	worst := metrics.StatusOK
	for _, p := range h.Problems {
		if p.Kind == metrics.TroubleReplica {
			worst = max(worst, p.Status)
		}
	}
	said := map[string]any{"mode": h.Replica.Mode, "status": worst.String()}
	if f := h.Replica.Follower; f != nil {
		said["behind_seconds"], said["beat_seconds"] = f.Behind.Seconds(), f.Beat.Seconds()
		if f.Away > 0 {
			said["away_seconds"] = f.Away.Seconds()
		}
	} else {
		said["seeded"], said["lag_records"], said["lag_seconds"] = h.Replica.Seeded, h.Replica.Lag.Records, h.Replica.Lag.Age.Seconds()
	}
	return said
}

// storeTimeout bounds how long a check waits for the store.
const storeTimeout = 5 * time.Second

// checkStore is an error if the store cannot be read, or takes no writes though the server changes things.
func (s *operatorAPI) checkStore(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, storeTimeout)
	defer stop()
	if _, _, err := s.crons.indexed.get(ctx, allIndexed); err != nil {
		return err
	}
	if w, ok := s.saver.(watched); ok && !s.readOnly {
		for _, p := range w.Health().Problems {
			if p.Status == metrics.StatusFailed {
				return fmt.Errorf("%s: %s", p.Kind, p.Detail)
			}
		}
	}
	return nil
}

// watched is a saver that reports health and statistics.
type watched interface {
	Health() metrics.Health
	Stats() metrics.Stats
}

// info answers with what the server can do. Clients look at the flags.
func (s *operatorAPI) info(c *call) error {
	_, watched := s.saver.(watched)
	_, embedded := s.saver.(*disk.Saver)
	change := !s.readOnly && !s.follows
	versions := map[string]string{}
	for id, g := range s.graphs.by {
		versions[id] = g.Version()
	}
	stele := map[string]any{"readonly": !change, "follower": s.follows, "lazy_history": true, "thread_status": true, "thread_prefix": true, "brief_values": true,
		"task_inputs": true, "runs": true, "tasks": true, "steps": true, "signals": true, "nodes": true, "health": watched,
		"graph_versions": versions, "room": embedded, "verify": embedded && change, "backup": embedded && change && s.backupDir != ""}
	return c.json(map[string]any{"version": Version, "stele": stele, "langgraph_py_version": "1.2.24",
		"flags": map[string]any{"assistants": true, "crons": true, "langsmith": false, "langsmith_tracing_replicas": false,
			"langsmith_tracing_session_on_runs": false},
		"host": map[string]any{"kind": "self-hosted", "project_id": nil, "host_revision_id": nil, "revision_id": nil, "tenant_id": nil}})
}
