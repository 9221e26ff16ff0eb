package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
)

// Crons submit runs again and again.
type Crons struct{ c *Client }

// Cron is a run that comes again and again.
type Cron struct {
	CronID         string          `json:"cron_id"`
	AssistantID    string          `json:"assistant_id"`
	ThreadID       string          `json:"thread_id"` // "" if each run has a thread of its own
	Schedule       string          `json:"schedule"`
	Timezone       string          `json:"timezone"`
	Enabled        bool            `json:"enabled"`
	OnRunCompleted string          `json:"on_run_completed"`
	Payload        json.RawMessage `json:"payload"`
	Metadata       map[string]any  `json:"metadata"`
	UserID         string          `json:"user_id"`
	EndTime        Time            `json:"end_time"`
	NextRunDate    Time            `json:"next_run_date"`
	CreatedAt      Time            `json:"created_at"`
	UpdatedAt      Time            `json:"updated_at"`
}

// CronRequest is a cron to make, or what to change of one: the run, and when it comes.
type CronRequest struct {
	RunRequest
	// Schedule is minute, hour, day of the month, month and day of the week: "0 8 * * 1".
	Schedule string `json:"schedule,omitempty"`
	// Timezone is that of Schedule, such as "Europe/Rome"; "" is UTC.
	Timezone string `json:"timezone,omitempty"`
	EndTime  *Time  `json:"end_time,omitempty"`
	Enabled  *bool  `json:"enabled,omitempty"`
	// OnRunCompleted says what becomes of a thread that the cron made: "delete", the
	// default, or "keep".
	OnRunCompleted string `json:"on_run_completed,omitempty"`
}

// Create makes a cron: on a thread, or with a thread for each run if threadID is "".
func (k *Crons) Create(ctx context.Context, threadID string, in CronRequest) (*Cron, error) {
	if threadID != "" {
		return ask[*Cron](ctx, k.c, post(in, "threads", threadID, "runs", "crons"))
	}
	return ask[*Cron](ctx, k.c, post(in, "runs", "crons"))
}

// Get is the cron of an id.
func (k *Crons) Get(ctx context.Context, id string) (*Cron, error) {
	return ask[*Cron](ctx, k.c, get("runs", "crons", id))
}

// Update changes a cron. What is not set stays.
func (k *Crons) Update(ctx context.Context, id string, in CronRequest) (*Cron, error) {
	return ask[*Cron](ctx, k.c, call{method: http.MethodPatch, path: []string{"runs", "crons", id}, body: in})
}

// Delete removes a cron. Runs that it submitted go on.
func (k *Crons) Delete(ctx context.Context, id string) error {
	return k.c.do(ctx, call{method: http.MethodDelete, path: []string{"runs", "crons", id}}, nil)
}

// CronQuery narrows a search. The zero value finds all, ten at a time.
type CronQuery struct {
	AssistantID string         `json:"assistant_id,omitempty"`
	ThreadID    string         `json:"thread_id,omitempty"`
	Enabled     *bool          `json:"enabled,omitempty"`
	Metadata    map[string]any `json:"metadata,omitempty"`
	Limit       int            `json:"limit,omitempty"`
	Offset      int            `json:"offset,omitempty"`
	SortBy      string         `json:"sort_by,omitempty"`
	SortOrder   string         `json:"sort_order,omitempty"` // "asc" or "desc"
	Select      []string       `json:"select,omitempty"`     // fields; nil is all
}

// Search is one page of crons.
func (k *Crons) Search(ctx context.Context, q CronQuery) ([]Cron, error) {
	return ask[[]Cron](ctx, k.c, read(q, "runs", "crons", "search"))
}

// All are the crons of a search, page by page; Limit is the size of a page. What is made or
// removed meanwhile may be missed, or come twice.
func (k *Crons) All(ctx context.Context, q CronQuery) iter.Seq2[Cron, error] {
	return pages(q.Limit, q.Offset, func(limit, offset int) ([]Cron, error) {
		q.Limit, q.Offset = limit, offset
		return k.Search(ctx, q)
	})
}

// Count is how many crons a search finds.
func (k *Crons) Count(ctx context.Context, q CronQuery) (int, error) {
	q.Limit, q.Offset, q.Select, q.SortBy, q.SortOrder = 0, 0, nil, "", ""
	return ask[int](ctx, k.c, read(q, "runs", "crons", "count"))
}
