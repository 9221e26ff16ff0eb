package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stele-go/stele/store"
)

// Auth says who may do what. Make one with Bearer, JWT, APIKeys or NoAuth, or fill one in.
//
// Each request is authenticated first: Authenticate says who sends it. Then Authorize is
// asked about what it is about to do, once for each thing that it touches, and answers with
// a Grant. A handler sees only threads, assistants, runs and crons whose metadata matches
// the grant's filter. What it creates gets the filter's values in its metadata, whatever the
// request says, so that the creator can see it and nobody can give things to others. What
// the filter hides is not found: a client cannot tell it from what does not exist.
type Auth struct {
	// Authenticate says who sends a request. Any error refuses it with 401, and with the
	// error's text if it is an AuthError; ErrAuthUnavailable refuses it with 503. Required.
	Authenticate func(r *http.Request) (*User, error)
	// Authorize says what a user may do. Any error refuses the request with 403, and with
	// the error's text if it is an AuthError; ErrAuthUnavailable refuses it with 503. A cron
	// that is refused when it is due is disabled; after ErrAuthUnavailable it is tried again.
	// Nil is OwnThings.
	Authorize func(ctx context.Context, u *User, a Access) (Grant, error)

	open bool
}

// User is who sends a request.
type User struct {
	// Identity names the user. Required. It is UTF-8 without U+0000, any other is refused with 401; two
	// that differ in a byte are two users.
	Identity    string
	DisplayName string
	Permissions []string
	// Claims are for the program's own use, such as those of a token. They are stored with the user's runs
	// and crons, for UserOf, and clients do not see them. They must be plain JSON.
	Claims map[string]any
}

// Access is what a user is about to do.
type Access struct {
	// Resource is "threads", "runs", "assistants", "crons", "store", or "system" for metrics,
	// documentation, and what operators see of the things of all users, below /stele. The last is
	// refused to users whose Grant has a Filter or a Namespace.
	Resource string
	// Action is "create", "read", "update", "delete", "search" or "create_run"; for the
	// store "put", "get", "search", "list_namespaces" or "delete".
	Action string
	// Value is the request: its JSON, if that is an object, and what its address names: the ids in its
	// path, and namespace and key of an item. Authorize is called for each run of a batch, and for each
	// run that a command or a tool makes, as if it had come alone.
	Value map[string]any
}

// Grant is what a user may see.
type Grant struct {
	// Filter selects by metadata. A value must be equal, or fulfil {"$eq": v} or
	// {"$contains": v}, which asks for an element, or elements, of a list. Nil selects all.
	Filter map[string]any
	// Namespace is put before the namespace of every item of the store, and is not shown. Empty shows
	// the items of programs. Namespaces of the server are refused, and so are the places of other
	// users; see ItemsOf.
	Namespace store.Namespace
}

// all reports whether the user may see everything.
func (g Grant) all() bool { return len(g.Filter) == 0 && len(g.Namespace) == 0 }

// AuthError is an error whose text clients may see.
type AuthError struct{ Detail string }

// Error is the detail.
func (e *AuthError) Error() string { return e.Detail }

// OwnThings is the Authorize by which all users see their own things alone: those whose
// metadata has the user's identity as owner, and the items of the store in the user's place, ItemsOf.
func OwnThings(_ context.Context, u *User, _ Access) (Grant, error) {
	return Grant{Filter: map[string]any{"owner": u.Identity}, Namespace: ItemsOf(u.Identity)}, nil
}

// NoAuth lets everybody do everything. The server then answers only requests that came to a
// loopback address, under the name of one.
func NoAuth() *Auth { return &Auth{open: true} }

// Bearer authenticates by the token of the header Authorization. lookup says whose a token
// is; an error, or a nil user, refuses it. Without a lookup, New refuses the Auth.
func Bearer(lookup func(ctx context.Context, token string) (*User, error)) *Auth {
	if lookup == nil {
		return &Auth{}
	}
	return &Auth{Authenticate: func(r *http.Request) (*User, error) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "bearer") || token == "" {
			return nil, &AuthError{"Authorization header missing"}
		}
		return lookup(r.Context(), strings.TrimSpace(token))
	}}
}

// APIKeys authenticates by the header X-Api-Key, which LangGraph's SDKs send.
func APIKeys(users map[string]*User) *Auth {
	type known struct {
		sum  [32]byte
		user *User
	}
	var all []known
	for key, u := range users {
		all = append(all, known{sha256.Sum256([]byte(key)), u})
	}
	return &Auth{Authenticate: func(r *http.Request) (*User, error) {
		given := r.Header.Get("X-Api-Key")
		if given == "" {
			return nil, &AuthError{"X-Api-Key header missing"}
		}
		sum := sha256.Sum256([]byte(given))
		var found *User
		for _, k := range all { // compares with all keys, so that the time reveals nothing about them
			if subtle.ConstantTimeCompare(sum[:], k.sum[:]) == 1 {
				found = k.user
			}
		}
		return found, nil
	}}
}

// authenticate is who sends the request. Under NoAuth it is a user without a name.
func (a *Auth) authenticate(r *http.Request) (*User, error) {
	if a.open {
		return &User{}, nil
	}
	u, err := a.Authenticate(r)
	if err == nil && u != nil && u.Identity != "" {
		if !utf8.ValidString(u.Identity) || strings.Contains(u.Identity, "\x00") { // metadata would have that of another
			return nil, fail(http.StatusUnauthorized, "The identity is not UTF-8 without U+0000")
		}
		return u, nil
	}
	if errors.Is(err, ErrAuthUnavailable) {
		return nil, err
	}
	return nil, refusal(http.StatusUnauthorized, "Invalid credentials", err)
}

