package bucket

import (
	"context"
	"time"
)

// Keeper is a Bucket that can say what it keeps of objects that were deleted or overwritten.
type Keeper interface {
	// Kept asks the bucket. What it does not tell is in Kept.Unknown. It ends with ctx.
	Kept(ctx context.Context) Kept
}

// Kept is what a bucket keeps of objects that were deleted or overwritten. The zero value is nothing.
type Kept struct {
	// Versions: they stay, as versions that whoever has the right to may read.
	Versions bool
	// Locks: versions may be locked, so that they cannot be removed. Default is the lock that the bucket says it gives to new ones, in
	// words; empty: none. The lock of each version is not asked for.
	Locks   bool
	Default string
	// Expires is how long after an object was deleted or overwritten a rule of the bucket removes the version, unless that is locked;
	// 0: none does that is for all objects of the store.
	Expires time.Duration
	// Unknown is what the bucket did not tell, and why, as the end of a sentence that begins with "it does not say"; empty if it told all.
	Unknown string
}

// KeptBy asks a bucket what it keeps, until ctx ends. One that is no Keeper does not say.
func KeptBy(ctx context.Context, b Bucket) Kept {
	if k, ok := b.(Keeper); ok {
		return k.Kept(ctx)
	}
	return Kept{Unknown: "whether it keeps versions"}
}

// Words says what is left of objects that were deleted at a time, and what the bucket says of its end; "" if nothing is.
func (k Kept) Words(deleted time.Time) string {
	said := "the bucket keeps versions of what was deleted there"
	switch {
	case !k.Versions && k.Unknown == "":
		return ""
	case !k.Versions:
		return "the bucket may keep versions of what was deleted there: it does not say " + k.Unknown
	case k.Expires > 0:
		said += ", which a rule of it removes from about " + deleted.Add(k.Expires).UTC().Format(time.DateOnly) + " on"
	default:
		said += ", until somebody removes them"
	}
	if k.Locks {
		said += "; they may be locked, each in its own way, which was not asked"
	}
	if k.Default != "" {
		said += " (new ones get " + k.Default + ")"
	}
	if k.Unknown != "" {
		said += "; it does not say " + k.Unknown
	}
	return said
}

// Ruler is a Bucket that can tell rules of its own, by which it does away with objects.
type Ruler interface {
	// CheckRules returns ErrUnfit if a rule in force deletes objects whose keys begin with one of the prefixes, or moves them to where they
	// cannot be read at once. The text names the rule, and says what to do. ErrRefused: the bucket does not tell. It ends with ctx.
	CheckRules(ctx context.Context, prefixes ...string) error
}

// Kept implements Keeper: the file system keeps nothing that was removed. Snapshots of it do.
func (d *dir) Kept(context.Context) Kept { return Kept{} }
