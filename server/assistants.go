package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// assistant is a graph with a configuration. Each graph has one that the server makes.
type assistant struct {
	ID string `json:"id"`
	version
	Updated time.Time `json:"updated"`
	First   time.Time `json:"first"` // when it was made
	// System: it is that of a graph, which the server makes. Everybody may use it.
	System   bool      `json:"system,omitempty"`
	Versions []version `json:"versions"`
}

// version has the fields in which the versions of an assistant differ.
type version struct {
	Number      int            `json:"number"`
	GraphID     string         `json:"graph_id"`
	Name        string         `json:"name"`
	Description *string        `json:"description,omitempty"`
	Config      map[string]any `json:"config"`
	Context     map[string]any `json:"context"`
	Metadata    map[string]any `json:"metadata"`
	Created     time.Time      `json:"created"`
}

// assistantAPI has the operations on assistants.
type assistantAPI struct {
	records records[assistant]
	graphs  *graphSet
	threads *threadAPI
	locks   *locks
	open    bool // everybody may do everything
	log     *slog.Logger
}

// shownAssistant is an assistant as clients see it.
type shownAssistant struct {
	AssistantID string         `json:"assistant_id"`
	GraphID     string         `json:"graph_id"`
	Config      map[string]any `json:"config"`
	Context     map[string]any `json:"context"`
	Metadata    map[string]any `json:"metadata"`
	Name        string         `json:"name"`
	CreatedAt   string         `json:"created_at"`
	UpdatedAt   string         `json:"updated_at,omitempty"`
	Version     int            `json:"version"`
	Description *string        `json:"description"`
}

func (a assistant) shown() shownAssistant {
	v := a.version.shown(a.ID)
	v.CreatedAt, v.UpdatedAt = stamped(a.First), stamped(a.Updated)
	return v
}

func (v version) shown(id string) shownAssistant {
	return shownAssistant{AssistantID: id, GraphID: v.GraphID, Config: merged(v.Config), Context: merged(v.Context), Metadata: merged(v.Metadata),
		Name: v.Name, CreatedAt: stamped(v.Created), Version: v.Number, Description: v.Description}
}

// assistantOf is the id of a graph's own assistant.
func assistantOf(graph string) string { return uuid.NewSHA1(namespaceGraph, []byte(graph)).String() }

