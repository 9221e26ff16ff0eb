package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stele-go/stele/base/silence"
)

// DefaultLimit bounds an answer, and an event of a stream, unless WithLimit says otherwise.
const DefaultLimit = 64 << 20

// Client speaks to one server. Its parts are named as in langgraph-sdk. It is safe for
// concurrent use, and needs no Close.
type Client struct {
	Assistants *Assistants
	Threads    *Threads
	Runs       *Runs
	Crons      *Crons
	Store      *Store

	base    string // without a slash at its end
	origin  string
	http    *http.Client
	header  http.Header
	limit   int64
	silence time.Duration
	retries int
	pause   func(context.Context, time.Duration) error
}

// Option is an option of New.
type Option func(*Client)

// WithAPIKey authenticates by a key, in the header X-Api-Key.
func WithAPIKey(key string) Option { return WithHeader("X-Api-Key", key) }

// WithBearer authenticates by a token, in the header Authorization.
func WithBearer(token string) Option { return WithHeader("Authorization", "Bearer "+token) }

// WithHeader sets a header of all requests.
func WithHeader(name, value string) Option {
	return func(c *Client) { c.header.Set(name, value) }
}

// WithHTTPClient sends requests by h. Its Timeout bounds streams as well, so it should have
// none: contexts bound calls. A redirect to another host is refused, unless h says what to do
// with redirects.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { *c.http = *h } }

// WithLimit bounds the bytes of an answer, and of an event of a stream. A larger one is a LimitError.
// Without it, or with 0, the bound is DefaultLimit.
func WithLimit(bytes int64) Option { return func(c *Client) { c.limit = bytes } }

// WithSilence is how long nothing may come from the server before a request is given up, with an error
// that matches context.DeadlineExceeded. Without it, it is 5 minutes, as LangGraph's SDK has it:
// servers send something all the time where an answer or an event is long in coming.
func WithSilence(d time.Duration) Option { return func(c *Client) { c.silence = d } }

// WithRetries is how often a request that only reads is sent again, and how often in a row a
// stream is resumed without an event, before the failure is the caller's; 4 without it. What
// may change something is never sent again.
func WithRetries(n int) Option { return func(c *Client) { c.retries = n } }

// New makes a client of the server at an address such as "http://127.0.0.1:2024". Nothing is
// sent yet.
func New(address string, opts ...Option) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("client: %q is no address of a server", address)
	}
	c := &Client{base: strings.TrimRight(u.String(), "/"), origin: u.Scheme + "://" + u.Host, http: &http.Client{}, header: http.Header{},
		silence: 5 * time.Minute, retries: 4, pause: pause}
	for _, o := range opts {
		o(c)
	}
	if c.limit <= 0 {
		c.limit = DefaultLimit
	}
	if c.silence > 0 {
		c.http.Transport = silence.Transport(c.http.Transport, c.silence)
	}
	if c.http.CheckRedirect == nil {
		c.http.CheckRedirect = stay
	}
	c.Assistants, c.Threads, c.Runs, c.Crons, c.Store = &Assistants{c}, &Threads{c}, &Runs{c}, &Crons{c}, &Store{c}
	return c, nil
}

// stay refuses redirects to another host: a key would go there.
func stay(r *http.Request, via []*http.Request) error {
	if r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
		return fmt.Errorf("redirect from %s to %s is refused", via[0].URL.Host, r.URL.Host)
	}
	if len(via) >= 10 {
		return errors.New("too many redirects")
	}
	return nil
}

// call is a request.
type call struct {
	method string
	path   []string // segments, none of them empty
	query  url.Values
	body   any // as JSON; nil is none
	header http.Header
	// reads: the request changes nothing, and may be sent again.
	reads bool
}

func get(path ...string) call { return call{method: http.MethodGet, path: path, reads: true} }
func post(body any, path ...string) call {
	return call{method: http.MethodPost, path: path, body: body}
}

// read is a POST that only reads.
func read(body any, path ...string) call {
	return call{method: http.MethodPost, path: path, body: body, reads: true}
}

