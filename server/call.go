package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stele-go/stele/runs"
)

// route is an operation of the API. Every request goes through one, and prepare
// authenticates, reads and authorizes it before handle runs.
type route struct {
	method, path     string
	resource, action string // for Authorize
	// open: the operation needs no authentication.
	open bool
	// in is the JSON that the request must have; nil reads no body. If it is optional the
	// body may be empty.
	in       *shape
	optional bool
	// query are the parameters that its address may have. Others are not read, and listed as ignored.
	query []string
	// byName: the path may name an assistant by its graph.
	byName bool
	// stream: the answer stays open, and counts as a stream of its user.
	stream bool
	// allUsers: the operation shows data of all users, and is only for those who may see all.
	allUsers bool
	handle   func(*call) error
}

// changes reports whether the operation changes something.
func (rt *route) changes() bool {
	switch rt.action {
	case "read", "search", "get", "list_namespaces":
		return rt.path == "/threads/{thread_id}/copy"
	}
	return true
}

// with returns an operation that first finds the thing that a path names, as far as the grant shows it,
// and then calls do with it.
func with[T any](of func(*call) (T, error), do func(*call, T) error) func(*call) error {
	return func(c *call) error {
		v, err := of(c)
		if err != nil {
			return err
		}
		return do(c, v)
	}
}

// call is a request on its way through a handler: what came, who sent it, and what that user may see.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context
	route *route
	auth  *Auth
	user  *User
	grant Grant
	in    any  // the JSON of the request
	body  body // the same, if it is an object
	// deferSync: the run that the request makes may not be durable when Submit returns. It must be read
	// from the queue, which makes it durable, before the client is told of it. See saver.DeferSync.
	deferSync   bool
	listingMost int // see listing
}

// path is a part of the request's path.
func (c *call) path(name string) string { return c.r.PathValue(name) }

// values are all that the request's address has of a parameter of the route. One that the route does not declare would be announced
// as ignored.
func (c *call) values(name string) []string {
	if !slices.Contains(c.route.query, name) {
		panic(fmt.Sprintf("server: %s reads the parameter %q of its address, and does not declare it", c.r.Pattern, name))
	}
	return c.r.URL.Query()[name]
}

// manyValued are the parameters that clients may repeat, as one of words does. Of any other the server would read the first alone.
var manyValued = []string{"include", "select", "stream_mode", "stream_modes"}

// once refuses a request whose address has a parameter of the route several times that has one value.
func (c *call) once() error {
	for name, given := range c.r.URL.Query() {
		if len(given) > 1 && slices.Contains(c.route.query, name) && !slices.Contains(manyValued, name) {
			return fail(422, "Invalid %s: it comes %d times, and has one value", name, len(given))
		}
	}
	return nil
}

// query is the one of values, "" if there is none.
func (c *call) query(name string) string {
	if given := c.values(name); len(given) > 0 {
		return given[0]
	}
	return ""
}

// words are those that a parameter of the request's address lists, each of which must be one of some. As
// clients have it, the parameter comes several times, has commas, or is a list of JSON.
func (c *call) words(name string, of ...string) (given []string, err error) {
	for _, list := range c.values(name) {
		for w := range strings.SplitSeq(strings.Trim(list, "[]"), ",") {
			if w = strings.Trim(w, `" `); w == "" {
				continue
			}
			if !slices.Contains(of, w) {
				return nil, fail(422, "Invalid %s: %q is not one of %s", name, w, words(of))
			}
			given = append(given, w)
		}
	}
	return given, nil
}

// word is a parameter of the request's address that is one of some; "" if it is missing.
func (c *call) word(name string, of ...string) (string, error) {
	given := c.query(name)
	if given != "" && !slices.Contains(of, given) {
		return "", fail(422, "Invalid %s: %q is not one of %s", name, given, words(of))
	}
	return given, nil
}

// isTrue is a parameter of the request's address that is true or false, as several languages write it; otherwise if it is missing.
func (c *call) isTrue(name string, otherwise bool) (bool, error) {
	switch v := strings.ToLower(c.query(name)); v {
	case "":
		return otherwise, nil
	case "1", "true", "yes":
		return true, nil
	case "0", "false", "no":
		return false, nil
	default:
		return false, fail(422, "Invalid %s: %q is neither true nor false", name, v)
	}
}

// json answers with a value.
func (c *call) json(v any) error { return writeJSON(c.w, http.StatusOK, v) }

// answer is json, unless there is an error.
func (c *call) answer(v any, err error) error {
	if err != nil {
		return err
	}
	return c.json(v)
}

