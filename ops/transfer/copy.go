package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// Options configure Copy and Write. The zero value copies everything and fails at the first
// checkpoint that is in the target with other content.
type Options struct {
	// Select limits what is copied.
	Select Selection
	// Replace puts a checkpoint again that is in the target with other content. Pending
	// writes that the target has stay, unless they are on special channels; if the
	// checkpoint then differs still, that is a DiffersError.
	Replace bool
	// Refused reports whether an error of the target refuses one checkpoint and nothing
	// else. saver.ErrInvalid, saver.ErrTooLarge, saver.ErrThreadDeleted and the errors of
	// encoding metadata do so in any case. Nil adds none.
	Refused func(error) bool
	// Reject is called for everything that is not copied. If it fails, the copy ends with
	// its error. Nil ends the copy with the first Rejected.
	Reject func(*Rejected) error
	// Items are items that Write and WriteFile write as well, those below the namespace
	// Below. Nil: none. Copy leaves them to CopyItems.
	Items ItemSource
	Below store.Namespace
	// Progress is called after each checkpoint, with the step, "copy" or "verify", and how
	// many checkpoints it has done; and with "items" and how many items. Nil is not called.
	Progress func(step string, done int)
}

// Report says what a copy did.
type Report struct {
	Threads     int   `json:"threads"`     // of which at least one checkpoint is in the target now
	Checkpoints int   `json:"checkpoints"` // that are in the target now
	Writes      int   `json:"writes"`      // pending writes of these
	Copied      int   `json:"copied"`      // checkpoints that were not there before
	Bytes       int64 `json:"bytes"`       // of the values of these, shared ones left out
	Replaced    int   `json:"replaced"`    // checkpoints that were there with other content
	Rejected    int   `json:"rejected"`    // things that were not copied; see Rejected
	Verified    int   `json:"verified"`    // checkpoints that were read back and are equal
	Items       int   `json:"items"`       // that Write wrote
}

// ErrDiffers matches every DiffersError.
var ErrDiffers = errors.New("the checkpoint is in the target with other content")

// DiffersError ends a copy: the target has a checkpoint of the same id with other content.
// It matches ErrDiffers. What was copied before stays.
type DiffersError struct{ Config saver.Config }

// Error names the checkpoint.
func (e *DiffersError) Error() string {
	return fmt.Sprintf("thread %q namespace %q checkpoint %q: %v", e.Config.ThreadID, e.Config.Namespace, e.Config.CheckpointID, ErrDiffers)
}

// Is makes every DiffersError match ErrDiffers.
func (e *DiffersError) Is(target error) bool { return target == ErrDiffers }

// ErrNotEqual matches every NotEqualError.
var ErrNotEqual = errors.New("what was read back is not what was copied")

// NotEqualError ends a copy whose verification failed. It matches ErrNotEqual. Either
// somebody wrote to the thread meanwhile, or the target is at fault.
type NotEqualError struct {
	Config saver.Config
	Reason error // of a checkpoint that could not be read; nil if it has other content
}

// Error names the checkpoint.
func (e *NotEqualError) Error() string {
	s := fmt.Sprintf("thread %q namespace %q checkpoint %q: %v", e.Config.ThreadID, e.Config.Namespace, e.Config.CheckpointID, ErrNotEqual)
	if e.Reason != nil {
		s += ": " + e.Reason.Error()
	}
	return s
}

// Is makes every NotEqualError match ErrNotEqual.
func (e *NotEqualError) Is(target error) bool { return target == ErrNotEqual }

// Unwrap gives the reason.
func (e *NotEqualError) Unwrap() error { return e.Reason }

// Copy copies what o selects of src to dst, and verifies it. The package documentation has
// the protocol. It reads src once. It keeps about 200 bytes of memory for each checkpoint,
// and for the thread at hand about 150 bytes for each channel of each checkpoint.
//
// Do not run graphs on these threads of dst meanwhile. Copy ends at the first error that is
// not about one checkpoint alone; the report says what was done before. The same call again
// continues.
func Copy(ctx context.Context, src Source, dst saver.Saver, o Options) (Report, error) {
	c := &copier{o: o, dst: dst}
	if err := each(ctx, src, &c.o, &c.rep, c.copy); err != nil {
		return c.rep, err
	}
	if err := dst.Sync(ctx); err != nil {
		return c.rep, err
	}
	return c.rep, c.verify(ctx)
}

