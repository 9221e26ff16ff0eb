package server

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// usersMost is how many users the table of rates remembers at least; at most it has twice as many.
const usersMost = 10_000

// rates bounds how often users make requests. Each has a bucket of burst tokens, which fills
// by per tokens a second; a request takes one.
//
// The table is two maps. When the young one is full, it becomes the old one, and what was in
// the old one is forgotten: so a user is forgotten when as many others as a map holds have
// come since, and gets a full bucket when it comes again. Users are authenticated, so nobody
// can make others up to be forgotten.
type rates struct {
	per   rate.Limit
	burst int
	most  int

	mu         sync.Mutex
	young, old map[string]*rate.Limiter
}

// take takes a token of a user, or says how long it will be until there is one.
func (r *rates) take(user string, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.young[user]
	if l == nil {
		if l = r.old[user]; l == nil {
			l = rate.NewLimiter(r.per, r.burst)
		}
		if r.young == nil || len(r.young) >= r.most {
			r.young, r.old = map[string]*rate.Limiter{}, r.young
		}
		r.young[user] = l
	}
	taken := l.ReserveN(now, 1)
	if wait = taken.DelayFrom(now); wait > 0 {
		taken.CancelAt(now)
	}
	return wait
}

// limit counts a request, or a command on a socket, of a user, or refuses it. Under NoAuth nothing is
// counted, as all clients are one user.
func (r *rates) limit(c *call) error {
	if r == nil {
		return nil
	}
	wait := r.take(c.user.Identity, time.Now())
	if wait <= 0 {
		return nil
	}
	seconds := int64(math.Ceil(wait.Seconds()))
	c.w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	return fail(http.StatusTooManyRequests, "Too many requests; the limit is %g in a second. Try again in %d s.", float64(r.per), seconds)
}

// streamCount counts the streams of users.
type streamCount struct {
	most int // of a user

	mu sync.Mutex
	by map[string]int
}

// enter counts a stream, or refuses it.
func (s *streamCount) enter(user string) (leave func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[user] >= s.most {
		return nil, fail(http.StatusTooManyRequests, "Too many open streams; the limit is %d", s.most)
	}
	s.by[user]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.by[user]--; s.by[user] == 0 {
			delete(s.by, user)
		}
	}, nil
}

// open is how many streams there are.
func (s *streamCount) open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.by {
		n += of
	}
	return n
}
