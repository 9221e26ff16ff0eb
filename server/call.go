package server

import (
	"context"
	"net/http"
	"strings"
)

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
	// untold: the run that the request makes may not be durable when it was submitted. Whoever
	// tells the client of it asks the queue for it before.
	untold      bool
	listingMost int // see listing
}

// path is a part of the request's path.
func (c *call) path(name string) string { return c.r.PathValue(name) }

// query is a parameter of the request's address.
func (c *call) query(name string) string { return c.r.URL.Query().Get(name) }

// isTrue reports whether a parameter of the request's address is true, as several languages write it.
func (c *call) isTrue(name string) bool {
	v := c.query(name)
	return v == "1" || strings.EqualFold(v, "true")
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

// none answers with nothing, unless there is an error.
func (c *call) none(err error) error {
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// access is the grant for something else than what the route is about.
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
			v[name] = usual(given) // so that it is known again, whatever its form
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

// asked is the call for a run that the request asks for and is not itself: one of a batch, or that of a
// command or a tool. Authorize is asked about it as if it had come alone.
func (c *call) asked(in body) (*call, error) {
	one := *c
	one.body, one.in = in, map[string]any(in)
	var err error
	one.grant, err = c.auth.grant(c.ctx, c.user, Access{"threads", "create_run", one.value()})
	return &one, err
}
