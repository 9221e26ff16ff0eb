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
	// Locked is how old a version must be before anybody can remove it; 0: it can be removed at once.
	Locked time.Duration
	// Expires is how long after that the bucket removes a version by itself, at the earliest; 0: never.
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

// Words says what is left of objects that were deleted at a time, and until when; "" if nothing is.
func (k Kept) Words(deleted time.Time) string {
	on := func(d time.Duration) string { return deleted.Add(d).UTC().Format(time.DateOnly) }
	said := "the bucket keeps versions of what was deleted there"
	switch {
	case !k.Versions && k.Unknown == "":
		return ""
	case !k.Versions:
		return "the bucket may keep versions of what was deleted there: it does not say " + k.Unknown
	case k.Expires > 0:
		said += ", until about " + on(max(k.Expires, k.Locked))
	default:
		said += ", until somebody removes them"
	}
	if k.Locked > 0 {
		said += "; nobody can remove them before " + on(k.Locked)
	}
	if k.Unknown != "" {
		said += "; it does not say " + k.Unknown
	}
	return said
}

// Kept implements Keeper: the file system keeps nothing that was removed. Snapshots of it do.
func (d *dir) Kept(context.Context) Kept { return Kept{} }