// none answers with 204 and no body, or returns err.
func (c *call) none(err error) error {
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// access returns the grant for another resource than that of the route.
func (c *call) access(resource, action string) (Grant, error) {
	if resource == c.route.resource && action == c.route.action {
		return c.grant, nil
	}
	return c.auth.grant(c.ctx, c.user, Access{resource, action, c.value()})
}

// value is the request as Authorize sees it.
func (c *call) value() map[string]any {
	v := merged(c.body)
	for _, name := range []string{"assistant_id", "thread_id", "run_id", "cron_id"} {
		if p := c.r.PathValue(name); p != "" {
			v[name] = p
		} else if given, ok := v[name].(string); ok && name != "thread_id" { // which prepare has read
			v[name] = usual(given) // in its usual form, so that Authorize recognises it
		}
	}
	if c.route.resource == "store" && c.route.in == nil { // its address names the item
		labels := []any{}
		for _, l := range strings.Split(c.query("namespace"), ".") {
			labels = append(labels, l)
		}
		v["namespace"], v["key"] = labels, c.query("key")
	}
	return v
}

// asked returns a call for one run of a request that makes several, or of a command or a tool. It
// authorizes the run as if it had come alone.
func (c *call) asked(in body) (*call, error) {
	one := *c
	one.body, one.in = in, map[string]any(in)
	var err error
	one.grant, err = c.auth.grant(c.ctx, c.user, Access{"threads", "create_run", one.value()})
	return &one, err
}

// numeric is a whole number from low to high of the request's address; otherwise if it is missing.
func (c *call) numeric(name string, otherwise, low, high int) (int, error) {
	given := c.query(name)
	if given == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < low || n > high {
		return 0, fail(422, "Invalid %s %s", name, given)
	}
	return n, nil
}

// action returns the strategy with which a request cancels.
func (c *call) action() (runs.Strategy, error) {
	a, err := c.word("action", string(runs.Interrupt), string(runs.Rollback))
	return cmp.Or(runs.Strategy(a), runs.Interrupt), err
}

// bodyReader reads the bodies of requests, of at most `most` bytes. A body must come within timeout,
// and has more time the more of it has come; see bodyRate.
type bodyReader struct {
	most    int64
	timeout time.Duration
}

// read reads the body of a request, and checks that it has the shape of its route.
func (s bodyReader) read(c *call) error {
	if c.r.ContentLength > s.most { // also for a client that asks first, by Expect
		return errLargeBody(s.most)
	}
	rc := http.NewResponseController(c.w)
	until := time.Now().Add(s.timeout)
	_ = rc.SetReadDeadline(until) // Authenticate may have taken long
	text, err := io.ReadAll(&timed{Reader: http.MaxBytesReader(c.w, c.r.Body, s.most), rc: rc, until: until})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fail(http.StatusRequestTimeout, "The body took too long to come")
	}
	_ = rc.SetReadDeadline(time.Time{}) // that the client leaves is noticed by a read
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return errLargeBody(large.Limit)
	}
	if err != nil {
		return fail(http.StatusBadRequest, "The body could not be read")
	}
	if len(text) == 0 && c.route.optional {
		return nil
	}
	if c.in, err = decode(text); err != nil {
		return err
	}
	if err := c.route.in.check(c.in); err != nil {
		return err
	}
	c.body, _ = c.in.(map[string]any)
	c.ignore(c.route.in.unknown(c.in))
	return nil
}

// ignoredHeader is the header of an answer that lists fields and parameters of the request that the server does not know, quoted.
// They are no error, as they are none for LangGraph's server: newer clients may send some.
const ignoredHeader = "Stele-Ignored"

// mostIgnored is the length of that header from which on nothing is added: a batch may have many runs.
const mostIgnored = 1 << 10

// ignore adds to the list of that header.
func (c *call) ignore(names []string) {
	if c.w == nil {
		return // a schedule asks, and nobody is answered
	}
	if before := c.w.Header().Get(ignoredHeader); before != "" {
		names = append([]string{before}, names...)
	}
	if len(names) > 0 && len(c.w.Header().Get(ignoredHeader)) < mostIgnored {
		c.w.Header().Set(ignoredHeader, strings.Join(names, ", "))
	}
}

func errLargeBody(most int64) error {
	return fail(http.StatusRequestEntityTooLarge, "The body has more than %d bytes, the limit of this server: its operator raises it by Config.MaxBody", most)
}

// timed reads a body that has the more time the more of it has come.
type timed struct {
	io.Reader
	rc    *http.ResponseController
	until time.Time
	grace int // bytes that came since until was moved
}

// bodyRate is how many bytes of a body give it one more second.
const bodyRate = 32 << 10

// Read implements io.Reader.
func (t *timed) Read(p []byte) (int, error) {
	if more := t.grace / bodyRate; more > 0 {
		t.grace -= more * bodyRate
		t.until = t.until.Add(time.Duration(more) * time.Second)
		_ = t.rc.SetReadDeadline(t.until)
	}
	n, err := t.Reader.Read(p)
	t.grace += n
	return n, err
}