// grant is what a user may see when doing something.
func (a *Auth) grant(ctx context.Context, u *User, to Access) (Grant, error) {
	if a.open {
		return Grant{}, nil
	}
	authorize := a.Authorize
	if authorize == nil {
		authorize = OwnThings
	}
	g, err := authorize(ctx, u, to)
	if errors.Is(err, ErrAuthUnavailable) {
		return g, err
	}
	if err != nil {
		return g, refusal(http.StatusForbidden, "Forbidden", err)
	}
	for key, want := range g.Filter {
		if m, ok := want.(map[string]any); ok {
			for op := range m {
				if op != "$eq" && op != "$contains" {
					return g, fmt.Errorf("auth: filter of %q: there are $eq and $contains, not %q", key, op)
				}
			}
		}
	}
	if reserved(g.Namespace) && !ownPlace(g.Namespace, u.Identity) {
		return g, fmt.Errorf("auth: the namespace %q is reserved", g.Namespace[0])
	}
	for _, l := range g.Namespace {
		if l == "" || l == "*" || strings.Contains(l, ".") { // "*" is any label where namespaces are listed
			return g, fmt.Errorf("auth: %q is no label of a namespace", l)
		}
	}
	return g, nil
}

func refusal(status int, detail string, err error) error {
	if a := (*AuthError)(nil); errors.As(err, &a) {
		detail = a.Detail
	}
	return &failure{status, detail}
}

// admits reports whether metadata matches a filter.
func (g Grant) admits(metadata map[string]any) bool {
	for key, want := range g.Filter {
		have, ok := metadata[key]
		if !ok || !fits(have, want) {
			return false
		}
	}
	return true
}

func fits(have, want any) bool {
	m, ok := want.(map[string]any)
	if !ok {
		return same(have, want)
	}
	for op, v := range m {
		switch op {
		case "$eq":
			if !same(have, v) {
				return false
			}
		case "$contains":
			elements, _ := have.([]any)
			asked, many := v.([]any)
			if !many {
				asked = []any{v}
			}
			for _, a := range asked {
				if !slices.ContainsFunc(elements, func(e any) bool { return same(e, a) }) {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}

// stamp returns metadata with the values of the grant's filter.
func (g Grant) stamp(metadata map[string]any) map[string]any {
	out := merged(metadata)
	for key, want := range g.Filter {
		if m, ok := want.(map[string]any); ok {
			if v, ok := m["$eq"]; ok {
				out[key] = v
			} else if v, ok := m["$contains"]; ok {
				if _, many := v.([]any); !many {
					v = []any{v}
				}
				out[key] = v
			}
			continue
		}
		out[key] = want
	}
	return out
}

// withOwner adds the owner of a thread to the metadata of its run, or of checkpoints that no run makes:
// checkpoints are found, and erased, by their metadata.
func (g Grant) withOwner(metadata map[string]any, t thread) map[string]any {
	for key := range g.Filter {
		if v, ok := t.Metadata[key]; ok {
			metadata[key] = v
		}
	}
	return metadata
}

// changed returns metadata with changes, except for the values that the grant's filter selects by:
// these stay as they are, also a list that names other users.
func (g Grant) changed(metadata, changes map[string]any) map[string]any {
	out := merged(metadata, changes)
	for key := range g.Filter {
		out[key] = metadata[key]
	}
	return out
}

// same reports whether two values of JSON are equal, numbers by value.
func same(a, b any) bool {
	if x, ok := asInteger(a); ok {
		if y, ok := asInteger(b); ok {
			return x == y
		}
	}
	if x, ok := asNumber(a); ok {
		y, ok := asNumber(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if w, ok := y[k]; !ok || !same(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, same)
	}
	return reflect.DeepEqual(a, b)
}

// asInteger is a number that is written as an integer of 64 bits: no float64 holds each of them.
func asInteger(v any) (int64, bool) {
	if n, ok := v.(json.Number); ok {
		i, err := n.Int64()
		return i, err == nil
	}
	if x := reflect.ValueOf(v); x.IsValid() && x.CanInt() {
		return x.Int(), true
	}
	return 0, false
}

func asNumber(v any) (float64, bool) {
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		return f, err == nil
	}
	switch x := reflect.ValueOf(v); x.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return float64(x.Int()), true
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return float64(x.Uint()), true
	case reflect.Float32, reflect.Float64:
		return x.Float(), true
	}
	return 0, false
}

// contains reports whether a value has at least what want has: objects their keys, the rest
// by equality. It is how a search compares metadata and values.
func contains(have, want any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		if wl, ok := want.([]any); ok {
			hl, ok := have.([]any)
			return ok && !slices.ContainsFunc(wl, func(e any) bool {
				return !slices.ContainsFunc(hl, func(h any) bool { return contains(h, e) })
			})
		}
		return same(have, want)
	}
	h, ok := have.(map[string]any)
	if !ok {
		return false
	}
	for k, v := range w {
		e, ok := h[k]
		if !ok || !contains(e, v) {
			return false
		}
	}
	return true
}
