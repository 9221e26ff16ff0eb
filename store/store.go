package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
)

// Namespace is a path of labels, such as {"users", "ann", "facts"}.
type Namespace []string

// Store holds items by namespace and key. All methods are safe for concurrent
// use, and every returned value is the caller's.
//
// A context cancels waiting, not I/O: after a cancelled Put, Delete or Batch the
// error says whether nothing was written (the context's error alone) or nobody
// knows (saver.ErrOutcomeUnknown).
type Store interface {
	// Get returns an item. A missing or expired one is ErrNotFound.
	Get(ctx context.Context, ns Namespace, key string, opts ...GetOption) (*Item, error)

	// Put stores an item, replacing the one under the key. The namespace must be
	// valid; see CheckNamespace. Errors: NamespaceError, InvalidError,
	// ErrTooLarge, VectorError, *serde.EncodeError, what the embedder returned,
	// or one of the engine; in all of them nothing is stored.
	Put(ctx context.Context, ns Namespace, key string, value map[string]any, opts ...PutOption) error

	// Delete removes an item. A missing one is no error.
	Delete(ctx context.Context, ns Namespace, key string) error

	// Search returns the items that q selects, from one consistent state of the store. It looks at every item
	// at the prefix and below, as the newest may be any of them: ten of 100,000 users' items take as long as
	// all of them. Search the namespace of one user, or in the order of keys (Query.ByKey) with a Limit.
	Search(ctx context.Context, q Query) ([]Found, error)

	// ListNamespaces returns the namespaces q selects, sorted label by label. It
	// reads no item.
	ListNamespaces(ctx context.Context, q NamespaceQuery) ([]Namespace, error)

	// Batch returns one Result for each of ops, in order. All reads see the store as it
	// was before the batch. The puts are one commit, all or nothing. Of several puts
	// under one key the last counts. A PutOp may have any namespace; only Put checks
	// it.
	Batch(ctx context.Context, ops ...Op) ([]Result, error)
}

// Scanner iterates over everything that a query selects, in one consistent state.
type Scanner interface {
	// Scan yields the results of q from q.Offset on, in the order of q. It reads the
	// store as it was when the iteration began. Limit 0 means all. An error is yielded
	// last.
	Scan(ctx context.Context, q Query) iter.Seq2[Found, error]
}

// Restorer takes items as another store had them: to move a store, or to bring one back.
type Restorer interface {
	// Restore puts items with the times and the TTL that they have, in place of those under
	// their keys. It is one commit, all or nothing. With Options.Index they get the vectors
	// that Put would give them. Errors are those of Put, except that a namespace may be any;
	// an item without a value or without times, or one that is given twice, is an
	// InvalidError.
	Restore(ctx context.Context, items ...Item) error
}

// Sweeper removes expired items.
type Sweeper interface {
	// Sweep removes the items that have expired, in commits of up to a thousand,
	// and returns how many.
	Sweep(ctx context.Context) (int, error)
}

// Item is a stored item.
type Item struct {
	Namespace Namespace
	Key       string
	// Value is plain data as serde decodes it.
	Value map[string]any
	// CreatedAt and UpdatedAt are UTC in whole microseconds, by the store's clock.
	CreatedAt, UpdatedAt time.Time
	// ExpiresAt is when the item expires; zero: never.
	ExpiresAt time.Time
	// TTL is for how long a read renews the item. 0: it renews nothing, or a store that is
	// reached over the wire does not tell.
	TTL time.Duration
}

// Found is an item a search found.
type Found struct {
	Item
	// Score says how near the item is to the query; a greater score is nearer. Scored
	// is false, and there is no score, without a query and for items without a vector.
	Score  float64
	Scored bool
}

// DefaultLimit is the number of results of a search that names none:
// LangGraph's default. That of ListNamespaces is DefaultNamespaces.
const (
	DefaultLimit      = 10
	DefaultNamespaces = 100
)

// NoLimit as a limit asks for everything.
const NoLimit = math.MaxInt

