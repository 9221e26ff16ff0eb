package wire

import (
	"github.com/tinylib/msgp/msgp"

	"github.com/stele-go/stele/saver"
)

func (f *fieldsOf) kept(l *saver.KeptList) {
	f.field("kept")
	f.b = msgp.AppendArrayHeader(f.b, uint32(len(l.Kept)))
	for i := range l.Kept {
		k := &l.Kept[i]
		g := beginFields(f.b)
		g.always("thread", k.ThreadID)
		g.always("ns", k.Namespace)
		g.always("id", k.CheckpointID)
		g.always("for", k.For)
		g.always("channel", k.Channel)
		g.always("reason", string(k.Reason))
		f.b = g.end()
	}
	f.count("kept_total", int64(l.KeptTotal))
}

// count is a number that is there if it is 0, too.
func (f *fieldsOf) count(field string, n int64) {
	f.field(field)
	f.b = msgp.AppendInt64(f.b, n)
}

func (r *reader) kept(name string, l *saver.KeptList) bool {
	switch name {
	case "kept_total":
		l.KeptTotal = r.number()
	case "kept":
		n := r.array()
		for range n {
			var k saver.Kept
			r.fields(false, func(name string) bool {
				switch name {
				case "thread":
					k.ThreadID = r.name()
				case "ns":
					k.Namespace = r.name()
				case "id":
					k.CheckpointID = r.name()
				case "for":
					k.For = r.name()
				case "channel":
					k.Channel = r.name()
				case "reason":
					k.Reason = saver.KeptReason(r.name())
				default:
					return false
				}
				return true
			})
			if r.err != nil {
				return true
			}
			l.Kept = append(l.Kept, k)
		}
	default:
		return false
	}
	return true
}

// AppendRemoval appends the answer of delete_for_runs and prune.
func AppendRemoval(b []byte, rem *saver.Removal) []byte {
	f := beginFields(b)
	f.count("checkpoints", int64(rem.Checkpoints))
	f.count("writes", int64(rem.Writes))
	f.kept(&rem.KeptList)
	return f.end()
}

// DecodeRemoval reads the answer of delete_for_runs and prune.
func DecodeRemoval(b []byte) (rem saver.Removal, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool {
		switch name {
		case "checkpoints":
			rem.Checkpoints = r.number()
		case "writes":
			rem.Writes = r.number()
		default:
			return r.kept(name, &rem.KeptList)
		}
		return true
	})
	return rem, r.end()
}

// Retain are the parameters of retain.
type Retain struct {
	named
	Policy saver.RetentionPolicy
	DryRun bool
}

// AppendTo appends the parameters.
func (p *Retain) AppendTo(b []byte) []byte {
	f := beginFields(b)
	f.names("threads", p.Policy.ThreadIDs)
	f.number("keep_last", int64(p.Policy.KeepLast))
	f.seconds("max_age", p.Policy.MaxAge)
	f.number("thread_bytes", p.Policy.ThreadBytes)
	f.number("store_bytes", p.Policy.StoreBytes)
	f.boolean("cut_anyway", p.Policy.CutAnyway)
	f.boolean("dry_run", p.DryRun)
	p.named.appendTo(&f)
	return f.end()
}

// DecodeRetain reads the parameters of retain.
func DecodeRetain(b []byte) (p Retain, err error) {
	r, a := &reader{b: b}, again(false)
	r.fields(true, func(name string) bool {
		switch name {
		case "threads":
			p.Policy.ThreadIDs = r.names()
		case "keep_last":
			p.Policy.KeepLast = r.number()
		case "max_age":
			p.Policy.MaxAge = r.seconds()
		case "thread_bytes":
			p.Policy.ThreadBytes = r.integer()
		case "store_bytes":
			p.Policy.StoreBytes = r.integer()
		case "cut_anyway":
			p.Policy.CutAnyway = r.boolean()
		case "dry_run":
			p.DryRun = r.boolean()
		default:
			return p.named.field(r, name, &a)
		}
		return true
	})
	p.named.settle(r, a)
	return p, r.end()
}

// AppendRetained appends the answer of retain.
func AppendRetained(b []byte, rep *saver.RetentionReport) []byte {
	f := beginFields(b)
	f.count("threads", int64(rep.Threads))
	f.count("checkpoints", int64(rep.Checkpoints))
	f.count("writes", int64(rep.Writes))
	f.count("bytes", rep.Bytes)
	f.count("left", rep.Left)
	f.field("over")
	f.b = appendNames(f.b, rep.Over)
	f.field("store_over")
	f.b = msgp.AppendBool(f.b, rep.StoreOver)
	f.kept(&rep.KeptList)
	return f.end()
}

// DecodeRetained reads the answer of retain.
func DecodeRetained(b []byte) (rep saver.RetentionReport, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool {
		switch name {
		case "threads":
			rep.Threads = r.number()
		case "checkpoints":
			rep.Checkpoints = r.number()
		case "writes":
			rep.Writes = r.number()
		case "bytes":
			rep.Bytes = r.integer()
		case "left":
			rep.Left = r.integer()
		case "over":
			if rep.Over = r.names(); len(rep.Over) == 0 {
				rep.Over = nil
			}
		case "store_over":
			rep.StoreOver = r.boolean()
		default:
			return r.kept(name, &rep.KeptList)
		}
		return true
	})
	return rep, r.end()
}

// Owned is the answer of own.
type Owned struct{ Lease, Epoch int64 }

// AppendTo appends the answer.
func (o *Owned) AppendTo(b []byte) []byte {
	f := beginFields(b)
	f.count("lease", o.Lease)
	f.count("epoch", o.Epoch)
	return f.end()
}

// DecodeOwned reads the answer of own.
func DecodeOwned(b []byte) (o Owned, err error) {
	r := &reader{b: b}
	r.fields(false, func(name string) bool {
		switch name {
		case "lease":
			o.Lease = r.integer()
		case "epoch":
			o.Epoch = r.integer()
		default:
			return false
		}
		return true
	})
	return o, r.end()
}

// AppendFigures appends the answer of stats.
func AppendFigures(b []byte, figures map[string]int64) []byte {
	b = msgp.AppendMapHeader(b, uint32(len(figures)))
	for _, name := range sorted(figures) {
		b = msgp.AppendInt64(appendName(b, name), figures[name])
	}
	return b
}

// DecodeFigures reads the answer of stats.
func DecodeFigures(b []byte) (map[string]int64, error) {
	r := &reader{b: b}
	out := map[string]int64{}
	r.table(func(name string) { out[name] = r.integer() })
	return out, r.end()
}