// makeOwn makes the assistants of graphs that have none.
func (s *assistantAPI) makeOwn(ctx context.Context) error {
	for _, name := range s.graphs.names {
		id := assistantOf(name)
		old, ok, err := s.records.get(ctx, id)
		if err != nil {
			return fmt.Errorf("server: %w", err)
		}
		if ok && (old.System || s.open) {
			continue
		}
		if ok { // the id can be computed: a client has taken it before there was the graph
			s.log.Warn("an assistant of a client is replaced by that of the graph", "assistant", id, "graph", name, "metadata", old.Metadata)
		}
		at := now()
		v := version{Number: 1, GraphID: name, Name: name, Config: map[string]any{}, Context: map[string]any{},
			Metadata: map[string]any{"created_by": "system"}, Created: at}
		a := assistant{ID: id, version: v, First: at, Updated: at, System: true, Versions: []version{v}}
		if err := s.records.put(ctx, id, a); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	return nil
}

// reads reports whether a grant lets its user see an assistant.
func (a assistant) reads(g Grant) bool { return a.System || g.admits(a.Metadata) }

// shows reports whether a grant lets its user see a version of an assistant. One that was another's, before the
// assistant was given to the user, is hidden as the other's assistants are.
func (a assistant) shows(v version, g Grant) bool { return a.System || g.admits(v.Metadata) }

// ofPath is the assistant of a path, if the grant shows it.
func (s *assistantAPI) ofPath(c *call, missing error) (assistant, error) {
	id := c.path("assistant_id")
	if s.graphs.by[id] != nil {
		id = assistantOf(id)
	}
	a, ok, err := s.records.get(c.ctx, id)
	change := c.route.action == "update" || c.route.action == "delete"
	if err == nil && (!ok || !a.reads(c.grant) || change && !c.grant.admits(a.Metadata)) {
		err = missing
	}
	return a, err
}

// named is the assistant that a request names by id, or by the name of its graph.
func (s *assistantAPI) named(c *call, name string) (assistant, error) {
	g, err := c.access("assistants", "read")
	if err != nil {
		return assistant{}, err
	}
	id := name
	if _, ok := s.graphs.by[name]; ok {
		id = assistantOf(name)
	} else if !isUUID(name) {
		return assistant{}, fail(422, "Invalid assistant: '%s'. Must be either:\n- A valid assistant UUID, or\n- One of the registered graphs: %s", name, strings.Join(s.graphs.names, ", "))
	}
	a, ok, err := s.records.get(c.ctx, usual(id))
	if err == nil && (!ok || !a.reads(g)) {
		err = fail(404, "Assistant '%s' not found", name)
	}
	return a, err
}

// oneContext refuses a request that has both a context and a configurable.
func oneContext(in body) error {
	configurable, _ := in.object("config")["configurable"].(map[string]any)
	if len(configurable) > 0 && len(in.object("context")) > 0 {
		return fail(400, "Cannot specify both configurable and context. Prefer setting context alone. Context was introduced in LangGraph 0.6.0 and is the long term planned replacement for configurable.")
	}
	return nil
}

// configured are config and context of a request, or of a cron: LangGraph's configurable and context are
// one thing under two names.
func configured(in body) (config, context map[string]any) {
	config = merged(in.object("config"))
	configurable, _ := config["configurable"].(map[string]any)
	context = merged(in.object("context"), configurable)
	if len(context) > 0 {
		config["configurable"] = merged(context)
	}
	return config, context
}

func (s *assistantAPI) create(c *call) error {
	config, context := configured(c.body)
	if _, err := s.graphs.named(c.body.text("graph_id")); err != nil {
		return err
	}
	id := usual(c.body.text("assistant_id"))
	if id == "" {
		id = uuid.NewString()
	}
	defer s.locks.assistant(id)()
	if old, ok, err := s.records.get(c.ctx, id); ok || err != nil {
		if err == nil && (c.body.text("if_exists") != "do_nothing" || !old.reads(c.grant)) {
			err = fail(409, "Assistant %s already exists", id)
		}
		if err != nil {
			return err
		}
		return c.json(old.shown())
	}
	own := slices.ContainsFunc(s.graphs.names, func(graph string) bool { return id == assistantOf(graph) })
	if own && !c.grant.all() { // an operator has deleted it; whoever names the graph would get this one
		return fail(409, "Assistant %s already exists", id)
	}
	at := now()
	v := version{Number: 1, GraphID: c.body.text("graph_id"), Name: cmp.Or(c.body.text("name"), "Untitled"), Description: description(c.body),
		Config: config, Context: context, Metadata: c.grant.stamp(c.body.object("metadata")), Created: at}
	a := assistant{ID: id, version: v, First: at, Updated: at, System: own, Versions: []version{v}}
	if err := s.records.put(c.ctx, id, a); err != nil {
		return err
	}
	return c.json(a.shown())
}

func description(in body) *string {
	if s, ok := in["description"].(string); ok {
		return &s
	}
	return nil
}

// read returns the assistant of a path, for requests that only read it.
func (s *assistantAPI) read(c *call) (assistant, error) { return s.ofPath(c, errNotFound) }

func (s *assistantAPI) get(c *call, a assistant) error { return c.json(a.shown()) }

// patch makes a new version.
func (s *assistantAPI) patch(c *call) error {
	id := c.path("assistant_id")
	defer s.locks.assistant(id)()
	if g := c.body.text("graph_id"); g != "" {
		if _, err := s.graphs.named(g); err != nil {
			return err
		}
	}
	config, context := configured(c.body)
	a, err := s.ofPath(c, fail(404, "Assistant %s not found", id))
	if err != nil {
		return err
	}
	v := a.version
	v.Number, v.Created = 1, now()
	for _, old := range a.Versions {
		v.Number = max(v.Number, old.Number+1)
	}
	v.GraphID = cmp.Or(c.body.text("graph_id"), v.GraphID)
	v.Name = cmp.Or(c.body.text("name"), v.Name)
	if d := description(c.body); d != nil {
		v.Description = d
	}
	if len(c.body.object("config")) > 0 || c.body["context"] != nil {
		v.Config = config
	}
	if config["configurable"] != nil || c.body["context"] != nil {
		v.Context = context
	}
	v.Metadata = c.grant.changed(v.Metadata, c.body.object("metadata"))
	a.version, a.Updated, a.Versions = v, v.Created, append(a.Versions, v)
	if err := s.records.put(c.ctx, id, a); err != nil {
		return err
	}
	return c.json(a.shown())
}

func (s *assistantAPI) delete(c *call) error {
	id := c.path("assistant_id")
	defer s.locks.assistant(id)()
	a, err := s.ofPath(c, fail(404, "Assistant with ID %s not found", id))
	if err != nil {
		return err
	}
	threads, err := c.isTrue("delete_threads", false)
	if err != nil {
		return err
	}
	if threads { // before the assistant: while it is there the request can be made again
		if err := s.threads.deleteOf(c, a.ID); err != nil {
			return err
		}
	}
	return c.none(s.records.delete(c.ctx, id))
}

func (s *assistantAPI) versions(c *call, a assistant) error {
	shown := []shownAssistant{}
	for _, v := range slices.Backward(a.Versions) {
		if a.shows(v, c.grant) && (contains(v.Metadata, c.body.object("metadata")) || c.body.object("metadata") == nil) {
			shown = append(shown, v.shown(a.ID))
		}
	}
	list := c.listing()
	for _, v := range cut(c, shown, 10) {
		if err := list.add(v); err != nil {
			return err
		}
	}
	c.w.Header().Del("X-Pagination-Total")
	c.w.Header().Del("X-Pagination-Next")
	return c.list(list)
}

func (s *assistantAPI) latest(c *call) error {
	id := c.path("assistant_id")
	defer s.locks.assistant(id)()
	a, err := s.ofPath(c, fail(404, "Assistant %s not found", id))
	if err != nil {
		return err
	}
	n := c.body.integer("version", 0)
	i := slices.IndexFunc(a.Versions, func(v version) bool { return v.Number == n && a.shows(v, c.grant) })
	if i < 0 {
		return fail(404, "Version %d not found for assistant %s", n, id)
	}
	a.version, a.Updated = a.Versions[i], now()
	if err := s.records.put(c.ctx, id, a); err != nil {
		return err
	}
	return c.json(a.shown())
}

var assistantOrder = sorting[assistant]{
	by: map[string]func(a, b assistant) int{
		"assistant_id": func(a, b assistant) int { return strings.Compare(a.ID, b.ID) },
		"graph_id": func(a, b assistant) int {
			return strings.Compare(strings.ToLower(a.GraphID), strings.ToLower(b.GraphID))
		},
		"name":       func(a, b assistant) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) },
		"created_at": func(a, b assistant) int { return a.First.Compare(b.First) },
		"updated_at": func(a, b assistant) int { return a.Updated.Compare(b.Updated) },
	},
	then: func(a, b assistant) int { return b.First.Compare(a.First) },
}

// brief returns the part of an assistant that a search keeps until its page is cut: other fields may be
// large.
func (a assistant) brief() assistant {
	return assistant{ID: a.ID, version: version{GraphID: a.GraphID, Name: a.Name}, Updated: a.Updated, First: a.First}
}

// find returns the assistants of a search, in its order, as brief returns them.
func (s *assistantAPI) find(c *call) ([]assistant, error) {
	graph, name, metadata := c.body.text("graph_id"), strings.ToLower(c.body.text("name")), c.body.object("metadata")
	return s.records.find(c.ctx, c.body, assistantOrder, assistant.brief, func(a assistant) bool {
		return a.reads(c.grant) && (graph == "" || a.GraphID == graph) && strings.Contains(strings.ToLower(a.Name), name) &&
			(metadata == nil || contains(a.Metadata, metadata))
	})
}

func (s *assistantAPI) search(c *call) error {
	found, err := s.find(c)
	return searched(c, found, err, func(f assistant) (any, bool, error) {
		a, ok, err := s.records.get(c.ctx, f.ID)
		return a.shown(), ok && a.reads(c.grant), err
	})
}

func (s *assistantAPI) count(c *call) error {
	found, err := s.find(c)
	return c.answer(len(found), err)
}
