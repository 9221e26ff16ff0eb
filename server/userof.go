package server

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
)

// What a run's Configurable says of its user, as on LangGraph's server. What clients send under names with
// this prefix does not reach runs.
const (
	authPrefix      = "langgraph_auth_"
	authID          = authPrefix + "user_id"
	authPermissions = authPrefix + "permissions"
	authUser        = authPrefix + "user" // what only UserOf reads: it is not shown to clients, nor stored as metadata
)

// UserOf is the user whose run a node or a tool belongs to, as Authenticate returned it when the run, or its
// cron, was made. It is stored with the run in the queue, so it is the same at every worker and after a crash. No
// client can set it. Changes to it reach nobody. A run of pregel's Recover has the user that RecoverOptions.Run gives
// it: checkpoints have the identity alone, of the last run that stored one.
//
// Claims are as their JSON is read: objects are map[string]any, lists []any, and numbers float64, but for
// integers beyond 2^53, which are int64.
//
// It returns false if nobody was authenticated: under NoAuth, outside of a task, and in a run that a program
// made without Configurable of a User.
func UserOf(ctx context.Context) (User, bool) {
	task, ok := pregel.Task(ctx)
	if !ok {
		return User{}, false
	}
	text, err := json.Marshal(map[string]any{"configurable": task.Configurable[authUser]})
	var spec runs.Spec // whose numbers are the same before and after it was stored
	if err != nil || runs.UnmarshalSpec(text, &spec) != nil {
		return User{}, false
	}
	more := body(spec.Configurable)
	u := User{Identity: body(task.Configurable).text(authID), DisplayName: more.text("display_name"), Claims: more.object("claims")}
	switch list := task.Configurable[authPermissions].(type) {
	case []string:
		u.Permissions = append(u.Permissions, list...)
	default: // as it is read from a queue
		u.Permissions = body(task.Configurable).texts(authPermissions)
	}
	return u, u.Identity != ""
}

// Configurable is how a run knows its user: pregel.RunOptions with it give UserOf this user. A server does this
// by itself; programs that run graphs without one do it, and tests of nodes. Claims must be plain JSON.
func (u *User) Configurable() map[string]any {
	c := map[string]any{authID: u.Identity, authPermissions: append([]string{}, u.Permissions...)}
	more := map[string]any{}
	if u.DisplayName != "" {
		more["display_name"] = u.DisplayName
	}
	if len(u.Claims) > 0 {
		more["claims"] = u.Claims
	}
	if len(more) > 0 {
		c[authUser] = more
	}
	return c
}

// withoutClaims is the Configurable of a run as clients see it: others may see the run than its user.
func withoutClaims(configurable map[string]any) map[string]any {
	shown := maps.Clone(configurable)
	delete(shown, authUser)
	return shown
}