// address is where the request goes.
func (c *Client) address(req call) (string, error) {
	var b strings.Builder
	b.WriteString(c.base)
	for _, p := range req.path {
		if p == "" || p == "." || p == ".." {
			return "", fmt.Errorf("client: %q is no id in /%s", p, strings.Join(req.path, "/"))
		}
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	if len(req.query) > 0 {
		b.WriteByte('?')
		b.WriteString(req.query.Encode())
	}
	return b.String(), nil
}

// open sends a request, again if that is safe, and returns its answer, which is a success.
func (c *Client) open(ctx context.Context, req call) (*http.Response, error) {
	address, err := c.address(req)
	if err != nil {
		return nil, err
	}
	return c.openAt(ctx, address, req)
}

func (c *Client) openAt(ctx context.Context, address string, req call) (*http.Response, error) {
	var body []byte
	if req.body != nil {
		var err error
		if body, err = marshal(req.body); err != nil {
			return nil, fmt.Errorf("client: %s /%s: %w", req.method, strings.Join(req.path, "/"), err)
		}
	}
	for try := 0; ; try++ {
		resp, err := c.send(ctx, address, req, body)
		if err == nil {
			return resp, nil
		}
		wait, again := retryable(err)
		if !req.reads || !again || try >= c.retries {
			return nil, err
		}
		if c.pause(ctx, max(wait, backoff(try))) != nil {
			return nil, err
		}
	}
}

// send sends a request once.
func (c *Client) send(ctx context.Context, address string, req call, body []byte) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, req.method, address, content)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	for _, h := range []http.Header{c.header, req.header} {
		for name, values := range h {
			r.Header[name] = values
		}
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, errorOf(r, resp)
	}
	return resp, nil
}

// do sends a request and reads the JSON of its answer into out, if that is not nil.
func (c *Client) do(ctx context.Context, req call, out any) error {
	for try := 0; ; try++ {
		resp, err := c.open(ctx, req)
		if err != nil {
			return err
		}
		data, err := c.readAll(resp)
		if err == nil {
			return unmarshal(resp, data, out)
		}
		// The answer broke off. A request that only reads is sent again.
		if _, again := retryable(err); !req.reads || !again || try >= c.retries || c.pause(ctx, backoff(try)) != nil {
			return err
		}
	}
}

// ask is do with an answer of a type.
func ask[T any](ctx context.Context, c *Client, req call) (out T, err error) {
	err = c.do(ctx, req, &out)
	return out, err
}

// readAll reads an answer within the limit, and closes it.
func (c *Client) readAll(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, c.limit+1))
	if err != nil {
		return nil, fmt.Errorf("client: %s %s: %w", resp.Request.Method, resp.Request.URL.Path, err)
	}
	if int64(len(data)) > c.limit {
		return nil, &LimitError{Limit: c.limit}
	}
	return data, nil
}

func unmarshal(resp *http.Response, data []byte, out any) error {
	if out == nil || len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("client: %s %s: answer: %w", resp.Request.Method, resp.Request.URL.Path, err)
	}
	return nil
}

// marshal is v as JSON, as other languages write it.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// retryable reports whether a failure may pass, and how long the server asks to wait.
func retryable(err error) (wait time.Duration, again bool) {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrLimit) {
		return 0, false
	}
	var e *Error
	if errors.As(err, &e) {
		switch e.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return min(e.RetryAfter, longestPause), true
		}
		return 0, false
	}
	var u *url.Error
	return 0, errors.As(err, &u) || isBroken(err)
}

// isBroken reports whether a connection broke off.
func isBroken(err error) bool {
	var temporary interface{ Timeout() bool } // errors of package net have it
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &temporary) ||
		strings.Contains(err.Error(), "http2:") || strings.Contains(err.Error(), "stream error:") // types that net/http does not export
}

// longestPause bounds the pause before a request is sent again.
const longestPause = 10 * time.Second

// backoff returns the pause after a failure. failures is the number of failures in a row before it. The
// pause begins at 100 ms, doubles each time, and is shortened at random so that clients spread.
func backoff(failures int) time.Duration {
	d := min(100*time.Millisecond<<min(failures, 10), longestPause)
	return d/2 + rand.N(d/2)
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Info is what a server says about itself.
type Info struct {
	Version          string          `json:"version"`
	LangGraphVersion string          `json:"langgraph_py_version"`
	Flags            map[string]any  `json:"flags"`
	Host             map[string]any  `json:"host"`
	Stele            json.RawMessage `json:"stele"` // only a server of stele has it
}

// Info returns the server's information about itself.
func (c *Client) Info(ctx context.Context) (*Info, error) { return ask[*Info](ctx, c, get("info")) }

// OK asks whether the server lives.
func (c *Client) OK(ctx context.Context) error { return c.do(ctx, get("ok"), nil) }

// Metrics are the metrics of the server, in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) (string, error) {
	resp, err := c.open(ctx, get("metrics"))
	if err != nil {
		return "", err
	}
	text, err := c.readAll(resp)
	return string(text), err
}

// Time is a time as servers write it; the zero Time is null, or none.
type Time struct{ time.Time }

// UnmarshalJSON reads a time in ISO 8601; one without a zone is in UTC.
func (t *Time) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	*t = Time{}
	if text == nil || *text == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, *text)
	if err != nil {
		if at, err = time.Parse("2006-01-02T15:04:05.999999999", *text); err != nil {
			return fmt.Errorf("%q is no time", *text)
		}
	}
	t.Time = at
	return nil
}

// MarshalJSON writes the time, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.Time)
}

// number is n as text, or "" if it is 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// params are query parameters: pairs of a name and a value. Those without a value are left out.
func params(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}