// Query selects items. The zero Query selects the ten newest of all.
type Query struct {
	// Prefix is where to search: the namespace and all below it. Empty is
	// everywhere.
	Prefix Namespace
	// Filter must match the item's value: each key by equality, or by operators
	// in a map: {"age": {"$gte": 18, "$lt": 65}}. Operators are $eq, $ne, $gt,
	// $gte, $lt and $lte. A map without operators matches a map that has at least
	// its keys; a list matches element by element. A missing key counts as nil. A
	// key that begins with $ is an InvalidError.
	Filter map[string]any
	// Limit is the largest number of results: 0 is DefaultLimit. Negative is an
	// InvalidError.
	Limit int
	// Offset is how many results to skip.
	Offset int
	// Text or Vector orders the results by nearness, nearest first. Items without a
	// vector come last. Both need Options.Index.
	Text   string
	Vector []float32
	// ByKey orders the results of a search without a query by namespace and key
	// instead of the newest first.
	ByKey bool
	// NoRefresh does not extend the life of the items found.
	NoRefresh bool
}

// MatchKind says which end of a namespace a Match is about.
type MatchKind string

// The kinds of LangGraph's contract.
const (
	MatchPrefix MatchKind = "prefix"
	MatchSuffix MatchKind = "suffix"
)

// Wildcard in the path of a Match stands for any one label.
const Wildcard = "*"

// Match is a condition on a namespace: that it begins or ends with Path. A path
// longer than the namespace does not match.
type Match struct {
	Kind MatchKind
	Path Namespace
}

// NamespaceQuery selects namespaces. The zero NamespaceQuery selects the first
// hundred.
type NamespaceQuery struct {
	// Match lists conditions that must all hold.
	Match []Match
	// MaxDepth truncates namespaces to this number of labels and lists each result
	// once; 0 does not truncate. A negative MaxDepth, Limit or Offset is an
	// InvalidError.
	MaxDepth int
	// Limit is the largest number of results: 0 is DefaultNamespaces.
	Limit  int
	Offset int
}

// Op is an operation of a Batch: GetOp, PutOp, Query or NamespaceQuery.
type Op interface{ op() }

// GetOp reads an item. Its Result has a nil Item if there is none.
type GetOp struct {
	Namespace Namespace
	Key       string
	NoRefresh bool
}

// PutOp stores an item, or deletes it if Value is nil.
type PutOp struct {
	Namespace Namespace
	Key       string
	Value     map[string]any
	// TTL is how long the item lives: 0 is Options.TTL, negative is for ever.
	TTL time.Duration
	// NoIndex stores the item without a vector. IndexFields, if not nil, names
	// the paths whose text is embedded instead of the index's own.
	NoIndex     bool
	IndexFields []string
}

func (GetOp) op()          {}
func (PutOp) op()          {}
func (Query) op()          {}
func (NamespaceQuery) op() {}

// Result answers one Op: Item a GetOp, Found a Query, Namespaces a
// NamespaceQuery, nothing a PutOp.
type Result struct {
	Item       *Item
	Found      []Found
	Namespaces []Namespace
}

// PutOption is an option of Put.
type PutOption func(*PutOp)

// TTL lets the item expire d after it was put or, unless refreshing is off, last
// read. Negative is for ever, whatever Options.TTL says.
func TTL(d time.Duration) PutOption { return func(p *PutOp) { p.TTL = d } }

// NoIndex stores the item without a vector: LangGraph's index=False.
func NoIndex() PutOption { return func(p *PutOp) { p.NoIndex = true } }

// IndexFields embeds the text at these paths alone; see TextAtPath.
func IndexFields(paths ...string) PutOption {
	return func(p *PutOp) { p.IndexFields = slices.Clone(paths) }
}

// GetOption is an option of Get.
type GetOption func(*GetOp)

// NoRefresh does not extend the item's life.
func NoRefresh() GetOption { return func(g *GetOp) { g.NoRefresh = true } }

// Errors of the contract, matched with errors.Is. Those of the engine are in
// package saver.
var (
	// ErrNotFound: the item does not exist or has expired.
	ErrNotFound = fmt.Errorf("item %w", fault.ErrNotFound)
	// ErrNoIndex: a query by text or vector needs Options.Index.
	ErrNoIndex = errors.New("the store has no index")
	// ErrNamespace matches every NamespaceError.
	ErrNamespace = errors.New("invalid namespace")
	// ErrVector matches every VectorError.
	ErrVector = errors.New("unusable vector")
	// ErrInvalid matches every InvalidError, and every NamespaceError.
	ErrInvalid = saver.ErrInvalid
)

// InvalidError says which argument is wrong and why. Nothing was written.
type InvalidError = saver.InvalidError
