package wire

import (
	"time"

	"github.com/stele-go/stele/saver"
)

// query has the tags of saver.Query, the parameters of list.
type query struct {
	ThreadID     string         `msgpack:"thread,omitempty"`
	Namespace    *string        `msgpack:"ns,omitempty"`
	CheckpointID string         `msgpack:"id,omitempty"`
	Before       string         `msgpack:"before,omitempty"`
	Filter       map[string]any `msgpack:"filter,omitempty"`
	Limit        int            `msgpack:"limit,omitempty,limit"`
}

// threadQuery has the tags of saver.ThreadQuery, the parameters of threads.
type threadQuery struct {
	ThreadID     string         `msgpack:"thread,omitempty"`
	Prefix       string         `msgpack:"prefix,omitempty"`
	UpdatedSince time.Time      `msgpack:"updated_since,omitempty"`
	Status       saver.Status   `msgpack:"status,omitempty"`
	Metadata     map[string]any `msgpack:"metadata,omitempty"`
	Limit        int            `msgpack:"limit,omitempty,limit"`
	WithoutNotes bool           `msgpack:"-"`
}

// threadInfo has the tags of saver.ThreadInfo, an item of threads.
type threadInfo struct {
	ThreadID  string       `msgpack:"thread"`
	Head      string       `msgpack:"head"`
	UpdatedAt time.Time    `msgpack:"updated_at"`
	Status    saver.Status `msgpack:"status"`
	Graph     string       `msgpack:"graph"`
	Next      []string     `msgpack:"next"`
	Version   string       `msgpack:"version,omitempty"`
	Held      bool         `msgpack:"held,omitempty"`
}

// Raw is a value of MessagePack that is not decoded. It shares the memory of its frame.
type Raw []byte

// Items is the notification with a batch of what a call lists.
type Items struct {
	Call  uint32 `msgpack:"call"`
	Items []Raw  `msgpack:"items"` // each a Tuple, a saver.ThreadInfo or a store.Found
}

// Control are the parameters of the notifications more (Call, Batches), cancel (Call) and
// lost (Lease).
type Control struct {
	Call    uint32 `msgpack:"call"`
	Batches int    `msgpack:"batches,omitempty"`
	Lease   int64  `msgpack:"lease,omitempty"`
}

// Counted is the answer of a listing: how many items it had.
type Counted struct {
	Count int `msgpack:"count"`
}