// each calls do for every tuple of src, and counts and reports rejects.
func each(ctx context.Context, src Source, o *Options, rep *Report, do func(context.Context, *Tuple) error) error {
	done := 0
	for tup, err := range src.Tuples(ctx, o.Select) {
		if err == nil {
			err = do(ctx, tup)
		}
		var r *Rejected
		switch {
		case errors.As(err, &r):
			if err := o.reject(&rep.Rejected, r); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if done++; o.Progress != nil {
			o.Progress("copy", done)
		}
	}
	return ctx.Err()
}

func (o *Options) reject(count *int, r *Rejected) error {
	*count++
	if o.Reject == nil {
		return r
	}
	return o.Reject(r)
}

// withoutNUL returns tup with U+0000 removed from the texts of its metadata, as every saver does. It
// reports each original text as Rejected, so that it is not lost.
func (o *Options) withoutNUL(rep *Report, tup *Tuple) (*Tuple, error) {
	clean := tup
	for name, v := range tup.Metadata {
		text, ok := v.(string)
		if !ok || strings.IndexByte(text, 0) < 0 {
			continue
		}
		if clean == tup {
			c := *tup
			c.Metadata = maps.Clone(tup.Metadata)
			clean = &c
		}
		clean.Metadata[name] = strings.ReplaceAll(text, "\x00", "")
		r := &Rejected{Config: tup.Config, What: "field", Name: "metadata." + name, Kind: "text", Raw: []byte(text), Reason: errNUL}
		if err := o.reject(&rep.Rejected, r); err != nil {
			return nil, err
		}
	}
	return clean, nil
}

var errNUL = errors.New("savers store texts of metadata without U+0000; it was copied without")

// copier is one Copy.
type copier struct {
	o       Options
	dst     saver.Saver
	rep     Report
	track   tracker
	checks  []check
	threads string // the last thread that was counted
	ttls    []ttlCheck
}

// check is a checkpoint that the target must have.
type check struct {
	cfg saver.Config
	sum sum
}

// ttlCheck is a TTL that a thread of the target must have.
type ttlCheck struct {
	thread string
	ttl    time.Duration
}

// copy brings one tuple to the target.
func (c *copier) copy(ctx context.Context, tup *Tuple) error {
	c.track.begin(tup)
	tup, err := c.o.withoutNUL(&c.rep, tup)
	if err == nil {
		tup, err = c.o.placed(&c.rep, tup)
	}
	if err != nil {
		return err
	}
	have, err := c.track.resolve(tup)
	if err != nil {
		return &Rejected{Config: tup.Config, What: "checkpoint", Name: tup.Config.CheckpointID, Tuple: tup, Reason: err}
	}
	want, err := tup.digest(have)
	if err != nil {
		return &Rejected{Config: tup.Config, What: "checkpoint", Name: tup.Config.CheckpointID, Tuple: tup, Reason: err}
	}
	there, equal, err := c.there(ctx, tup.Config, want)
	if err != nil {
		return err
	}
	if there && !equal && !c.o.Replace {
		return &DiffersError{tup.Config}
	}
	if !equal {
		small := c.track.shrink(tup, have)
		if err := c.put(ctx, small); err != nil {
			if c.o.refused(err) {
				return &Rejected{Config: tup.Config, What: "checkpoint", Name: tup.Config.CheckpointID, Tuple: tup, Reason: err}
			}
			return err
		}
		if c.rep.Bytes += small.bytes(); there {
			if _, equal, err := c.there(ctx, tup.Config, want); err != nil || !equal {
				return errors.Join(&DiffersError{tup.Config}, err)
			}
			c.rep.Replaced++
		} else {
			c.rep.Copied++
		}
	}
	c.track.done(tup, have)
	c.checks = append(c.checks, check{tup.Config, want})
	c.rep.Checkpoints++
	c.rep.Writes += len(tup.Writes)
	if c.rep.Threads == 0 || c.threads != tup.Config.ThreadID {
		c.threads = tup.Config.ThreadID
		c.rep.Threads++
		return c.setTTL(ctx, tup)
	}
	return nil
}

// setTTL gives the thread of tup in the target its TTL. A thread that has the default in the source
// keeps the TTL it has in the target.
func (c *copier) setTTL(ctx context.Context, tup *Tuple) error {
	if tup.TTL == 0 {
		return nil
	}
	c.ttls = append(c.ttls, ttlCheck{tup.Config.ThreadID, tup.TTL})
	return c.dst.SetTTL(ctx, tup.Config.ThreadID, tup.TTL)
}

func (c *copier) put(ctx context.Context, tup *Tuple) error {
	req, err := tup.request()
	if err != nil {
		return &Rejected{Config: tup.Config, What: "checkpoint", Name: tup.Config.CheckpointID, Tuple: tup, Reason: err}
	}
	_, err = c.dst.PutRequest(ctx, req)
	return err
}

// there reports whether the target has a checkpoint, and whether its digest is want.
func (c *copier) there(ctx context.Context, cfg saver.Config, want sum) (there, equal bool, err error) {
	got, err := digestIn(ctx, c.dst, cfg)
	switch {
	case errors.Is(err, saver.ErrNotFound) || errors.Is(err, saver.ErrInvalid) || errors.Is(err, saver.ErrTooLarge):
		return false, false, nil // a name that the target cannot hold is refused by the put
	case errors.Is(err, saver.ErrCorrupt):
		return true, false, nil
	case err != nil:
		return false, false, err
	}
	return true, got == want, nil
}

// digestIn returns the digest of a checkpoint in s.
func digestIn(ctx context.Context, s saver.Saver, cfg saver.Config) (sum, error) {
	tup, err := readTuple(ctx, s, cfg)
	if err != nil {
		return sum{}, err
	}
	have, err := (&tracker{}).resolve(tup)
	if err != nil {
		return sum{}, err
	}
	return tup.digest(have)
}

// refused reports whether an error refuses one thing and nothing else.
func (o *Options) refused(err error) bool {
	var encode *serde.EncodeError
	for _, refusal := range []error{saver.ErrInvalid, saver.ErrTooLarge, saver.ErrThreadDeleted, serde.ErrDecodeLimit} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return errors.As(err, &encode) || o.Refused != nil && o.Refused(err)
}

// verify reads all that was copied back.
func (c *copier) verify(ctx context.Context) error {
	for _, k := range c.checks {
		got, err := digestIn(ctx, c.dst, k.cfg)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return &NotEqualError{k.cfg, err}
		case got != k.sum:
			return &NotEqualError{Config: k.cfg}
		}
		if c.rep.Verified++; c.o.Progress != nil {
			c.o.Progress("verify", c.rep.Verified)
		}
	}
	for _, k := range c.ttls {
		got, told, err := ttlOf(ctx, c.dst, k.thread)
		switch {
		case err != nil:
			return err
		case told && got != k.ttl:
			return &NotEqualError{saver.Config{ThreadID: k.thread}, fmt.Errorf("the TTL is %v, and not %v", got, k.ttl)}
		}
	}
	return nil
}
