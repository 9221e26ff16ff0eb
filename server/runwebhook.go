package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"

	"github.com/stele-go/stele/runs"
)

// hookTimeout bounds one call of a webhook.
const hookTimeout = 10 * time.Second

// callHook calls a run's webhook when the run has ended.
func (s *runAPI) callHook(ctx context.Context, a deferredAction, r runs.Run) (again time.Time, err error) {
	err = s.post(ctx, a.URL, r)
	if err == nil {
		return s.deferred.done(ctx, a, nil)
	}
	if ctx.Err() != nil {
		return time.Time{}, ctx.Err()
	}
	a.Tries++
	s.log.Warn("a webhook failed", "run", r.ID, "try", a.Tries, "error", err)
	if a.Tries >= hookTries || errors.Is(err, errPrivate) {
		return s.deferred.done(ctx, a, nil)
	}
	if _, there, err := s.deferred.records.get(ctx, a.key()); err != nil || !there { // it was erased meanwhile
		return time.Time{}, err
	}
	a.Due = now().Add(hookPause(a.Tries))
	if err := s.deferred.records.put(ctx, a.key(), a); err != nil {
		return time.Time{}, err
	}
	s.deferred.pending.Store(a.key(), a)
	return a.Due, nil
}

// post sends the run, its result, and the time.
func (s *runAPI) post(ctx context.Context, to string, r runs.Run) error {
	ctx, done := context.WithTimeout(ctx, hookTimeout)
	defer done()
	m := s.view.shown(r)
	m["run_started_at"], m["run_ended_at"], m["webhook_sent_at"] = stamped(r.Started), stamped(r.Ended), stamped(now())
	if _, unreadable := m["error"]; !unreadable {
		m["error"] = nil
	}
	var err error
	if r.Status == runs.Error {
		if m["error"], err = s.view.failure(ctx, r); err != nil {
			return err
		}
	}
	if m["values"], err = s.view.outcome(ctx, r); err != nil {
		return err
	}
	text, err := encode(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.hooks.Do(req)
	var of *url.Error
	if errors.As(err, &of) { // it has the whole address, which may hold a secret
		err = fmt.Errorf("%s: %w", req.URL.Host, of.Err)
	}
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<16)) // so that the connection is used again
	if res.StatusCode >= 300 {
		return fmt.Errorf("the answer is %s", res.Status)
	}
	return nil
}

// errPrivate: a webhook leads into a network that clients must not reach through the server.
var errPrivate = errors.New("the address is not public; see Config.AllowPrivateWebhooks")

// hookClient calls webhooks. It looks at the address that it is about to connect to, after
// the name was resolved, and follows no redirect.
func hookClient(private bool) *http.Client {
	dialer := &net.Dialer{Timeout: hookTimeout}
	if !private {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !isPublic(at.Addr()) {
				return fmt.Errorf("%s: %w", address, errPrivate)
			}
			return nil
		}
	}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 1, IdleConnTimeout: hookTimeout, TLSHandshakeTimeout: hookTimeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// shared are networks that are not on the internet, beside those that package netip knows.
var shared = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("::ffff:0:0:0/96"), netip.MustParsePrefix("fec0::/10"),
}

func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("") // no network contains an address with a zone
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() {
		return false
	}
	for _, n := range shared {
		if n.Contains(ip) {
			return false
		}
	}
	return true
}
