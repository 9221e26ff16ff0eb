package server

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"

	"github.com/stele-go/stele/runs"
)

// eventID names an event of a run to its clients, who go on behind it: by its number and, where a take-over may lose events that
// clients have seen, a mark of the event itself. Another event that got the number afterwards has another mark. That the event is
// there says that all before it are, too: what a take-over leaves is a prefix. Ids without a mark are taken as they are.
type eventID struct {
	seq  int64
	mark string // "": none
}

// idOf is the id of an event.
func (s *streamAPI) idOf(ev runs.Event) eventID {
	if !s.marks {
		return eventID{seq: ev.Seq}
	}
	return eventID{ev.Seq, markOf(ev)}
}

// markOf is a hash of when and in which attempt an event was stored, and of what it says: no two events of a run that had one number,
// before a take-over and after it, are likely to share it.
func markOf(ev runs.Event) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%d %d %d %s ", ev.Seq, ev.Attempt, ev.Time.UnixMicro(), ev.Kind) // it cannot fail
	_, _ = h.Write(ev.Data.Data)
	return fmt.Sprintf("%08x", h.Sum32())
}

// String is the id as clients get it: NUMBER, or NUMBER.MARK.
func (id eventID) String() string {
	if id.mark == "" {
		return strconv.FormatInt(id.seq, 10)
	}
	return strconv.FormatInt(id.seq, 10) + "." + id.mark
}

// parseEventID is the inverse of String. What is no id is the one before the first event.
func parseEventID(text string) eventID {
	number, mark, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return eventID{}
	}
	return eventID{n, mark}
}

// isOther reports whether an event has the number of the id, and is another one.
func (id eventID) isOther(ev runs.Event) bool {
	return id.mark != "" && ev.Seq == id.seq && markOf(ev) != id.mark
}

// errCut is told to a client that has seen an event that is lost: what it saw last did not happen.
var errCut = &failure{http.StatusGone, "The event behind which the stream is to go on is lost: what clients saw last did not survive. Read the state, and stream the run from its beginning: Last-Event-ID 0."}

// cut returns errCut if the event that a client names is lost. A follower may not have it yet.
func (s *streamAPI) cut(c *call, run string, from eventID) error {
	if from.mark == "" || from.seq == 0 {
		return nil
	}
	events, err := s.queue.Events(c.ctx, run, from.seq-1, 1)
	if err == nil && (len(events) == 0 && !s.follows || len(events) > 0 && from.isOther(events[0])) {
		err = errCut
	}
	return err
}
